package backoff

import (
	"math"
	"sync"
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
// overloaded meets about the load it would have had without them. Each retry takes a token out of a [Bucket]; first
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

// Start returns a full bucket: one for each provider. A b that [Budget.Validate] refuses gives no error here: a field
// that can't be used counts as zero.
func (b Budget) Start(now time.Time) *Bucket {
	b.Capacity, b.ProbeEvery = max(b.Capacity, 0), max(b.ProbeEvery, 0)
	if !countable(b.Refill) {
		b.Refill = 0
	}
	if !countable(b.PerSuccess) {
		b.PerSuccess = 0
	}
	b = b.WithDefaults()
	return &Bucket{budget: b, tokens: float64(b.Capacity), at: now}
}

// Bucket holds the tokens of a [Budget]. It is safe for concurrent use, starts no goroutine and reads no clock: every
// call says what time it is. A clock may be set back: that takes no token away and adds none, and time goes on from
// there. Being behind by no more than ProbeEvery counts as standing still, since callers that read the clock at the
// same time don't arrive in order.
type Bucket struct {
	budget Budget // with its defaults

	mu     sync.Mutex
	tokens float64
	at     time.Time     // up to when time has been counted
	idle   time.Duration // since the last retry, at most ProbeEvery
}

// rounding is what a token may lack, so that one is there at the time that Take gave for it.
const rounding = 1e-12

// Take asks for a retry at now, and reports whether it may be made. It may if there is a token, which it takes, or, as
// a probe, if ProbeEvery has passed since the last retry that was let through; a probe takes no token.
//
// If not, next is when the next token or probe comes, whichever is first: unless a success puts a token back, no Take
// succeeds before it. It reserves nothing: of all that wait for it, one gets it.
func (b *Bucket) Take(now time.Time) (ok bool, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass(now)
	probe := b.budget.ProbeEvery - b.idle
	switch {
	case b.tokens >= 1-rounding:
		b.tokens = max(b.tokens-1, 0)
	case probe > 0:
		return false, b.at.Add(min(probe, b.untilToken()))
	}
	b.idle = 0
	return true, time.Time{}
}

// Success notes at now that the provider has answered as it should, and puts PerSuccess tokens back. It makes no probe
// come earlier: a provider that fails every other time would else never run out of retries.
func (b *Bucket) Success(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass(now)
	b.add(b.budget.PerSuccess)
}

// pass lets the time go by until now; b.mu is held.
func (b *Bucket) pass(now time.Time) {
	elapsed := now.Sub(b.at)
	switch {
	case elapsed > 0:
		b.add(elapsed.Seconds() * b.budget.Refill)
		b.idle += min(elapsed, b.budget.ProbeEvery-b.idle)
	case elapsed >= -b.budget.ProbeEvery:
		return
	}
	b.at = now
}

// add puts tokens in, as far as they fit; b.mu is held.
func (b *Bucket) add(tokens float64) {
	b.tokens = min(b.tokens+tokens, float64(b.budget.Capacity))
}

// untilToken is how long the missing part of a token takes to come back, rounded up; b.mu is held.
func (b *Bucket) untilToken() time.Duration {
	wait := math.Ceil((1 - b.tokens) / b.budget.Refill * float64(time.Second))
	if wait >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(wait)
}

func countable(n float64) bool { return n >= 0 && !math.IsInf(n, 1) }
