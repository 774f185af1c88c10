// Package backoff has the numbers by which a client waits before the next attempt: the [Policy] of one operation, which
// is exponential with full jitter, and the [Budget] of retries that a provider gets from everybody together.
package backoff

import (
	"fmt"
	"math"
	"time"
)

// What the zero fields of a [Policy] mean.
const (
	DefaultInitial       = 500 * time.Millisecond
	DefaultMax           = 30 * time.Second
	DefaultMultiplier    = 2.0
	DefaultMaxAttempts   = 5
	DefaultMaxRetryAfter = 24 * time.Hour
)

// Policy says how often an operation is tried in one call, and how long it waits in between. The zero value is ready
// to use. With it, the delays before the second to the fifth attempt are drawn from up to 0.5 s, 1 s, 2 s and 4 s.
// A Policy is a value and safe for concurrent use.
type Policy struct {
	// Initial is the longest delay before the second attempt; 0 means [DefaultInitial].
	Initial time.Duration
	// Max is what the longest delay grows to; 0 means [DefaultMax]. It does not bound a wait that the provider asked
	// for; MaxRetryAfter does.
	Max time.Duration
	// Multiplier is the factor from one attempt's longest delay to the next's, at least 1; 0 means
	// [DefaultMultiplier].
	Multiplier float64
	// MaxAttempts counts the attempts on the wire, the first included, so 1 never retries; 0 means
	// [DefaultMaxAttempts].
	MaxAttempts int
	// MaxRetryAfter is how long a wait asked for by the provider is believed at most; 0 means
	// [DefaultMaxRetryAfter].
	MaxRetryAfter time.Duration
}

// PolicyError says which field of a [Policy] or [Budget] can't be used, and why.
type PolicyError struct {
	// Field is the field's name.
	Field string
	// Reason completes the sentence that begins with the field's name.
	Reason string
}

// Error names the field and the reason.
func (e *PolicyError) Error() string { return fmt.Sprintf("backoff: %s %s", e.Field, e.Reason) }

// Validate returns a [*PolicyError] for the first field that can't be used: one that is negative, a Multiplier below 1
// or without end, or a Max below Initial, with their defaults in place of zeros.
func (p Policy) Validate() error {
	switch d := p.WithDefaults(); {
	case p.Initial < 0:
		return &PolicyError{Field: "Initial", Reason: "is negative"}
	case p.Max < 0:
		return &PolicyError{Field: "Max", Reason: "is negative"}
	case p.MaxAttempts < 0:
		return &PolicyError{Field: "MaxAttempts", Reason: "is negative"}
	case p.MaxRetryAfter < 0:
		return &PolicyError{Field: "MaxRetryAfter", Reason: "is negative"}
	case p.Multiplier != 0 && !usable(p.Multiplier):
		return &PolicyError{Field: "Multiplier", Reason: "is not a finite number of at least 1"}
	case d.Max < d.Initial:
		return &PolicyError{Field: "Max", Reason: fmt.Sprintf("(%v) is less than Initial (%v)", d.Max, d.Initial)}
	}
	return nil
}

// WithDefaults returns p with its zero fields filled in.
func (p Policy) WithDefaults() Policy {
	if p.Initial == 0 {
		p.Initial = DefaultInitial
	}
	if p.Max == 0 {
		p.Max = DefaultMax
	}
	if p.Multiplier == 0 {
		p.Multiplier = DefaultMultiplier
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = DefaultMaxAttempts
	}
	if p.MaxRetryAfter == 0 {
		p.MaxRetryAfter = DefaultMaxRetryAfter
	}
	return p
}

func usable(multiplier float64) bool { return multiplier >= 1 && !math.IsInf(multiplier, 1) }
