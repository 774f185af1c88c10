package onceward

import (
	"context"
	"time"
)

// pauseContext is the context under which a run waits between two attempts. It ends with
// the run's own and when the client is shut down, by which an attempt under way is not
// broken off.
type pauseContext struct {
	ctx       context.Context // the run's
	lifecycle *lifecycle
	merged    context.Context // of both; nil until somebody asked for its end, as is stop; under lifecycle.mu
	stop      context.CancelFunc
}

func (c *pauseContext) Deadline() (time.Time, bool) { return c.ctx.Deadline() }

func (c *pauseContext) Value(key any) any { return c.ctx.Value(key) }

func (c *pauseContext) Err() error {
	select {
	case <-c.lifecycle.closing:
		return context.Canceled
	default:
		return c.ctx.Err()
	}
}

// Done makes the channel when it is first asked for: few runs ever wait.
func (c *pauseContext) Done() <-chan struct{} {
	c.lifecycle.mu.Lock()
	defer c.lifecycle.mu.Unlock()
	if c.merged == nil {
		c.merged, c.stop = context.WithCancel(c.ctx)
		if c.lifecycle.shutdown {
			c.stop()
		}
	}
	return c.merged.Done()
}

// end lets go of what Done made. It is called under lifecycle.mu.
func (c *pauseContext) end() {
	if c.stop != nil {
		c.stop()
	}
}
