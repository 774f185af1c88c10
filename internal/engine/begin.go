package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// begin writes the intent before anything is sent. It returns a run that holds
// the claim, or else what the caller gets.
func (k *call) begin() (*run, Answer, error) {
	if err := k.prepare(); err != nil {
		return nil, Answer{}, err
	}
	var res machine.Result // filled in below: a copy of it at each return would take longer
	if k.intent.Naming == journal.Generated {
		if err := k.apply(&res); err != nil {
			return nil, Answer{}, err
		}
		return k.startRun(&res, nil), Answer{}, nil
	}
	k.heldBack = k.enter()
	for poll := 5 * time.Millisecond; ; {
		f, a, err := k.lead()
		if f == nil {
			return nil, a, err
		}
		until, err := k.decide(f, &res)
		switch {
		case err != nil:
			return nil, Answer{}, err
		case res.Decision == machine.Execute:
			run := k.startRun(&res, f)
			if k.heldBack {
				run.holdBack()
			} else {
				run.takeRetry()
			}
			return run, Answer{}, nil
		case k.byItsKey(&res): // the call asks again, by that name
		case !until.IsZero():
			if err := k.heed(until); err != nil {
				return nil, Answer{}, err
			}
		case res.Decision == machine.Wait:
			if !k.engine.Sleep(k.ctx, poll, k.ends) {
				return nil, Answer{}, k.gaveUpWaiting(&res.Operation)
			}
			poll = min(2*poll, 250*time.Millisecond)
		default:
			a, err := k.answerFrom(&res.Operation, res.Decision)
			return nil, a, err
		}
	}
}

// prepare completes the intent, or says why there is none.
func (k *call) prepare() error {
	if k.ctx.Err() != nil {
		return k.notBegun(context.Cause(k.ctx))
	}
	k.ends = k.engine.EndOfWait(k.ctx)
	k.intent.Trace = k.engine.TraceParent(k.ctx, k.req.Header.Get("Traceparent"))
	if err := k.sign(); err != nil {
		return err
	}
	if k.intent.Alias != (journal.Ref{}) {
		k.intent.FormerAliases = naming.FormerAliases(k.route.Provider, k.req.URL, k.name.Scope, k.account, k.carried)
	}
	if err := k.ofItsVersion(); err != nil {
		return err
	}
	ctx, cancel := k.engine.Within(k.ctx, k.ends)
	defer cancel()
	switch before, err := k.keyFromBefore(ctx); {
	case err != nil:
		return k.failed(err)
	case before != nil:
		return k.keyHeld(before)
	}
	return nil
}

// decide asks the journal until its decision stands. It owns the flight that this call leads, and ends it with the decision,
// also if a hook or the journal panics. If the operation is to be sent, its run ends the flight. The time is not zero if a look-up
// has shown that nothing took effect, and the provider is not to be asked before then.
func (k *call) decide(f *core.Flight, res *machine.Result) (until time.Time, err error) {
	executes := false
	var stands *journal.Operation  // for those that have joined; nil: they ask for themselves
	var weighed *journal.Operation // an outcome that this call recorded and has still to return
	defer func() {
		if !executes {
			k.engine.Singleflight.Finish(f, stands)
		}
		if stands == nil && weighed != nil {
			k.engine.deliveries.OnLost(weighed)
		}
	}()
	for {
		err = k.apply(res)
		switch {
		case err != nil:
			return until, err
		case res.Decision == machine.Execute:
			executes = true
			return until, nil
		case res.Decision == machine.Weighed: // the journal has taken evidence into account: it decides anew
			outcome := res.Operation
			weighed = &outcome
			continue
		case res.Decision == machine.Misuse: // its bodies may be missing
			return until, nil
		case res.Decision == machine.Replay && res.Operation.AnswerMissing():
			r := k.startRun(res, nil)
			r.heldBack = k.heldBack
			r.recover(&res.Operation, "who asked for it")
			k.regained, k.missing = r.regained, r.missing
		case res.Decision == machine.Stop:
			switch found := k.look(&res.Operation); {
			case found == nil:
			case found.State == journal.StateCancelled && res.Operation.DueAt.After(k.engine.Now()):
				stands, f.RetryAfter = found, res.Operation.DueAt // as the provider asked while the operation was unknown
				return f.RetryAfter, nil
			default:
				continue
			}
		}
		stands = &res.Operation
		return until, nil
	}
}

