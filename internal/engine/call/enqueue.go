package call

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// Enqueue records a request's operation in the caller's transaction, and sends nothing. It reads the request's
// body, and gives callers a body with the same bytes. So a transaction that is tried again may enqueue the request
// again.
func (f *Factory) Enqueue(outbox machine.Outbox, tx journal.Tx, req, callers *http.Request) (journal.Operation, error) {
	k, err := f.Identify(req)
	if k == nil {
		defer exchange.CloseBody(req)
	} else {
		defer k.Shut()
	}
	var op journal.Operation
	if err == nil {
		op, err = k.enqueue(outbox, tx, req, callers)
	}
	if err != nil {
		return journal.Operation{}, f.Explain(err)
	}
	return op, nil
}

func (k *Call) enqueue(outbox machine.Outbox, tx journal.Tx, req, callers *http.Request) (op journal.Operation, err error) {
	if err := k.enqueueable(req); err != nil {
		return op, err
	}
	if err := k.client.Lifecycle.Enter(); err != nil {
		return op, k.Fail(fault.ErrShutdown, nil)
	}
	defer k.client.Lifecycle.Leave()
	if err := k.Read(); err != nil {
		return op, err
	}
	if k.body != nil { // else a transaction that is tried again would enqueue it without its body
		callers.Body = io.NopCloser(bytes.NewReader(k.body))
	}
	switch effect, err := k.Understand(); {
	case err != nil:
		return op, err
	case !effect:
		return op, k.Fail(fault.ErrInvalidRequest, errNoEffect)
	}
	return k.enqueueIn(outbox, tx)
}

var (
	errNoEffect    = errors.New("it has no effect, so there is nothing to enqueue: send it by the client")
	errFlow        = errors.New("it is enqueued in a flow, which would not know of it: take its context out of the flow by WithParent(ctx, \"\"), or make the call in a Step")
	errBringsKey   = errors.New("it carries an idempotency key: leave it out, since Onceward makes one for its name (Operation.Key)")
	errSecretBody  = errors.New("its body is a secret and is not recorded, so no process could send it later: make the call after the commit")
	errEarlier     = errors.New("it is of an earlier request with the same inbound key, whose answer has expired: the caller has to use a new key")
	errNotByItself = errors.New("another call is sending it, and may cancel it: enqueue it again once that has ended")
)

// enqueueable refuses what could not be enqueued, whatever its body says. The call is nil for
// what passes through.
func (k *Call) enqueueable(req *http.Request) error {
	if k == nil {
		k = &Call{req: req}
		if req.URL == nil {
			return &exchange.Failure{Kind: fault.ErrInvalidRequest, Cause: errors.New("it has no URL"), Target: req.Method}
		}
		return k.Fail(fault.ErrInvalidRequest, errNoEffect)
	}
	switch {
	case k.name.Parent != nil && k.name.Parent.Flow != nil:
		return k.Fail(fault.ErrInvalidRequest, errFlow)
	case !k.name.Named:
		return k.Fail(fault.ErrNameNeeded, errors.New("a transaction that is tried again would enqueue it twice"))
	}
	return nil
}

// enqueueIn records the intent, as begin does, in the caller's transaction. Nothing else is asked from
// the journal meanwhile, which may wait for it.
func (k *Call) enqueueIn(outbox machine.Outbox, tx journal.Tx) (journal.Operation, error) {
	c := k.client
	k.ends, k.enqueues = c.EndOfWait(k.ctx), true
	k.intent.Trace = c.TraceParent(k.ctx, k.req.Header.Get("Traceparent"))
	frozen := &k.intent.Request
	switch {
	case k.carried != "":
		return journal.Operation{}, k.Fail(fault.ErrInvalidRequest, errBringsKey)
	case k.intent.BodyWithheld:
		return journal.Operation{}, k.Fail(fault.ErrInvalidRequest, errSecretBody)
	case !c.MayAdd(&journal.Operation{Provider: k.intent.Provider, Request: *frozen}, &k.clean):
		return journal.Operation{}, k.Fail(fault.ErrCredentialMissing, errors.New(wire.MissingCredential(frozen, &http.Request{URL: &k.clean})))
	}
	if err := k.sign(); err != nil {
		return journal.Operation{}, err
	}
	res, err := outbox.EnqueueTx(k.ctx, tx, machine.Event{
		Kind: machine.EventEnqueue, Ref: k.ref, At: c.Now(), Due: k.name.Due, Intent: &k.intent, LookAfter: c.Finder.FirstLook(),
	})
	op := &res.Operation
	switch {
	case errors.Is(err, journal.ErrRestored):
		return journal.Operation{}, k.Fail(journal.ErrRestored, err)
	case errors.Is(err, journal.ErrInvalidEvent):
		return journal.Operation{}, k.Fail(fault.ErrInvalidRequest, err)
	case err != nil:
		return journal.Operation{}, k.Fail(fault.ErrJournal, err)
	case res.Decision != machine.Recorded && k.isEarlier(op):
		f := k.failWith(op, fault.ErrKeyReused, errEarlier)
		f.Operation.Answer, f.Differs = nil, []string{"inbound request"} // another request learns nothing about it
		return journal.Operation{}, f
	case res.Decision == machine.Misuse, res.Decision == machine.Withdrawn, res.Decision == machine.Gone:
		_, err := k.Answer(op, res.Decision)
		return journal.Operation{}, err
	case op.State == journal.StateInFlight && op.Found.State != journal.StatePending:
		return journal.Operation{}, k.failWith(op, fault.ErrInFlight, errNotByItself)
	case op.State == journal.StatePending && !c.MayAdd(op, &k.clean): // a call with a separate credential has begun it
		return journal.Operation{}, k.failWith(op, fault.ErrCredentialMissing, errors.New(wire.MissingCredential(&op.Request, &http.Request{URL: &k.clean})))
	}
	return *op, nil
}

// isEarlier reports whether an operation is of an earlier request with the same inbound key. If so, package server refuses
// the present request.
func (k *Call) isEarlier(op *journal.Operation) bool {
	p := k.name.Parent
	return p != nil && p.Earlier != nil && p.Earlier(op)
}
