package onceward

import (
	"context"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/journal"
)

// attemptContext is the context of one attempt: the run's, but that it names no
// operation, and ends at the attempt's deadline or sooner. It may be used concurrently.
type attemptContext struct {
	context.Context
	end      context.CancelCauseFunc
	deadline *time.Timer
	trace    connTrace // how far the attempt has got

	mu        sync.Mutex
	more      *time.Timer // after deadline; nil: none yet
	unbounded bool
}

func (c *attemptContext) Value(key any) any {
	if key == attemptKey {
		return c
	}
	if nothing, is := naming.Hidden(key); is {
		return nothing
	}
	return c.Context.Value(key)
}

// traced is the context of an attempt that a hook returned for given, and that may be sent under: one that is not
// derived of given is not, since it would neither end with the attempt nor tell how far that got; one that was made not
// to end with given does.
func (c *attemptContext) traced(given, returned context.Context) context.Context {
	switch {
	case returned.Value(attemptKey) != any(c):
		return given
	case returned.Done() == given.Done():
		return returned
	}
	ctx, end := context.WithCancelCause(returned)
	context.AfterFunc(given, func() { end(context.Cause(given)) })
	return ctx
}

// startContext makes the context of the attempt that was started. To break it off makes room
// for another one; where that would not be allowed, it may take all of the call's time
// once it has a connection.
func (r *run) startContext() *attemptContext {
	c := r.contextFor(r.client.cfg.AttemptTimeout, errAttemptTimeout)
	if rest := r.ends.Sub(r.attempt.started) - r.client.cfg.AttemptTimeout; rest > 0 && !r.mayFollow(r.attempt.started.Add(r.client.cfg.AttemptTimeout)) {
		c.extendDeadline(r.client.cfg.AttemptTimeout, rest)
	}
	return c
}

// extendDeadline lets an attempt that is not known to be connecting still take so much more.
func (c *attemptContext) extendDeadline(first, rest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline.Stop()
	if c.unbounded {
		return
	}
	c.deadline = time.AfterFunc(first, func() {
		if c.trace.asked.Load() && !c.trace.got.Load() {
			c.end(errAttemptTimeout)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.unbounded {
			c.more = time.AfterFunc(rest, func() { c.end(errOutOfTime) })
		}
	})
}

// mayFollow asks the resend rule for another attempt after one that is broken off.
func (r *run) mayFollow(brokenOff time.Time) bool {
	q := r.question(brokenOff)
	q.MayHaveRun, q.LastEndedAt = true, brokenOff
	return journal.MaySend(q).Answer != journal.Never
}

// contextFor makes a context that ends, for cause, in a time within the run's. Shutdown can
// break off what is under way under it.
func (r *run) contextFor(left time.Duration, cause error) *attemptContext {
	ctx, end := context.WithCancelCause(r.ctx)
	if rest := r.ends.Sub(r.attempt.started); rest < left {
		left, cause = rest, errOutOfTime
	}
	c := &attemptContext{Context: ctx, end: end, deadline: time.AfterFunc(left, func() { end(cause) })}
	r.sending.Store(c)
	return c
}

// removeDeadline lets the attempt take any time.
func (c *attemptContext) removeDeadline() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unbounded = true
	c.deadline.Stop()
	if c.more != nil {
		c.more.Stop()
	}
}

func (c *attemptContext) cancel(cause error) {
	c.removeDeadline()
	c.end(cause)
}
