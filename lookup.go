package onceward

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
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

// Lookup returns an operation as it is recorded, its answer included: for callers
// whose SDK hides the response. The error of one that the journal does not have
// is ErrNotFound.
func (c *Client) Lookup(ctx context.Context, ref Ref) (Operation, error) {
	op, err := c.core.Journal.Get(ctx, ref)
	if err != nil {
		return Operation{}, fmt.Errorf("onceward: look up an operation: %w", err)
	}
	return operationOf(&op), nil
}

// LookupKey returns the operation whose first request carried key, with or without a name, as it is recorded. It is for a
// caller that crashed and knows only its key. req is a request like the first one. Its method, URL, account headers and
// context count (see WithScope and WithAccount), and it is not sent. The error is ErrNotFound if the journal has no such
// operation in that scope.
func (c *Client) LookupKey(req *http.Request, key Key) (Operation, error) {
	if req.URL == nil || req.URL.Host == "" {
		return Operation{}, errors.New("onceward: look up an operation by its key: the request has no URL")
	}
	op, err := c.engine.LookupKey(req, string(key))
	if err != nil {
		return Operation{}, fmt.Errorf("onceward: look up an operation by its key: %w", err)
	}
	return operationOf(&op), nil
}

// Filter selects operations for Operations. The zero Filter selects all.
type Filter struct {
	States []State // none: every state
	Scope  *string // nil: every scope
	Limit  int     // 0: no limit

	// NeedsAttention selects the operations that need attention: those with a reason in Operation.Attention, and unknown ones
	// that no process looks for.
	NeedsAttention bool
}

// Operations yields the recorded operations, oldest first, without their answers.
// It ends after the first error.
func (c *Client) Operations(ctx context.Context, f Filter) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		filter := journal.Filter{States: f.States, Scope: f.Scope, Limit: f.Limit}
		if f.NeedsAttention {
			filter.NeedsAttention = c.core.Now()
		}
		for op, err := range c.core.Journal.List(ctx, filter) {
			if !yield(operationOf(&op), err) || err != nil {
				return
			}
		}
	}
}
