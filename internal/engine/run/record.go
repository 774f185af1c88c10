package run

import (
	"errors"
	"log/slog"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// begun calls the hooks for a claim whose first attempt is next.
func (r *Run) begun() {
	c := r.client
	r.ctx = c.Started(r.ctx, &r.op, r.caller == nil)
	r.pauses.Under(r.ctx)
	if r.replaced {
		c.KeyReplaced(r.ctx, &r.op)
	}
}

// record writes the run's end to the journal. An event that the journal fails to record is kept and tried again,
// and the caller gets the same answer. result holds the recorded state even if a hook panics.
func (r *Run) record(result *machine.Result) {
	e, elsewhere := r.end, r.client.Hook.Elsewhere(r.ctx)
	ev := machine.Event{
		Kind:       e.kind,
		Ref:        r.op.Ref,
		Handle:     r.op.Handle,
		At:         r.client.Now(),
		Session:    r.op.Holder,
		Claim:      r.op.Claim,
		Generation: r.op.Generation,
		Answer:     e.answer,
		Due:        e.due,
		DueOwn:     e.own,
		Wake:       e.wake,
		Cause:      e.cause,
		Attempts:   r.stats.made,
		Open:       r.stats.mayHaveRun,
		Unsent:     r.undated(),
		Failed:     r.stats.failed,
		Busy:       r.stats.busy,
		Unanswered: !r.stats.answered,
		Retention:  r.stats.declared,
		Mode:       r.mode,
		Told:       r.caller != nil,
		Delivered:  !r.client.Deliveries.Settles() && !elsewhere,
		LookAfter:  r.client.Finder.FirstLook(),
		Account:    r.op.Account,

		HookElsewhere: elsewhere,
	}
	if e.answer != nil {
		ev.Object = r.answeredObject(e.answer)
	} else {
		ev.LastAnswer = r.lastAnswer()
	}
	if e.kind == machine.EventMarkUnknown || e.kind == machine.EventComplete && e.answer.Refused {
		ev.Due = r.soonest() // for a caller that may repeat it
	}
	ctx, cancel := r.client.Ending(r.ctx, r.ends)
	defer cancel()
	res, err := r.client.Journal.Apply(ctx, ev)
	if err != nil {
		op, decision, impossible := machine.Next(r.op, true, ev)
		res = machine.Result{Operation: op, Decision: decision}
		r.client.KeepUnsaved(r.ctx, ev, op, errors.Join(err, impossible))
		if op.State == journal.StateCancelled && !r.client.Session.Holds(r.op.Holder) {
			// Others may have taken the operation over, and send it: no process may go by the cancel.
			res = machine.Result{Operation: r.op, Decision: machine.Stale}
		}
	}
	if res.Operation.Request.Method == "" {
		res.Operation.Request = r.op.Request
	}
	if res.Operation.Claim == r.op.Claim {
		r.client.Idle.Note(&res.Operation, r.idleSince)
	}
	if e.answer != nil && res.Decision == machine.Recorded && res.Operation.State == journal.StateCompleted {
		res.Operation.Answer = e.answer
	}
	*result = res
	r.recorded(result)
}

// answeredObject returns kind and id for the object that an attempt's answer shows, or "".
func (r *Run) answeredObject(answer *journal.Answer) string {
	if r.attempt.judged.Verdict == providers.AnswerGone || !r.client.Finder.LooksFor(*r.route) {
		return ""
	}
	return reconcile.AnsweredObject(r.route.Endpoint, answer, r.attempt.body)
}

// recorded logs the run's recorded end, and calls the hooks for it.
func (r *Run) recorded(res *machine.Result) {
	op := &res.Operation
	if r.end.answer != nil && (res.Decision == machine.Replay || res.Decision == machine.SecondEffect || res.Decision == machine.Gone) {
		second := res.Decision == machine.SecondEffect
		r.client.Note(r.ctx, slog.LevelWarn, core.LogConflict, "a second answer came, and the recorded one counts; compare the two at the provider", op, "status", r.end.answer.Status, "second_effect", second)
		r.client.Conflicted(r.ctx, op, r.end.answer.Status, second)
	}
	if op.State == journal.StatePending {
		r.client.Wake()
	}
	var err error
	if op.State != journal.StateCompleted {
		err = core.KindOf(op.State)
		if kind := r.end.kindFor(op.State); kind != nil && res.Decision == machine.Recorded {
			err = kind
		}
		err = errors.Join(err, r.end.err)
	}
	r.client.Ended(r.ctx, op, err, r.attempt.judged.Replayed)
}

// attempted calls the hooks for an attempt that has ended.
func (r *Run) attempted() {
	a, ctx := &r.attempt, r.ctx
	if a.traced != nil {
		ctx = a.traced
	}
	done := core.Attempt{Number: r.stats.made, Verdict: a.judged.Verdict, Unsent: a.unsent, Err: a.err, Duration: r.stats.ended.Sub(a.started)}
	if a.resp != nil {
		done.Status, done.Proto = a.resp.StatusCode, a.resp.Proto
	}
	r.client.AttemptEnded(ctx, &r.op, done)
}
