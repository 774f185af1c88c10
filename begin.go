package onceward

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/onceward/onceward/journal"
)

// begin writes the intent before anything is sent. It returns a run that holds
// the claim, or else what the caller gets.
func (k *call) begin() (*run, *http.Response, error) {
	if k.ctx.Err() != nil {
		return nil, nil, k.unbegun(context.Cause(k.ctx))
	}
	k.ends = k.endOfWait()
	if err := k.sign(); err != nil {
		return nil, nil, err
	}
	switch before, err := k.keyFromBefore(k.ctx); {
	case err != nil:
		return nil, nil, k.failed(err)
	case before != nil:
		return nil, nil, k.keyHeld(before)
	}
	if k.intent.Naming == journal.Generated {
		res, err := k.apply()
		if err != nil {
			return nil, nil, err
		}
		return k.hold(res, nil), nil, nil
	}
	for poll := 5 * time.Millisecond; ; {
		f, leads := k.flights.board(k.ref)
		if !leads {
			op, err := k.follow(f)
			switch {
			case err != nil:
				return nil, nil, k.tired(nil)
			case op == nil || !k.mayShare(op):
				continue
			}
			resp, err := k.hand(op, shared(op))
			return nil, resp, err
		}
		res, err := k.applyAs(f)
		if err != nil {
			return nil, nil, err
		}
		if res.Decision == journal.Execute {
			return k.hold(res, f), nil, nil
		}
		if k.byItsKey(&res) {
			k.flights.land(f, nil)
			continue
		}
		landed := &res.Operation
		if res.Decision == journal.Misuse {
			landed = nil // its bodies may be missing: who follows asks for itself
		}
		k.flights.land(f, landed)
		if res.Decision != journal.Wait {
			resp, err := k.hand(&res.Operation, res.Decision)
			return nil, resp, err
		}
		if !k.sleep(poll) {
			return nil, nil, k.tired(&res.Operation)
		}
		poll = min(2*poll, 250*time.Millisecond)
	}
}

// follow waits for another goroutine's call, within this one's time.
func (k *call) follow(f *flight) (*journal.Operation, error) {
	ctx, cancel := context.WithDeadline(k.ctx, k.ends)
	defer cancel()
	select {
	case <-f.landed:
		return f.op, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-k.closing:
		return nil, ErrShutdown
	}
}

// sleep tells whether there is still time afterwards.
func (k *call) sleep(d time.Duration) bool {
	if k.now().Add(d).After(k.ends) {
		return false
	}
	select {
	case <-time.After(d):
		return true
	case <-k.ctx.Done():
		return false
	case <-k.closing:
		return false
	}
}

// endOfWait is when the call has to have returned: a little before its deadline,
// since once that has passed net/http keeps no more of an error than its text.
func (k *call) endOfWait() time.Time {
	now := k.now()
	deadline, ok := k.ctx.Deadline()
	if !ok {
		return now.Add(k.cfg.MaxWait)
	}
	return deadline.Add(-min(time.Second, deadline.Sub(now)/10))
}

// applyAs is apply for a flight, which lands where it fails, or a hook panics.
func (k *call) applyAs(f *flight) (res journal.Result, err error) {
	asked := false
	defer func() {
		if !asked || err != nil {
			k.flights.land(f, nil)
		}
	}()
	res, err = k.apply()
	asked = true
	return res, err
}

