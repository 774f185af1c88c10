package engine

import (
	"context"
	"errors"
	"net/http"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/delivery"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/journal"
)

// Engine makes requests for one client. It may be used concurrently.
type Engine struct {
	*core.Core
	finder     *reconcile.Finder
	deliveries *delivery.Deliveries
	settings   Settings
	gaps       gaps
}

// Settings are the engine's settings beside those of package core.
type Settings struct {
	FillsMissing bool                   // a reference is filled in wherever the table names a place that payers don't see
	CheckKey     func(key string) error // says why a carried key can't be one
	Explain      func(*Failure) error   // makes the error that a caller gets
}

// New returns the engine of a client.
func New(c *core.Core, f *reconcile.Finder, d *delivery.Deliveries, s Settings) *Engine {
	return &Engine{Core: c, finder: f, deliveries: d, settings: s}
}

// Answer is the result of a request.
type Answer struct {
	Passed   bool           // the request was no operation; the transport has answered it
	Response *http.Response // nil with an Err
	Err      error

	Operation *journal.Operation // that the Response is of, which does not change any more; nil without one
	Replayed  bool               // the answer was recorded before, here or at the provider
	Source    Source             // of the Response
}

// Source says whose answer a response is.
type Source uint8

const (
	Sent     Source = iota // the call's own
	Recorded               // the journal's
	Shared                 // another call's that ran at the same time
)

// Do takes a request through all stages.
func (e *Engine) Do(req *http.Request) Answer {
	// Identify: the contract that the request is under, and its operation, if it is one.
	call, err := e.identify(req)
	switch {
	case err != nil:
		closeBody(req)
		return Answer{Err: e.explain(err)}
	case call == nil:
		resp, err := e.pass(req)
		return Answer{Passed: true, Response: resp, Err: err}
	}
	defer call.shut()
	a, err := call.ask()
	if err != nil {
		a.Err = e.explain(err)
	}
	return a
}

// explain makes the error that a caller gets of a Failure.
func (e *Engine) explain(err error) error {
	if f, is := err.(*Failure); is {
		return e.settings.Explain(f)
	}
	return err
}

// ask takes a request that is an operation through its stages.
func (k *call) ask() (a Answer, err error) {
	e := k.engine
	if err := e.Lifecycle.Enter(); err != nil {
		return a, k.fail(fault.ErrShutdown, nil)
	}
	defer e.Lifecycle.Leave()

	// Read: the body, the key that it may carry, and the part of the request that is recorded.
	if err := k.read(); err != nil {
		return a, err
	}
	if effect, err := k.understand(); err != nil {
		return a, err
	} else if !effect {
		resp, err := e.Base.RoundTrip(k.unread())
		return Answer{Passed: true, Response: resp, Err: err}, nil
	}

	// Name: an unnamed call under a parent is one of its steps. See step.go.
	leaveStep, err := k.nameStep()
	if err != nil {
		return a, err
	}
	defer func() { leaveStep(a.Operation, err) }()

	// Begin: the intent is recorded, and the claim is this call's. Or an answer is there already, or another call is sending.
	defer func() { k.permit.Free() }() // also where a hook panics
	run, a, err := k.begin()
	if run == nil {
		k.permit.Cancel()
		return a, err
	}
	defer func() { // also where a hook panics
		k.asked, k.missing = core.Later(k.asked, run.asked), run.missing
		if k.isBackground() && run.end != nil {
			k.asked = core.Later(k.asked, run.end.wake)
		}
	}()
	var recorded machine.Result
	run.work(&recorded)

	// Answer: the response, if it is the operation's outcome, or a Failure.
	return run.answer(&recorded)
}

// Resume works off a claim whose caller is gone. It returns the operation as it then stands, and why it has no
// answer.
func (e *Engine) Resume(ctx context.Context, claimed machine.Result, f *core.Flight, permit *throttle.Permit) (journal.Operation, error) {
	r := newRun(ctx, e, &claimed, f, e.Now().Add(e.MaxWait))
	r.target, r.route, r.permit = core.Parsed(r.op.Request.URL), new(tables.Route), permit
	var problem error
	if r.target == nil {
		problem = core.ErrUnreadable
	} else if *r.route = e.Contract(&r.op.Request, r.target); !core.SameContract(&r.op, *r.route) {
		problem = core.ErrContractGone
	}
	if problem != nil {
		r.park(e.Now(), problem.Error(), problem)
		r.end.wake = e.Now().Add(r.pause(false))
	}
	var recorded machine.Result
	r.work(&recorded)
	cause := r.end.err
	if kind := r.end.kindFor(recorded.Operation.State); kind != nil {
		cause = errors.Join(kind, cause)
	}
	return recorded.Operation, cause
}

// work makes attempts until the run's end is decided, records that, and fills in the result. However it is left, a hook's
// panic included, the claim ends.
func (r *run) work(res *machine.Result) {
	r.engine.Lifecycle.Begin(r)
	defer r.engine.Lifecycle.End(r)
	returns := false
	defer func() {
		if !returns { // a hook panicked, and the caller gets that
			r.engine.deliveries.OnLost(&res.Operation)
		}
	}()
	defer func() { // whatever hooks do meanwhile
		if r.flight != nil && res.Operation.State == journal.StateCancelled { // those that have joined begin it anew
			r.flight.RetryAfter = r.askedUntil()
		}
		r.engine.Singleflight.Finish(r.flight, &res.Operation)
	}()
	defer func() {
		r.permit.Free()
		if r.end == nil {
			r.tally.breakOff()
			r.attemptEnded()
			r.park(r.soonest(), "a hook panicked", nil)
			r.record(res)
		}
		if r.caller == nil {
			r.attempt.discard()
		}
	}()
	r.begun()
	if r.end == nil {
		// Attempt and judge, one after the other, as often as judge says.
		if first := r.next(); first.again {
			r.repeat(first)
		}
	}
	if r.end == nil {
		due := r.engine.Now().Add(r.wait)
		if r.until.Before(due) { // which a clock that was set back meanwhile puts further off
			due = r.until
		}
		r.interrupted(due)
	}

	// Record: the end of the run, durably, before the caller or a hook gets it.
	r.record(res)
	r.recoverFor(res)
	returns = true
}

// next makes an attempt, and says whether and when there is another. go-retryablehttp makes the pauses, and calls it
// after each: see repeat.go.
func (r *run) next() try {
	// Attempt: the frozen request is composed anew (wire.Composer) and sent.
	resp, err := r.makeAttempt()

	// Judge: the meaning of the answer by the provider's table, and then whether there is
	// another attempt by the resend rule.
	r.classify()
	r.judge()
	r.tally.underWay = false
	return try{resp: resp, err: err, again: r.end == nil, pause: r.wait}
}