// lead waits until this call leads the flight of its name, or another's has what answers it.
func (k *call) lead() (*core.Flight, Answer, error) {
	for {
		f, leader := k.engine.Singleflight.Join(k.ref, &k.flight)
		if leader {
			return f, Answer{}, nil
		}
		op, err := k.follow(f)
		if err != nil {
			return nil, Answer{}, k.gaveUpWaiting(nil)
		}
		if op != nil && k.mayShare(op) && !op.AnswerMissing() {
			a, err := k.answerFrom(op, shared(op))
			a.Source = Shared
			return nil, a, err
		}
		if op == nil || op.State != journal.StateCancelled {
			continue
		}
		if err := k.heed(f.RetryAfter); err != nil {
			return nil, Answer{}, err
		}
	}
}

// heed waits until the time that the provider has named. It named that time to another call, or to an attempt of this
// operation that a look-up has shown to be without effect. Callers that were already waiting also honor it. A caller
// whose deadline is earlier fails immediately.
func (k *call) heed(until time.Time) error {
	e := k.engine
	pause := until.Sub(e.Now())
	switch {
	case pause <= 0 || e.Sleep(k.ctx, pause, k.ends):
		return nil
	case k.ctx.Err() != nil:
		return k.notBegun(context.Cause(k.ctx))
	case e.Lifecycle.IsShutdown():
		return k.fail(fault.ErrShutdown, nil)
	}
	return k.notBegun(fmt.Errorf("its provider asked for a pause until %s", until.UTC().Format(time.RFC3339)))
}

// look looks once for an unknown operation, within the call's time. It returns how that stands then, if the look-up may have
// changed it, and else nil.
func (k *call) look(op *journal.Operation) *journal.Operation {
	e := k.engine
	switch {
	case k.looked || !e.finder.Enabled() || !e.Now().Before(k.ends):
		return nil
	case seam.IsOfFlow(op.Parent) && op.Looks > 0:
		return nil // a flow asks again and again: Run looks for the operation that it waits for
	}
	ctx, cancel := e.Until(k.ctx, k.ends)
	defer cancel()
	found, err := e.finder.LookNow(ctx, op, &reconcile.Pass{Caller: k.req, Query: k.query, Actor: "who asked for it"})
	if err != nil || found.State == journal.StateUnknown {
		return nil
	}
	k.looked = true
	return found
}

// follow waits for another goroutine's call, within this one's time.
func (k *call) follow(f *core.Flight) (*journal.Operation, error) {
	ctx, cancel := k.engine.Until(k.ctx, k.ends)
	defer cancel()
	select {
	case <-f.Done():
		return f.Operation(), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-k.engine.Lifecycle.Closing():
		return nil, fault.ErrShutdown
	}
}

// apply puts the question to the journal, and fills in its answer.
func (k *call) apply(res *machine.Result) error {
	ctx, cancel := k.engine.Within(k.ctx, k.ends)
	defer cancel()
	op, err := k.engine.Backlog.CatchUp(ctx, k.ref)
	if err != nil {
		switch {
		case op.State != journal.StateCancelled && k.intent.Another(op):
			*res = machine.Result{Operation: *op, Decision: machine.Misuse}
			return nil
		case k.mayShare(op):
			*res = machine.Result{Operation: *op, Decision: shared(op)}
			return nil
		}
		return k.fail(fault.ErrJournal, err)
	}
	ev := machine.Event{
		Kind:   machine.EventBegin,
		Ref:    k.ref,
		New:    k.intent.Naming == journal.Generated,
		Intent: &k.intent,
		Asker:  k.engine.NextAsker(),

		LookAfter:     k.engine.finder.FirstLook(),
		HookElsewhere: k.engine.Hook.Elsewhere(k.ctx),
	}
	asked := false
	err = k.engine.Session.Do(ctx, func(session string) (err error) {
		ev.Session = session
		asked, err = k.applyNow(ctx, &ev, res)
		return err
	})
	if err != nil {
		if asked && !seam.Certain(err) {
			k.undo(ev, err)
		}
		return k.failed(err)
	}
	k.engine.Idle.See(&res.Operation)
	_ = k.isEarlier(&res.Operation) // package server then refuses the inbound request
	return nil
}

