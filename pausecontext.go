package onceward

import (
	"context"
	"sync/atomic"
	"time"
)

// pauseContext is the context under which a run waits between two attempts. It ends with
// the run's own and when the client is shut down, by which an attempt under way is not
// broken off, and with the run: what is derived from it may outlive that for a moment, and
// package context panics where Done is closed and Err tells of nothing.
type pauseContext struct {
	ctx       context.Context // the run's
	lifecycle *lifecycle
	merged    context.Context // of both; nil until somebody asked for its end, as is stop; under lifecycle.mu
	stop      context.CancelFunc
	ended     atomic.Bool // set under lifecycle.mu
}

func (c *pauseContext) Deadline() (time.Time, bool) { return c.ctx.Deadline() }

func (c *pauseContext) Value(key any) any { return c.ctx.Value(key) }

func (c *pauseContext) Err() error {
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
func (c *pauseContext) Done() <-chan struct{} {
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
func (c *pauseContext) end() {
	c.ended.Store(true)
	if c.stop != nil {
		c.stop()
	}
}
