// Package backoff has the settings for retries. A [Policy] sets the delays between the attempts of one operation: they
// grow exponentially, with full jitter. A [Budget] limits the retries that all operations with one provider make together.
package backoff

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// The defaults of a [Policy].
const (
	DefaultInitial       = 500 * time.Millisecond
	DefaultMax           = 30 * time.Second
	DefaultMultiplier    = 2.0
	DefaultMaxAttempts   = 5
	DefaultMaxRetryAfter = 24 * time.Hour
)

// Policy sets how many attempts one call makes, and the delays between them. The zero value is ready to use: five
// attempts, with delays drawn from up to 0.5 s, 1 s, 2 s and 4 s. A Policy is a value and safe for concurrent use.
type Policy struct {
	// Initial is the longest delay before the second attempt. Zero means [DefaultInitial].
	Initial time.Duration
	// Max bounds the longest delay. A wait that the provider asks for is bounded by MaxRetryAfter instead. Zero means
	// [DefaultMax].
	Max time.Duration
	// Multiplier is the factor from one attempt's longest delay to the next's, at least 1. Zero means
	// [DefaultMultiplier].
	Multiplier float64
	// MaxAttempts bounds the attempts on the wire, including the first. 1 never retries. Zero means
	// [DefaultMaxAttempts].
	MaxAttempts int
	// MaxRetryAfter bounds a wait that the provider asks for. Zero means [DefaultMaxRetryAfter].
	MaxRetryAfter time.Duration
}

// PolicyError names the invalid field of a [Policy] or [Budget], and the reason.
type PolicyError struct {
	// Field is the field's name.
	Field string
	// Reason completes the sentence that begins with the field's name.
	Reason string
}

// Error names the field and the reason.
func (e *PolicyError) Error() string { return fmt.Sprintf("backoff: %s %s", e.Field, e.Reason) }

// Validate returns a [*PolicyError] for the first invalid field. These are invalid: a negative field, a Multiplier below 1
// or infinite, and a Max below Initial. A zero field counts as its default.
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
	p.Initial = cmp.Or(p.Initial, DefaultInitial)
	p.Max = cmp.Or(p.Max, DefaultMax)
	p.Multiplier = cmp.Or(p.Multiplier, DefaultMultiplier)
	p.MaxAttempts = cmp.Or(p.MaxAttempts, DefaultMaxAttempts)
	p.MaxRetryAfter = cmp.Or(p.MaxRetryAfter, DefaultMaxRetryAfter)
	return p
}

func usable(multiplier float64) bool { return multiplier >= 1 && !math.IsInf(multiplier, 1) }
