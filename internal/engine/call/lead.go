package call

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// Lead waits until the call leads its name's flight, or another call's flight has an answer.
func (k *Call) Lead() (*core.Flight, exchange.Answer, error) {
	for {
		f, leader := k.client.Singleflight.Join(k.ref, &k.flight)
		if leader {
			return f, exchange.Answer{}, nil
		}
		op, err := k.follow(f)
		if err != nil {
			return nil, exchange.Answer{}, k.GaveUpWaiting(nil)
		}
		if op != nil && k.mayShare(op) && !op.AnswerMissing() {
			a, err := k.Answer(op, shared(op))
			a.Source = exchange.Shared
			return nil, a, err
		}
		if op == nil || op.State != journal.StateCancelled {
			continue
		}
		if err := k.WaitRetryAfter(f.RetryAfter); err != nil {
			return nil, exchange.Answer{}, err
		}
	}
}

// WaitRetryAfter waits for a time named by the provider. The provider named the time to another call, or to an attempt
// of this operation without an effect, by a look-up. Callers that were already waiting also honor the time. A caller
// with an earlier deadline fails immediately.
func (k *Call) WaitRetryAfter(until time.Time) error {
	c := k.client
	pause := until.Sub(c.Now())
	switch {
	case pause <= 0 || c.Sleep(k.ctx, pause, k.ends):
		return nil
	case k.ctx.Err() != nil:
		return k.notBegun(context.Cause(k.ctx))
	case c.Lifecycle.IsShutdown():
		return k.Fail(fault.ErrShutdown, nil)
	}
	return k.notBegun(fmt.Errorf("its provider asked for a pause until %s", until.UTC().Format(time.RFC3339)))
}

// LookUp looks once for an unknown operation, within the call's time. It returns the resulting operation if the look-up
// may have changed anything, and otherwise nil.
func (k *Call) LookUp(op *journal.Operation) *journal.Operation {
	c := k.client
	switch {
	case k.lookedUp || !c.Finder.Enabled() || !c.Now().Before(k.ends):
		return nil
	case seam.IsOfFlow(op.Parent) && op.Looks > 0:
		return nil // a flow asks again and again: Run looks for the operation that it waits for
	}
	ctx, cancel := c.Until(k.ctx, k.ends)
	defer cancel()
	found, err := c.Finder.LookNow(ctx, op, &reconcile.Pass{Caller: k.req, Query: k.query, Actor: "who asked for it"})
	if err != nil || found.State == journal.StateUnknown {
		return nil
	}
	k.lookedUp = true
	return found
}

// follow waits for another goroutine's call, within this one's time.
func (k *Call) follow(f *core.Flight) (*journal.Operation, error) {
	ctx, cancel := k.client.Until(k.ctx, k.ends)
	defer cancel()
	select {
	case <-f.Done():
		return f.Operation(), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-k.client.Lifecycle.Closing():
		return nil, fault.ErrShutdown
	}
}

// mayShare reports whether another call's outcome is also this call's.
func (k *Call) mayShare(op *journal.Operation) bool {
	if k.intent.Another(op) || op.Tombstone {
		return false
	}
	return op.State == journal.StateCompleted || op.State == journal.StateUnknown ||
		op.State == journal.StatePending && op.DueAt.After(k.client.Now())
}

// shared returns the decision that the journal would give on a shared operation.
func shared(op *journal.Operation) machine.Decision {
	switch op.State {
	case journal.StateCompleted:
		return machine.Replay
	case journal.StateUnknown:
		return machine.Stop
	}
	return machine.Later
}
