package onceward

import (
	"context"
	"time"
)

// waits is the run as the context under which go-retryablehttp waits between two
// attempts. It ends with the run's own context and when the client is shut down,
// by which an attempt under way is not broken off.
type waits run

func (w *waits) Deadline() (time.Time, bool) { return w.ctx.Deadline() }

func (w *waits) Value(key any) any { return w.ctx.Value(key) }

func (w *waits) Err() error {
	select {
	case <-w.closing:
		return context.Canceled
	default:
		return w.ctx.Err()
	}
}

// Done makes the channel when it is first asked for: few runs ever wait.
func (w *waits) Done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.merged == nil {
		w.merged, w.stop = context.WithCancel(w.ctx)
		if w.shutdown {
			w.stop()
		}
	}
	return w.merged.Done()
}
