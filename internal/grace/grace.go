// Package grace limits what still has to be done once its caller's time is up.
package grace

import (
	"context"
	"time"
)

// Period is the time left to a store read or write after the caller's time is up. A store that is out keeps no
// caller for longer.
const Period = time.Second

// After returns a context with ctx's values that ends a Period after ctx has ended. If ctx has ended already, it
// ends a Period from now. Reads and writes that belong together share one. If ctx never ends, neither does the context.
func After(ctx context.Context) (context.Context, context.CancelFunc) {
	whole := context.WithoutCancel(ctx)
	if ctx.Err() != nil {
		return context.WithTimeout(whole, Period)
	}
	if ctx.Done() == nil {
		return whole, func() {}
	}
	own, cancel := context.WithCancel(whole)
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(Period)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-own.Done():
		}
	})
	return own, func() {
		stop()
		cancel()
	}
}

// Rollback ends a transaction, if it was not committed, also if ctx has ended.
func Rollback(ctx context.Context, tx interface{ Rollback(context.Context) error }) {
	ctx, cancel := After(ctx)
	defer cancel()
	_ = tx.Rollback(ctx) // after Commit it does nothing
}
