package call

import (
	"context"
	"errors"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// failed returns the error for a journal that did not take the intent.
func (k *Call) failed(err error) error {
	switch {
	case k.ctx.Err() != nil:
		return k.notBegun(context.Cause(k.ctx))
	case errors.Is(err, fault.ErrShutdown):
		return k.Fail(fault.ErrShutdown, nil)
	case errors.Is(err, journal.ErrRestored):
		return k.Fail(journal.ErrRestored, err)
	case errors.Is(err, fault.ErrNotSent), !k.intent.NotAfter.IsZero() && errors.Is(err, journal.ErrInvalidEvent):
		return k.notBegun(err)
	}
	k.client.JournalFailed(k.ctx, &journal.Operation{Ref: k.ref, Naming: k.intent.Naming, Provider: k.intent.Provider, Endpoint: k.intent.Endpoint},
		machine.EventBegin, "the journal failed; the call is given up before anything is sent", err)
	return k.Fail(fault.ErrJournal, err)
}

// notBegun returns the error for a call that ends before its intent is recorded. The call has sent nothing, but an
// earlier call by the same name or key may have. Only the journal can tell whether nothing took effect. The error says
// no more of the record, which may belong to another request.
func (k *Call) notBegun(cause error) error {
	if k.intent.Naming == journal.Generated || k.ref.ID == "" {
		return k.Fail(fault.ErrNotSent, cause)
	}
	ctx, cancel := core.LastRead(k.ctx)
	defer cancel()
	op, err := k.get(ctx)
	var before *journal.Operation // under its key, when its account was not told apart
	if errors.Is(err, journal.ErrNotFound) {
		if before, err = k.keyFromBefore(ctx); err == nil && before == nil {
			return k.Fail(fault.ErrNotSent, cause)
		}
	}
	switch {
	case before != nil:
		f := k.keyHeld(before)
		f.Cause = errors.Join(f.Cause, cause)
		return f
	case err != nil:
		return k.Fail(fault.ErrJournal, errors.Join(cause, err))
	case op.State == journal.StateCompleted && !op.Tombstone:
		return k.Fail(fault.ErrInFlight, cause) // a caller that asks again gets the answer
	}
	f := k.Fail(core.KindOf(op.State), cause)
	f.InBackground = op.State == journal.StatePending && k.client.InBackground(&op, &op.Request)
	return f
}

// GaveUpWaiting returns the error for a call that waited in vain for another call of the operation.
func (k *Call) GaveUpWaiting(op *journal.Operation) error {
	if op == nil {
		op = &journal.Operation{Ref: k.ref, Naming: k.intent.Naming, State: journal.StateInFlight}
	}
	cause := context.Cause(k.ctx)
	if k.client.Lifecycle.IsShutdown() {
		cause = fault.ErrShutdown
	}
	return k.failWith(op, fault.ErrInFlight, cause)
}
