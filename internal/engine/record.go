package engine

import (
	"errors"
	"log/slog"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// begun calls the hooks for a claim whose first attempt is next.
func (r *run) begun() {
	e := r.engine
	r.ctx = e.Started(r.ctx, &r.op, r.caller == nil)
	r.pauses.Under(r.ctx)
	if r.replaced {
		e.KeyReplaced(r.ctx, &r.op)
	}
}

// record writes the end of the run to the journal. An event that the journal fails to record is kept and tried again,
// and the caller gets the same answer. result holds the recorded state even if a hook panics.
func (r *run) record(result *machine.Result) {
	e, elsewhere := r.end, r.engine.Hook.Elsewhere(r.ctx)
	ev := machine.Event{
		Kind:       e.kind,
		Ref:        r.op.Ref,
		Handle:     r.op.Handle,
		At:         r.engine.Now(),
		Session:    r.op.Holder,
		Claim:      r.op.Claim,
		Generation: r.op.Generation,
		Answer:     e.answer,
		Due:        e.due,
		DueOwn:     e.own,
		Wake:       e.wake,
		Cause:      e.cause,
		Attempts:   r.tally.made,
		Open:       r.tally.mayHaveRun,
		Unsent:     r.undated(),
		Failed:     r.tally.failed,
		Busy:       r.tally.busy,
		Unanswered: !r.tally.answered,
		Retention:  r.tally.declared,
		Mode:       r.mode,
		Told:       r.caller != nil,
		Delivered:  !r.engine.deliveries.Settles() && !elsewhere,
		LookAfter:  r.engine.finder.FirstLook(),
		Account:    r.op.Account,

		HookElsewhere: elsewhere,
	}
	if e.answer != nil {
		ev.Object = r.answeredObject(e.answer)
	} else {
		ev.LastAnswer = r.lastAnswer()
	}
	if e.kind == machine.EventDoubt || e.kind == machine.EventComplete && e.answer.Refused {
		ev.Due = r.soonest() // for a caller that may repeat it
	}
	ctx, cancel := r.engine.Ending(r.ctx, r.ends)
	defer cancel()
	res, err := r.engine.Journal.Apply(ctx, ev)
	if err != nil {
		op, decision, impossible := machine.Next(r.op, true, ev)
		res = machine.Result{Operation: op, Decision: decision}
		r.engine.KeepUnsaved(r.ctx, ev, op, errors.Join(err, impossible))
		if op.State == journal.StateCancelled && !r.engine.Session.Holds(r.op.Holder) {
			// Others may have taken it over, and send it: no process may go by its cancel.
			res = machine.Result{Operation: r.op, Decision: machine.Stale}
		}
	}
	if res.Operation.Request.Method == "" {
		res.Operation.Request = r.op.Request
	}
	if res.Operation.Claim == r.op.Claim {
		r.engine.Idle.Note(&res.Operation, r.idleSince)
	}
	if e.answer != nil && res.Decision == machine.Recorded && res.Operation.State == journal.StateCompleted {
		res.Operation.Answer = e.answer
	}
	*result = res
	r.recorded(result)
}

// answeredObject returns kind and id of the object that an attempt's answer shows, or "".
func (r *run) answeredObject(answer *journal.Answer) string {
	if r.attempt.judged.Verdict == providers.AnswerGone || !r.engine.finder.LooksFor(*r.route) {
		return ""
	}
	return reconcile.AnsweredObject(r.route.Endpoint, answer, r.attempt.body)
}

// recorded logs the recorded end of the run, and calls the hooks for it.
func (r *run) recorded(res *machine.Result) {
	op := &res.Operation
	if r.end.answer != nil && (res.Decision == machine.Replay || res.Decision == machine.SecondEffect || res.Decision == machine.Gone) {
		second := res.Decision == machine.SecondEffect
		r.engine.Note(r.ctx, slog.LevelWarn, core.LogConflict, "a second answer came, and the recorded one counts; compare the two at the provider", op, "status", r.end.answer.Status, "second_effect", second)
		r.engine.Conflicted(r.ctx, op, r.end.answer.Status, second)
	}
	if op.State == journal.StatePending {
		r.engine.Wake()
	}
	var err error
	if op.State != journal.StateCompleted {
		err = core.KindOf(op.State)
		if kind := r.end.kindFor(op.State); kind != nil && res.Decision == machine.Recorded {
			err = kind
		}
		err = errors.Join(err, r.end.err)
	}
	r.engine.Ended(r.ctx, op, err, r.attempt.judged.Replayed)
}

// attempted calls the hooks for an attempt that has ended.
func (r *run) attempted() {
	a, ctx := &r.attempt, r.ctx
	if a.traced != nil {
		ctx = a.traced
	}
	done := core.Attempt{Number: r.tally.made, Verdict: a.judged.Verdict, Unsent: a.unsent, Err: a.err, Duration: r.tally.ended.Sub(a.started)}
	if a.resp != nil {
		done.Status, done.Proto = a.resp.StatusCode, a.resp.Proto
	}
	r.engine.AttemptEnded(ctx, &r.op, done)
}

// describe returns the text that the journal keeps of an error: its nature, never its own text, which may hold
// anything.
func describe(err error, unsent bool) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, wire.ErrAttemptTimeout), errors.Is(err, wire.ErrOutOfTime):
		return "timed out"
	case errors.Is(err, fault.ErrShutdown):
		return "interrupted by shutdown"
	case unsent && fault.IsMarkedNotSent(err):
		return "refused locally, not sent"
	case unsent && errors.As(err, &timeout) && timeout.Timeout():
		return "not sent: timed out connecting"
	case unsent:
		return "not sent"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer: timed out"
	}
	return "no answer: the connection failed"
}
