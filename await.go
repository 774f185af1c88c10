package onceward

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/engine"
	"github.com/onceward/onceward/journal"
)

// Wait returns an operation once it has an outcome, its answer included: whoever sends
// it, here or in another process. It sends nothing itself, and looks into the journal at
// least once a second.
//
// The error of a completed operation is nil, whatever its answer says. It is an Error
// with ErrNotSent for one that is cancelled, with ErrOutcomeUnknown for one that is
// unknown, which Resolve may still settle: at once, or with Config.Reconcile, which has
// its provider, once nothing is looked for any more or ctx ends; and with ErrPending or ErrInFlight, and the
// cause, where ctx ends or the client is shut down first: Error.InBackground tells
// whether Run or Resume would send it. The operation is returned in each case. The error
// of one that the journal does not have is ErrNotFound, at once.
func (c *Client) Wait(ctx context.Context, ref Ref) (Operation, error) {
	for poll := 5 * time.Millisecond; ; poll = min(2*poll, time.Second) {
		finished := c.core.Singleflight.Finished(ref) // before the look, so that none is missed
		op, err := c.core.Read(ctx, ref)
		switch {
		case err != nil:
			return Operation{}, fmt.Errorf("onceward: wait for an operation: %w", err)
		case op.State == journal.StateCompleted:
			return operationOf(&op), nil
		case op.State == journal.StateCancelled || op.State == journal.StateUnknown && !(c.finder.StillLooks(&op) && (op.Provider == "" || c.core.Recorded(op.Provider) != nil)):
			return c.waited(&op, nil)
		}
		select {
		case <-time.After(poll):
		case <-finished:
		case <-ctx.Done():
			return c.waited(&op, context.Cause(ctx))
		case <-c.core.Lifecycle.Closing():
			return c.waited(&op, ErrShutdown)
		}
	}
}

func (c *Client) waited(op *journal.Operation, cause error) (Operation, error) {
	e := errorOf(engine.FailureOf(c.core, op, cause))
	return e.Operation, e
}
