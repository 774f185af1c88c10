package backoff

import (
	"math"
	"time"
)

// What the zero fields of a [Budget] mean. A fifth of a retry for each success is what the AWS SDK for Go v2 gives back
// for a call that needed no retry (1 token, of which a retry costs 5, out of 500: aws/retry/standard.go, v1.47.6), and
// what Finagle allows (20 % of the calls: RetryBudget.scala); the 100 retries in hand are the AWS SDK's too. gRPC's
// example is stricter, with a tenth and 10 tokens (proposal A6, "Throttling Configuration").
const (
	DefaultCapacity   = 100
	DefaultRefill     = 0.1
	DefaultPerSuccess = 0.2
	DefaultProbeEvery = time.Second
)

// Budget says how many retries a provider gets from everybody in this process together, so that one that is down or
// overloaded meets about the load it would have had without them. Each retry takes a token; first
// attempts are free. The zero value is ready to use: 100 retries in hand; in the long run one for every five successes
// and one every ten seconds; and once these are used up, one a second. A Budget is a value and safe for concurrent use.
type Budget struct {
	// Capacity is how many tokens there are at first and at most; 0 means [DefaultCapacity]. [math.MaxInt] never
	// refuses.
	Capacity int
	// Refill is how many tokens come back in each second, whatever happens; 0 means [DefaultRefill].
	Refill float64
	// PerSuccess is how many tokens a success puts back; 0 means [DefaultPerSuccess]. It is the ratio of retries to
	// successes that can go on for ever; from 1 on it hardly limits anything but a provider that always fails.
	PerSuccess float64
	// ProbeEvery is how long after the last retry a further one is let through without a token, a probe, so that a
	// provider that came back is noticed; 0 means [DefaultProbeEvery].
	ProbeEvery time.Duration
}

// Validate returns a [*PolicyError] for the first field that can't be used: one that is negative, or a number without
// end.
func (b Budget) Validate() error {
	switch {
	case b.Capacity < 0:
		return &PolicyError{Field: "Capacity", Reason: "is negative"}
	case !countable(b.Refill):
		return &PolicyError{Field: "Refill", Reason: "is not a finite number of at least 0"}
	case !countable(b.PerSuccess):
		return &PolicyError{Field: "PerSuccess", Reason: "is not a finite number of at least 0"}
	case b.ProbeEvery < 0:
		return &PolicyError{Field: "ProbeEvery", Reason: "is negative"}
	}
	return nil
}

// WithDefaults returns b with its zero fields filled in.
func (b Budget) WithDefaults() Budget {
	if b.Capacity == 0 {
		b.Capacity = DefaultCapacity
	}
	if b.Refill == 0 {
		b.Refill = DefaultRefill
	}
	if b.PerSuccess == 0 {
		b.PerSuccess = DefaultPerSuccess
	}
	if b.ProbeEvery == 0 {
		b.ProbeEvery = DefaultProbeEvery
	}
	return b
}

func countable(n float64) bool { return n >= 0 && !math.IsInf(n, 1) }
