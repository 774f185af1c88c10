package retry

import (
	"math"
	"sync"
	"time"

	"github.com/onceward/onceward/backoff"
)

// NewBucket returns a full bucket: one for each provider. The budget is one that [backoff.Budget.Validate] takes.
func NewBucket(b backoff.Budget, now time.Time) *Bucket {
	b = b.WithDefaults()
	return &Bucket{budget: b, tokens: float64(b.Capacity), at: now}
}

// Bucket holds the tokens of a [backoff.Budget]. It is safe for concurrent use, starts no goroutine and reads no clock:
// every call passes the time. A clock may be set back: that takes no token away and adds none, and time goes on from
// there. Being behind by no more than ProbeEvery counts as standing still, since callers that read the clock at the
// same time don't arrive in order.
type Bucket struct {
	budget backoff.Budget // with its defaults

	mu     sync.Mutex
	tokens float64
	at     time.Time     // up to when time has been counted
	idle   time.Duration // since the last retry, at most ProbeEvery
}

// rounding is the missing fraction that still counts as a token, so the time from Take holds.
const rounding = 1e-12

// Take asks for a retry at now, and reports whether the retry is allowed. It takes a token if there is one. Otherwise
// it allows a probe if ProbeEvery has passed since the last retry. A probe takes no token.
//
// If the retry is not allowed, next is the time of the next token or probe, whichever is first. No earlier Take
// succeeds, unless a success returns a token. next reserves nothing: only one of the waiting callers gets the token.
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

// Success notes a good answer of the provider at now, and returns PerSuccess tokens. It makes no probe come earlier.
// Otherwise a provider that fails every other time would never run out of retries.
func (b *Bucket) Success(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass(now)
	b.add(b.budget.PerSuccess)
}

// Used returns the used share of the budget at now, from 0 to 1.
func (b *Bucket) Used(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass(now)
	return 1 - b.tokens/float64(b.budget.Capacity)
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

// untilToken returns how long the missing part of a token takes to come back, rounded up. The caller holds b.mu.
func (b *Bucket) untilToken() time.Duration {
	wait := math.Ceil((1 - b.tokens) / b.budget.Refill * float64(time.Second))
	if wait >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(wait)
}