// apply puts the question to the journal.
func (k *call) apply() (journal.Result, error) {
	op, err := k.backlog.settle(k.ctx, k.Client, k.ref)
	if err != nil {
		switch {
		case op.State != journal.Cancelled && !k.same(op):
			return journal.Result{Operation: *op, Decision: journal.Misuse}, nil
		case k.mayShare(op):
			return journal.Result{Operation: *op, Decision: shared(op)}, nil
		}
		return journal.Result{}, k.fail(ErrJournal, err)
	}
	session, err := k.joined(k.ctx)
	if err != nil {
		return journal.Result{}, k.failed(err)
	}
	ev := journal.Event{
		Kind:    journal.EventBegin,
		Ref:     k.ref,
		At:      k.now(),
		Session: session.ID(),
		New:     k.intent.Naming == journal.Generated,
		Intent:  &k.intent,
		Asker:   k.askers.Add(1),
	}
	res, err := k.journal.Apply(k.ctx, ev)
	if errors.Is(err, journal.ErrSessionLost) {
		if session, err = k.joined(k.ctx); err != nil {
			return journal.Result{}, k.failed(err)
		}
		ev.Session = session.ID()
		res, err = k.journal.Apply(k.ctx, ev)
	}
	if err != nil {
		if !certain(err) {
			k.undo(ev, err)
		}
		return journal.Result{}, k.failed(err)
	}
	return res, nil
}

// certain tells errors that leave no doubt that nothing was recorded.
func certain(err error) bool {
	return errors.Is(err, journal.ErrClosed) || errors.Is(err, journal.ErrSessionLost) ||
		errors.Is(err, journal.ErrRestored) || errors.Is(err, journal.ErrInvalidEvent)
}

// undo cancels an intent whose commit failed and may have landed all the same.
func (k *call) undo(begin journal.Event, err error) {
	cancel := journal.Event{Kind: journal.EventCancel, Ref: begin.Ref, At: begin.At, Session: begin.Session, Asker: begin.Asker,
		Unsent: true, Told: true, Delivered: true, Cause: "its intent was not surely recorded"}
	_, again := k.journal.Apply(context.WithoutCancel(k.ctx), cancel)
	if again == nil || errors.Is(again, journal.ErrNotFound) || certain(again) && !errors.Is(again, journal.ErrRestored) {
		return // a journal whose files were moved away may have them back
	}
	op := journal.Operation{Ref: k.ref, Naming: k.intent.Naming, State: journal.Cancelled, Fingerprint: k.intent.Fingerprint, Request: k.intent.Request}
	k.keep(cancel, op, err)
}

// failed is the error for a journal that did not take the intent.
func (k *call) failed(err error) error {
	switch {
	case k.ctx.Err() != nil:
		return k.unbegun(context.Cause(k.ctx))
	case errors.Is(err, journal.ErrRestored):
		return k.fail(ErrJournalRestored, err)
	}
	return k.fail(ErrJournal, err)
}

// lastLook is how long a call that was not begun may look for what it can be told: its
// time may be up.
const lastLook = 100 * time.Millisecond

// unbegun is the error for a call that ends before its intent is recorded. It has sent
// nothing, but an earlier call by the same name or key may have: only the journal tells
// whether nothing took effect. No more of the record is told, since it may be of
// another request.
func (k *call) unbegun(cause error) error {
	if k.intent.Naming == journal.Generated || k.ref.ID == "" {
		return k.fail(ErrNotSent, cause)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), lastLook)
	defer cancel()
	op, err := k.get(ctx)
	var before *journal.Operation // under its key, when its account was not told apart
	if errors.Is(err, journal.ErrNotFound) {
		if before, err = k.keyFromBefore(ctx); err == nil && before == nil {
			return k.fail(ErrNotSent, cause)
		}
	}
	switch {
	case before != nil:
		e := k.keyHeld(before)
		e.Err = errors.Join(e.Err, cause)
		return e
	case err != nil:
		return k.fail(ErrJournal, errors.Join(cause, err))
	case op.State == journal.Completed && !op.Tombstone:
		return k.fail(ErrInFlight, cause) // whoever asks again gets the answer
	}
	e := k.fail(kindOf(op.State), cause)
	e.InBackground = op.State == journal.Pending && k.inBackground(&op, &op.Request)
	return e
}

// same tells whether an operation is of this request, as far as its record says.
func (k *call) same(op *journal.Operation) bool {
	return k.print.Same(op.Fingerprint) && !k.otherMode(op)
}

