package onceward

import (
	"time"

	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// startContext makes the context of the attempt that was started. To break it off makes room
// for another one; where that would not be allowed, it may take all of the call's time
// once it has a connection.
func (r *run) startContext() *wire.AttemptContext {
	c := r.contextFor(r.client.core.AttemptTimeout, wire.ErrAttemptTimeout)
	if rest := r.ends.Sub(r.attempt.started) - r.client.core.AttemptTimeout; rest > 0 && !r.mayFollow(r.attempt.started.Add(r.client.core.AttemptTimeout)) {
		c.ExtendDeadline(r.client.core.AttemptTimeout, rest)
	}
	return c
}

// mayFollow asks the resend rule for another attempt after one that is broken off.
func (r *run) mayFollow(brokenOff time.Time) bool {
	q := r.question(brokenOff)
	q.MayHaveRun, q.LastEndedAt = true, brokenOff
	return journal.MaySend(q).Answer != journal.Never
}

// contextFor makes a context that ends, for cause, in a time within the run's. Shutdown can
// break off what is under way under it.
func (r *run) contextFor(left time.Duration, cause error) *wire.AttemptContext {
	if rest := r.ends.Sub(r.attempt.started); rest < left {
		left, cause = rest, wire.ErrOutOfTime
	}
	c := wire.NewAttemptContext(r.ctx, left, cause)
	r.sending.Store(c)
	return c
}
