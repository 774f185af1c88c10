package onceward

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/journal"
)

// Wait returns an operation, with the answer, once any process has recorded an outcome. Wait sends nothing, and reads the
// journal at least once a second. A completed operation has no error, whatever the answer says. The error is ErrNotFound
// if the journal has no such operation. Other errors are an Error, with the operation:
//
//   - ErrNotSent for a cancelled operation
//   - ErrOutcomeUnknown for an unknown operation, with Config.Reconcile once the client has stopped looking
//   - ErrPending, ErrInFlight or ErrOutcomeUnknown, with the cause, if ctx ends or the client is shut down first
func (c *Client) Wait(ctx context.Context, ref Ref) (Operation, error) {
	for poll := 5 * time.Millisecond; ; poll = min(2*poll, time.Second) {
		finished := c.core.Singleflight.Finished(ref) // before Get, so that no end is missed
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
	e := errorOf(exchange.FailureOf(c.core, op, cause))
	return e.Operation, e
}

// Operation returns an operation as recorded, with the answer. The error is ErrNotFound if the journal has no such
// operation.
func (c *Client) Operation(ctx context.Context, ref Ref) (Operation, error) {
	op, err := c.core.Journal.Get(ctx, ref)
	if err != nil {
		return Operation{}, fmt.Errorf("onceward: look up an operation: %w", err)
	}
	return operationOf(&op), nil
}

// OperationByKey returns the operation whose first request carried key, named or not, for a caller that crashed and knows
// only the key. The request req is like the first request, and is not sent. Method, URL, account headers and context
// count. The error is ErrNotFound if the context's scope has no such operation.
func (c *Client) OperationByKey(req *http.Request, key Key) (Operation, error) {
	if req.URL == nil || req.URL.Host == "" {
		return Operation{}, errors.New("onceward: look up an operation by its key: the request has no URL")
	}
	op, err := c.engine.OperationByKey(req, string(key))
	if err != nil {
		return Operation{}, fmt.Errorf("onceward: look up an operation by its key: %w", err)
	}
	return operationOf(&op), nil
}

// Filter selects operations for Operations. The zero Filter selects all.
type Filter struct {
	States []State // Empty means every state
	Scope  *string // Nil means every scope
	Limit  int     // Zero means no limit

	// NeedsAttention selects the operations that a person has to look at: see docs/runbook.md.
	NeedsAttention bool
}

// Operations yields the recorded operations, oldest first, without answers. The sequence ends after the first error.
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
