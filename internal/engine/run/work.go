package run

import (
	"context"
	"errors"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/journal"
)

// Resume works off a claim without a caller. It returns the operation after the run, and the reason for a missing
// answer.
func Resume(ctx context.Context, c *exchange.Client, claimed machine.Result, f *core.Flight, permit *throttle.Permit) (journal.Operation, error) {
	r := newRun(ctx, c, &claimed, f, c.Now().Add(c.MaxWait))
	r.target, r.route, r.permit = core.Parsed(r.op.Request.URL), new(tables.Route), permit
	var problem error
	if r.target == nil {
		problem = core.ErrUnreadable
	} else if *r.route = c.Contract(&r.op.Request, r.target); !core.SameContract(&r.op, *r.route) {
		problem = core.ErrContractGone
	}
	if problem != nil {
		r.park(c.Now(), problem.Error(), problem)
		r.end.wake = c.Now().Add(r.pause(false))
	}
	var recorded machine.Result
	r.Work(&recorded)
	cause := r.end.err
	if kind := r.end.kindFor(recorded.Operation.State); kind != nil {
		cause = errors.Join(kind, cause)
	}
	return recorded.Operation, cause
}

// Work makes attempts until the run's end is decided, records the end, and fills in the result. The claim ends in any
// case, after a hook's panic too.
func (r *Run) Work(res *machine.Result) {
	r.client.Lifecycle.Begin(r)
	defer r.client.Lifecycle.End(r)
	returns := false
	defer func() {
		if !returns { // a hook panicked, and the caller gets that
			r.client.Deliveries.OnLost(&res.Operation)
		}
	}()
	defer func() { // whatever hooks do meanwhile
		if r.flight != nil && res.Operation.State == journal.StateCancelled { // those that have joined begin it anew
			r.flight.RetryAfter = r.askedUntil()
		}
		r.client.Singleflight.Finish(r.flight, &res.Operation)
	}()
	defer func() {
		r.permit.Free()
		if r.end == nil {
			r.stats.breakOff()
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
		due := r.client.Now().Add(r.wait)
		if r.until.Before(due) { // which a clock that was set back meanwhile puts further off
			due = r.until
		}
		r.interrupted(due)
	}

	// Record: the run's end, durably, before the caller or a hook gets it.
	r.record(res)
	r.recoverFor(res)
	returns = true
}