// applyNow applies an event, within the call's step if it is of a flow. asked is false if the step did not let it, or if the
// session was lost.
func (k *call) applyNow(ctx context.Context, ev *machine.Event, res *machine.Result) (asked bool, err error) {
	if p := k.name.Parent; p != nil && p.Flow != nil {
		if err := p.Flow.Step.Begin(); err != nil {
			return false, err
		}
		defer p.Flow.Step.Begun()
	}
	ev.At = k.engine.Now() // the last session may have been lost by time that went by
	*res, err = k.engine.Journal.Apply(ctx, *ev)
	return !errors.Is(err, journal.ErrSessionLost), err
}

// undo cancels an intent whose commit failed and may have landed all the same.
func (k *call) undo(begin machine.Event, err error) {
	cancel := machine.Event{Kind: machine.EventCancel, Ref: begin.Ref, At: begin.At, Session: begin.Session, Asker: begin.Asker,
		Unsent: true, Told: true, Delivered: true, Cause: "its intent may not have been recorded"}
	ctx, end := k.engine.Ending(k.ctx, k.ends)
	defer end()
	_, again := k.engine.Journal.Apply(ctx, cancel)
	if core.IsUndone(again) {
		return // a journal whose files were moved away may have them back
	}
	op := journal.Operation{Ref: k.ref, Naming: k.intent.Naming, State: journal.StateCancelled, Fingerprint: k.intent.Fingerprint, Request: k.intent.Request}
	k.engine.KeepUnsaved(k.ctx, cancel, op, err)
}

// failed returns the error for a journal that did not take the intent.
func (k *call) failed(err error) error {
	switch {
	case k.ctx.Err() != nil:
		return k.notBegun(context.Cause(k.ctx))
	case errors.Is(err, fault.ErrShutdown):
		return k.fail(fault.ErrShutdown, nil)
	case errors.Is(err, journal.ErrRestored):
		return k.fail(journal.ErrRestored, err)
	case errors.Is(err, fault.ErrNotSent), !k.intent.NotAfter.IsZero() && errors.Is(err, journal.ErrInvalidEvent):
		return k.notBegun(err)
	}
	k.engine.JournalFailed(k.ctx, &journal.Operation{Ref: k.ref, Naming: k.intent.Naming, Provider: k.intent.Provider, Endpoint: k.intent.Endpoint},
		machine.EventBegin, "the journal failed; the call is given up before anything is sent", err)
	return k.fail(fault.ErrJournal, err)
}

// notBegun returns the error for a call that ends before its intent is recorded. The call has sent nothing, but an
// earlier call by the same name or key may have. Only the journal can tell whether nothing took effect. The error
// says no more of the record, which may belong to another request.
func (k *call) notBegun(cause error) error {
	if k.intent.Naming == journal.Generated || k.ref.ID == "" {
		return k.fail(fault.ErrNotSent, cause)
	}
	ctx, cancel := core.LastLook(k.ctx)
	defer cancel()
	op, err := k.get(ctx)
	var before *journal.Operation // under its key, when its account was not told apart
	if errors.Is(err, journal.ErrNotFound) {
		if before, err = k.keyFromBefore(ctx); err == nil && before == nil {
			return k.fail(fault.ErrNotSent, cause)
		}
	}
	switch {
	case before != nil:
		f := k.keyHeld(before)
		f.Cause = errors.Join(f.Cause, cause)
		return f
	case err != nil:
		return k.fail(fault.ErrJournal, errors.Join(cause, err))
	case op.State == journal.StateCompleted && !op.Tombstone:
		return k.fail(fault.ErrInFlight, cause) // a caller that asks again gets the answer
	}
	f := k.fail(core.KindOf(op.State), cause)
	f.InBackground = op.State == journal.StatePending && k.engine.InBackground(&op, &op.Request)
	return f
}

// otherMode reports whether an operation was sent under a credential of another mode: a
// test for a live one.
func (k *call) otherMode(op *journal.Operation) bool {
	return op.Mode != "" && k.intent.Mode != "" && op.Mode != k.intent.Mode
}

// mayShare reports whether the outcome of another call is also this call's.
func (k *call) mayShare(op *journal.Operation) bool {
	if k.intent.Another(op) || op.Tombstone {
		return false
	}
	return op.State == journal.StateCompleted || op.State == journal.StateUnknown ||
		op.State == journal.StatePending && op.DueAt.After(k.engine.Now())
}