// otherMode tells whether an operation was sent under a credential of another mode: a
// test for a live one.
func (k *call) otherMode(op *journal.Operation) bool {
	return op.Mode != "" && k.intent.Mode != "" && op.Mode != k.intent.Mode
}

// mayShare tells whether the outcome of somebody else's call is this one's too.
func (k *call) mayShare(op *journal.Operation) bool {
	if !k.same(op) || op.Tombstone {
		return false
	}
	return op.State == journal.Completed || op.State == journal.Unknown ||
		op.State == journal.Pending && op.DueAt.After(k.now())
}

// shared is the decision that the journal would give on an operation that may be
// shared.
func shared(op *journal.Operation) journal.Decision {
	switch op.State {
	case journal.Completed:
		return journal.Replay
	case journal.Unknown:
		return journal.Stop
	}
	return journal.Later
}

// hand gives the caller what the journal says of an operation that is not to be
// sent.
func (k *call) hand(op *journal.Operation, decision journal.Decision) (*http.Response, error) {
	switch decision {
	case journal.Replay:
		k.left(op, true)
		if !replayable(op) {
			return nil, k.failWith(op, ErrAnswerGone, nil)
		}
		return replay(k.req, op, k.deliverer(op)), nil
	case journal.Later:
		if op.Provider != "" && !k.route.Listed {
			return nil, k.failWith(op, ErrPending, errContractGone)
		}
		return nil, k.failWith(op, ErrPending, nil)
	case journal.Stop:
		k.deliverOnReturn(op)
		return nil, k.failWith(op, ErrOutcomeUnknown, nil)
	case journal.Gone:
		return nil, k.failWith(op, ErrAnswerGone, nil)
	case journal.Misuse:
		if op.Ref != k.ref {
			return nil, k.keyHeld(op)
		}
		e := k.failWith(op, ErrKeyReused, nil)
		e.Operation.Answer = nil // the stored answer is not revealed to another request
		parts, err := k.print.Diff(op.Fingerprint)
		if e.Differs, e.Err = parts, err; k.otherMode(op) {
			e.Differs = append(e.Differs, "mode")
		}
		return nil, e
	}
	return nil, k.failWith(op, ErrJournal, fmt.Errorf("an answer that this release does not know: %v", decision))
}

// tired is for a call that waited for somebody else's in vain.
func (k *call) tired(op *journal.Operation) error {
	if op == nil {
		op = &journal.Operation{Ref: k.ref, Naming: k.intent.Naming, State: journal.InFlight}
	}
	cause := context.Cause(k.ctx)
	if k.isShutdown() {
		cause = ErrShutdown
	}
	return k.failWith(op, ErrInFlight, cause)
}

func (k *call) fail(kind, cause error) *Error {
	return &Error{Kind: kind, Err: cause, target: target(k.req.Method, k.req.URL),
		Operation: Operation{Seen: Seen{Ref: k.ref}, named: k.intent.Naming == journal.Named}}
}

func (k *call) failWith(op *journal.Operation, kind, cause error) *Error {
	e := k.fail(kind, cause)
	e.Operation = operationOf(op)
	e.InBackground = op.State == journal.Pending && k.inBackground(op, &k.intent.Request)
	return e
}

// hold starts the run that the journal has just allowed.
func (k *call) hold(res journal.Result, f *flight) *run {
	r := &run{
		Client: k.Client, ctx: k.ctx, asker: k.req, op: res.Operation, last: res.Last, unconfirmed: res.Unconfirmed,
		route: k.route, flight: f, ends: k.ends, target: k.clean, query: k.query, hides: k.hides,
	}
	if r.op.Request.Method == "" {
		r.op.Request = k.intent.Request
	} else if r.op.Request.URL != k.intent.Request.URL {
		r.target = parsed(r.op.Request.URL)
	}
	if r.op.BodyWithheld {
		r.op.Request = withBody(r.op.Request, k.intent.Request, k.body)
	}
	r.replaced = k.carried != "" && r.op.Key != "" && k.carried != r.op.Key
	return r
}
