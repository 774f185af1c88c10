package retry

import (
	"math/rand/v2"
	"time"

	exponential "github.com/cenkalti/backoff/v4"

	"github.com/onceward/onceward/backoff"
)

// minDelay keeps a draw near zero from becoming a second attempt on the heels of the first.
const minDelay = 10 * time.Millisecond

// Delays are one operation's waits, one after another. They are not safe for concurrent use: each operation
// has its own.
type Delays struct {
	ceilings *exponential.ExponentialBackOff
}

// NewDelays returns one operation's delays, from the first on. The policy is one that [backoff.Policy.Validate]
// takes.
func NewDelays(p backoff.Policy) *Delays {
	p = p.WithDefaults()
	return &Delays{ceilings: exponential.NewExponentialBackOff(
		exponential.WithInitialInterval(p.Initial),
		exponential.WithMaxInterval(p.Max),
		exponential.WithMultiplier(p.Multiplier),
		// The library's own jitter reaches beyond the maximum, so the draw is made in Next.
		exponential.WithRandomizationFactor(0),
		// Otherwise it stops after 15 minutes. How long an operation may take is for the journal's clock to say,
		// which survives a restart.
		exponential.WithMaxElapsedTime(0),
	)}
}

// Next returns the delay before the next attempt, and moves on. The delay has full jitter: an even draw from 10 ms up
// to a ceiling, so that clients which failed together do not come back together. The ceiling is
// [backoff.Policy].Initial at first and grows by Multiplier up to Max. A ceiling below 10 ms is itself the delay.
func (d *Delays) Next() time.Duration {
	ceiling := d.ceilings.NextBackOff()
	floor := min(minDelay, ceiling)
	return floor + rand.N(ceiling-floor+1)
}
