package backoff

import (
	"cmp"
	"math"
	"time"
)

// The defaults of a [Budget]. 100 retries in hand and a fifth of a retry for each success come from the AWS SDK for Go
// v2. The SDK gives back 1 token for a call without a retry, out of 500, and a retry costs 5 (aws/retry/standard.go,
// v1.47.6). Finagle allows 20 % of the calls (RetryBudget.scala). gRPC's example is stricter, with a tenth and 10 tokens
// (proposal A6, "Throttling Configuration").
const (
	DefaultCapacity   = 100
	DefaultRefill     = 0.1
	DefaultPerSuccess = 0.2
	DefaultProbeEvery = time.Second
)

// Budget limits the retries from all operations in this process to one provider together. A provider in an outage or
// overload then gets little more load than without retries. Each retry takes a token. First attempts are free, unless a
// caller asks again for an operation which an earlier call may have sent.
//
// The zero value is ready to use, with 100 retries in hand. A zero Budget gains one retry for every five successes and
// one every ten seconds. Once these are used up, one retry a second is allowed. A Budget is a value and safe for
// concurrent use.
type Budget struct {
	// Capacity is how many tokens there are at first, and the most at any time. With [math.MaxInt] the budget never
	// refuses a retry. Zero means [DefaultCapacity].
	Capacity int
	// Refill is how many new tokens come each second. Zero means [DefaultRefill].
	Refill float64
	// PerSuccess is how many tokens a success puts back. This ratio of retries to successes can go on for ever.
	// From 1 on, PerSuccess hardly limits a provider, except one that always fails. Zero means [DefaultPerSuccess].
	PerSuccess float64
	// ProbeEvery is the time after the last retry from which one more may go without a token. Such a probe shows that the
	// provider is back. Zero means [DefaultProbeEvery].
	ProbeEvery time.Duration
}

// Validate returns a [*PolicyError] for the first field that is negative or not a finite number.
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
	b.Capacity = cmp.Or(b.Capacity, DefaultCapacity)
	b.Refill = cmp.Or(b.Refill, DefaultRefill)
	b.PerSuccess = cmp.Or(b.PerSuccess, DefaultPerSuccess)
	b.ProbeEvery = cmp.Or(b.ProbeEvery, DefaultProbeEvery)
	return b
}

func countable(n float64) bool { return n >= 0 && !math.IsInf(n, 1) }
