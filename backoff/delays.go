package backoff

import (
	"math/rand/v2"
	"time"

	exponential "github.com/cenkalti/backoff/v4"
)

// minDelay keeps a draw near zero from becoming a second attempt on the heels of the first.
const minDelay = 10 * time.Millisecond

// Delays are the waits of one operation, one after another. They are not safe for concurrent use: each operation
// starts its own.
type Delays struct {
	ceilings *exponential.ExponentialBackOff
}

// Start returns the delays of one operation, from the first on. A p that [Policy.Validate] refuses gives no error
// here: a field that can't be used counts as zero, and a Max below Initial as Initial.
func (p Policy) Start() *Delays {
	p.Initial, p.Max = max(p.Initial, 0), max(p.Max, 0)
	if !usable(p.Multiplier) {
		p.Multiplier = 0
	}
	p = p.WithDefaults()
	return &Delays{ceilings: exponential.NewExponentialBackOff(
		exponential.WithInitialInterval(p.Initial),
		exponential.WithMaxInterval(max(p.Max, p.Initial)),
		exponential.WithMultiplier(p.Multiplier),
		// The library's own jitter reaches beyond the maximum, so the draw is made in Next.
		exponential.WithRandomizationFactor(0),
		// Otherwise it stops after 15 minutes. How long an operation may take is for the journal's clock to say,
		// which survives a restart.
		exponential.WithMaxElapsedTime(0),
	)}
}

// Next returns how long to wait before the next attempt, and moves on. The delay has full jitter: it is drawn evenly
// from 10 ms up to a ceiling, which is [Policy].Initial at first and grows by Multiplier until it is Max. Clients that
// failed together thus don't come back together. Where the ceiling is below 10 ms, the delay is the ceiling.
func (d *Delays) Next() time.Duration {
	ceiling := d.ceilings.NextBackOff()
	floor := min(minDelay, ceiling)
	return floor + rand.N(ceiling-floor+1)
}
