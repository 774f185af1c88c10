package core

import (
	"context"
	"sync/atomic"
	"time"
)

// PauseContext is the context under which a run waits between two attempts. It ends with the run's context, with the
// run itself, and when the client is shut down. Shutdown does not break off an attempt under way.
//
// A context derived from it may outlive the run for a moment. Err is never nil then, because package context panics
// if Done is closed and Err returns nil.
type PauseContext struct {
	ctx       context.Context // the run's
	lifecycle *Lifecycle
	merged    context.Context // of both; nil until the first call of Done, as is stop; under lifecycle.mu
	stop      context.CancelFunc
	ended     atomic.Bool // set under lifecycle.mu
}

// NewPauses returns the context for a run's pauses under ctx. It is not to be copied.
func (l *Lifecycle) NewPauses(ctx context.Context) PauseContext {
	return PauseContext{ctx: ctx, lifecycle: l}
}

// Under moves the run to another context. It must be called before the first call to Done.
func (c *PauseContext) Under(ctx context.Context) { c.ctx = ctx }

// Deadline returns the run context's deadline.
func (c *PauseContext) Deadline() (time.Time, bool) { return c.ctx.Deadline() }

// Value returns the run context's value.
func (c *PauseContext) Value(key any) any { return c.ctx.Value(key) }

// Err returns why the pause is over, or nil if it is not.
func (c *PauseContext) Err() error {
	select {
	case <-c.lifecycle.closing:
		return context.Canceled
	default:
	}
	if err := c.ctx.Err(); err != nil || !c.ended.Load() {
		return err
	}
	return context.Canceled
}

// Done makes the channel when it is first asked for: few runs ever wait.
func (c *PauseContext) Done() <-chan struct{} {
	c.lifecycle.mu.Lock()
	defer c.lifecycle.mu.Unlock()
	if c.merged == nil {
		c.merged, c.stop = context.WithCancel(c.ctx)
		if c.lifecycle.shutdown || c.ended.Load() {
			c.stop()
		}
	}
	return c.merged.Done()
}

// end lets go of what Done made. It is called under lifecycle.mu.
func (c *PauseContext) end() {
	c.ended.Store(true)
	if c.stop != nil {
		c.stop()
	}
}
