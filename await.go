package onceward

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/core"
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
		op, err := c.look(ctx, ref)
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

// look reads an operation, once more for who has no time left.
func (c *Client) look(ctx context.Context, ref Ref) (journal.Operation, error) {
	op, err := c.core.Journal.Get(ctx, ref)
	if err == nil || ctx.Err() == nil {
		return op, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	return c.core.Journal.Get(ctx, ref)
}

func (c *Client) waited(op *journal.Operation, cause error) (Operation, error) {
	e := &Error{Operation: operationOf(op), Kind: core.KindOf(op.State), Err: cause}
	e.InBackground = op.State == journal.StatePending && c.core.InBackground(op, &op.Request)
	if u := core.Parsed(op.Request.URL); u != nil {
		e.target = core.Target(op.Request.Method, u)
	}
	return e.Operation, e
}
