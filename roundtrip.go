package onceward

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/journal"
)

// transport is the RoundTripper that callers meet.
type transport struct{ client *Client }

// RoundTrip is how a request goes, stage by stage; each is in the file that has its name,
// but for those that name theirs.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c := t.client

	// Identify: the contract that the request is under, and its operation, if it is one.
	began := time.Now() // a duration, not a date
	call, err := c.identify(req)
	if err != nil {
		closeBody(req)
		c.tellAsked(req.Context(), OutcomeRefused, nil, err, began)
		return nil, err
	}
	if call == nil {
		return c.pass(req) // safe.go
	}
	defer call.shut()
	resp, err := call.ask()
	if !call.passed {
		c.tellAsked(call.ctx, call.outcome, resp, err, began)
	}
	return resp, err
}

// ask is the way of a request that is an operation.
func (call *call) ask() (*http.Response, error) {
	c := call.client
	if err := c.core.Lifecycle.Enter(); err != nil {
		return nil, call.fail(ErrShutdown, nil)
	}
	defer c.core.Lifecycle.Leave()

	// Read: the body, what it says of the operation, and what is recorded of the request.
	if err := call.read(); err != nil {
		return nil, err
	}
	if effect, err := call.understand(); err != nil {
		return nil, err
	} else if !effect {
		call.passed = true
		return c.core.Base.RoundTrip(call.unread())
	}

	// Name: an unnamed call under a parent is one of its steps. See step.go.
	leaveStep, err := call.nameStep()
	if err != nil {
		return nil, err
	}
	var resp *http.Response
	defer func() { leaveStep(resp, err) }()

	// Begin: the intent is recorded, and the claim is this call's; or else an answer is
	// there, or somebody is at it.
	defer func() { call.permit.Free() }() // also where a hook panics
	run, resp, err := call.begin()
	if run == nil {
		call.permit.Cancel()
		if resp != nil && call.outcome == "" {
			call.outcome = OutcomeReplayed
		}
		return resp, err
	}
	defer func() { // also where a hook panics
		call.asked = core.Later(call.asked, run.asked)
		if call.isBackground() && run.end != nil {
			call.asked = core.Later(call.asked, run.end.wake)
		}
	}()
	recorded := run.work()

	// Answer: the response, where it is the operation's outcome, or an Error.
	resp, err = run.answer(recorded)
	return resp, err
}

// tellAsked tells Trace what a call has come to. outcome is what is known of one with a response
// that is not its own.
func (c *Client) tellAsked(ctx context.Context, outcome Outcome, resp *http.Response, err error, began time.Time) {
	if c.trace.Asked == nil {
		return
	}
	op, _ := OperationOf(resp)
	op.Answer = nil
	switch e := (*Error)(nil); {
	case errors.As(err, &e):
		outcome, op = outcomeOf(e), e.Operation
	case outcome != "":
	case op.State == StateCancelled:
		outcome = OutcomeCancelled
	default:
		outcome = OutcomeExecuted
	}
	c.trace.Asked(ctx, op, outcome, err, time.Since(began))
}

// work makes attempts until the run's end is decided, and records that. In the background
// it is all that is left of RoundTrip: see resume.go. However it is left, a hook's panic
// included, the claim ends.
func (r *run) work() (res journal.Result) {
	r.client.core.Lifecycle.Begin(r)
	defer r.client.core.Lifecycle.End(r)
	defer func() { // whatever hooks do meanwhile
		if r.flight != nil {
			r.flight.RetryAfter = r.askedUntil()
		}
		r.client.core.Singleflight.Finish(r.flight, &res.Operation)
	}()
	defer func() {
		r.permit.Free()
		if r.end == nil {
			r.tally.breakOff()
			r.attemptEnded()
			r.park(r.soonest(), "a hook panicked", nil)
			r.record(&res)
		}
		if r.caller == nil {
			r.attempt.discard()
		}
	}()
	r.begun()
	if r.end == nil {
		// Attempt and judge, one after the other, as often as judge says: see next.
		r.engine.repeat(&r.pauses, r.op.Request.Method, r.target, r)
	}
	if r.end == nil {
		due := r.client.core.Now().Add(r.wait)
		if r.until.Before(due) { // which a clock that was set back meanwhile puts further off
			due = r.until
		}
		r.interrupted(due)
	}

	// Record: what came of it, durably, before anybody is told.
	r.record(&res)
	return res
}

// next makes an attempt, and says whether and when there is another. go-retryablehttp calls
// it, and makes the pauses: see engine.go.
func (r *run) next() try {
	// Attempt: what was frozen, composed anew (wire.Composer) and sent.
	resp, err := r.makeAttempt()

	// Judge: what the answer means by the provider's table, and then whether there is
	// another attempt by the resend rule.
	r.classify()
	r.judge()
	r.tally.underWay = false
	return try{resp: resp, err: err, again: r.end == nil, pause: r.wait}
}