// shared returns the decision that the journal would give on an operation that may be shared.
func shared(op *journal.Operation) machine.Decision {
	switch op.State {
	case journal.StateCompleted:
		return machine.Replay
	case journal.StateUnknown:
		return machine.Stop
	}
	return machine.Later
}

// answerFrom gives the caller what the journal says of an operation that is not to be
// sent.
func (k *call) answerFrom(op *journal.Operation, decision machine.Decision) (Answer, error) {
	switch decision {
	case machine.Replay:
		switch {
		case k.regained != nil:
			return *k.regained, nil
		case !replayable(op):
			k.engine.deliveries.OnReturn(op)
			return Answer{}, k.failWith(op, fault.ErrAnswerGone, k.missing.why)
		}
		return k.engine.replay(op), nil
	case machine.Later:
		if op.Provider != "" && !k.route.Listed {
			return Answer{}, k.failWith(op, fault.ErrPending, core.ErrContractGone)
		}
		return Answer{}, k.failWith(op, fault.ErrPending, nil)
	case machine.Stop:
		k.engine.deliveries.OnReturn(op)
		return Answer{}, k.failWith(op, fault.ErrOutcomeUnknown, nil)
	case machine.Recorded: // nothing had been sent of it, and its time (WithNotAfter) has passed
		k.engine.deliveries.OnReturn(op)
		return Answer{}, k.failWith(op, fault.ErrNotSent, errors.New(op.Cause))
	case machine.Gone:
		return Answer{}, k.failWith(op, fault.ErrAnswerGone, nil)
	case machine.Withdrawn:
		return Answer{}, k.failWith(op, fault.ErrWithdrawn, nil)
	case machine.Misuse:
		if op.Ref != k.ref {
			return Answer{}, k.keyHeld(op)
		}
		f := k.failWith(op, fault.ErrKeyReused, nil)
		f.Operation.Answer = nil // the stored answer is not revealed to another request
		parts, err := k.print.Diff(op.Fingerprint)
		if f.Differs, f.Cause = parts, err; k.otherMode(op) {
			f.Differs = append(f.Differs, "mode")
		}
		if at := k.intent.InboundEndpoint; at != "" && op.InboundEndpoint != "" && at != op.InboundEndpoint {
			f.Differs = append(f.Differs, "inbound endpoint")
		}
		return Answer{}, f
	}
	return Answer{}, k.failWith(op, fault.ErrJournal, fmt.Errorf("an answer that this release does not know: %v", decision))
}

// gaveUpWaiting returns the error for a call that waited in vain for another call of the operation.
func (k *call) gaveUpWaiting(op *journal.Operation) error {
	if op == nil {
		op = &journal.Operation{Ref: k.ref, Naming: k.intent.Naming, State: journal.StateInFlight}
	}
	cause := context.Cause(k.ctx)
	if k.engine.Lifecycle.IsShutdown() {
		cause = fault.ErrShutdown
	}
	return k.failWith(op, fault.ErrInFlight, cause)
}

// startRun starts the run that the journal has just allowed.
func (k *call) startRun(res *machine.Result, f *core.Flight) *run {
	r := newRun(k.ctx, k.engine, res, f, k.ends)
	r.caller, r.route, r.target, r.query, r.secrets, r.permit = k.req, &k.route, &k.clean, k.query, &k.secrets, k.permit
	if r.op.Request.Method == "" {
		r.op.Request = k.intent.Request
	} else if r.op.Request.URL != k.intent.Request.URL {
		r.target = core.Parsed(r.op.Request.URL)
	}
	if r.op.BodyWithheld {
		r.op.Request = wire.WithBody(r.op.Request, k.intent.Request, k.body)
	}
	if r.op.Credential == k.intent.Credential { // which is salted: the record is of this call's request
		r.composed = k.composed
	}
	r.replaced = k.carried != "" && r.op.Key != "" && k.carried != r.op.Key
	// What others were promised, who said no such time, stays pending then. A person who has something sent again means this.
	by, again := k.intent.NotAfter, r.op.Resolved != nil && r.op.Resolved.Resolution == journal.SendAgain
	if !by.IsZero() && !again && (r.notAfter.IsZero() || by.Before(r.notAfter)) {
		r.notAfter = by
	}
	return r
}
