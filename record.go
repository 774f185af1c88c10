package onceward

import (
	"context"
	"errors"
	"log/slog"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// begun tells the world that the first attempt is next.
func (r *run) begun() {
	c := r.client
	if c.trace.Started != nil {
		if ctx := c.trace.Started(r.ctx, operationOf(&r.op), whyOf(&r.op, r.caller == nil)); ctx != nil {
			r.ctx = ctx
			r.pauses.Under(ctx)
		}
	}
	if r.replaced && c.trace.KeyReplaced != nil {
		c.trace.KeyReplaced(r.ctx, operationOf(&r.op))
	}
}

// record writes the end of the run to the journal. What can't be written is kept
// and tried again; the caller gets what it would have got. What stands is in the result also where a hook panics that
// is told of it.
func (r *run) record(result *journal.Result) {
	e := r.end
	ev := journal.Event{
		Kind:       e.kind,
		Ref:        r.op.Ref,
		Handle:     r.op.Handle,
		At:         r.client.now(),
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
		Busy:       e.busy,
		Mode:       r.mode,
		Told:       r.caller != nil,
		Delivered:  !r.client.settles(),
		LookAfter:  r.client.firstLook(),
		Account:    r.op.Account,
	}
	switch {
	case e.found:
		ev.Object = e.object
	case e.answer != nil && r.client.looksFor(r.route):
		ev.Object = answeredObject(r.route.Endpoint, e.answer, r.attempt.body)
	}
	if e.kind == journal.EventDoubt || e.kind == journal.EventComplete {
		ev.Due = r.soonest() // for whoever may repeat it
	}
	res, err := r.client.journal.Apply(context.WithoutCancel(r.ctx), ev)
	if err != nil {
		op, decision, impossible := journal.Next(r.op, true, ev)
		res = journal.Result{Operation: op, Decision: decision}
		r.client.keepUnsaved(r.ctx, ev, op, errors.Join(err, impossible))
		if op.State == journal.StateCancelled && !r.client.session.Holds(r.op.Holder) {
			// Others may have taken it over, and send it: nobody is to go by its cancel.
			res = journal.Result{Operation: r.op, Decision: journal.Stale}
		}
	}
	if res.Operation.Request.Method == "" {
		res.Operation.Request = r.op.Request
	}
	if res.Operation.Claim == r.op.Claim {
		r.client.idle.Note(&res.Operation, r.idleSince)
	}
	if e.answer != nil && res.Decision == journal.Recorded && res.Operation.State == journal.StateCompleted {
		res.Operation.Answer = e.answer
	}
	if e.answer != nil && !e.answer.Refused && !e.found && res.Decision == journal.Recorded {
		r.controls(&res.Operation, ev.Object)
	}
	*result = res
	r.recorded(res)
}

// recorded tells the world what was recorded.
func (r *run) recorded(res journal.Result) {
	op := &res.Operation
	if r.end.answer != nil && (res.Decision == journal.Replay || res.Decision == journal.SecondEffect || res.Decision == journal.Gone) {
		second := res.Decision == journal.SecondEffect
		r.client.note(r.ctx, slog.LevelWarn, logConflict, "a second answer came", op, "status", r.end.answer.Status, "second_effect", second)
		if r.client.trace.Conflicted != nil {
			r.client.trace.Conflicted(r.ctx, operationOf(op), r.end.answer.Status, second)
		}
	}
	if op.State == journal.StatePending {
		r.client.wake()
	}
	var err error
	if op.State != journal.StateCompleted {
		err = kindOf(op.State)
		if r.end.errKind != nil && res.Decision == journal.Recorded {
			err = r.end.errKind
		}
		err = errors.Join(err, r.end.err)
	}
	r.client.ended(r.ctx, op, err, r.attempt.judged.Replayed)
}

// keepUnsaved takes an event that could not be recorded because of err.
func (c *Client) keepUnsaved(ctx context.Context, ev journal.Event, op journal.Operation, err error) {
	c.backlog.Add(ev, op) // before any hook, which may panic
	c.journalFailed(ctx, &op, ev.Kind, "the journal failed; the event is kept in memory and tried again", err)
}

// journalFailed tells the world that an event could not be recorded.
func (c *Client) journalFailed(ctx context.Context, op *journal.Operation, event journal.EventKind, msg string, err error) {
	c.note(ctx, slog.LevelError, logJournalFailed, msg, op, "journal_event", event.String(), "error", err)
	if c.trace.JournalFailed != nil {
		c.trace.JournalFailed(ctx, operationOf(op), event.String(), err)
	}
}

// ended tells logs and Trace that a claim of an operation has ended.
func (c *Client) ended(ctx context.Context, op *journal.Operation, err error, replayed bool) {
	switch op.State {
	case journal.StateCompleted:
		c.note(ctx, slog.LevelDebug, logCompleted, "completed", op, "attempts", op.Attempts, "replayed", replayed)
	case journal.StateUnknown:
		c.note(ctx, slog.LevelWarn, logUnknown, "outcome unknown", op, "cause", op.Cause)
	case journal.StatePending:
		c.note(ctx, slog.LevelInfo, logPending, "pending", op, "cause", op.Cause, "due", op.DueAt)
	default:
		c.note(ctx, slog.LevelInfo, logCancelled, op.State.String(), op, "cause", op.Cause)
	}
	if c.trace.Ended == nil {
		return
	}
	reported := operationOf(op)
	reported.Replayed, reported.Answer = replayed, nil
	if err == nil && op.State != journal.StateCompleted {
		err = kindOf(op.State)
	}
	c.trace.Ended(ctx, reported, err)
}

// attempted tells them that an attempt has.
func (r *run) attempted() {
	a, ctx := &r.attempt, r.ctx
	if a.traced != nil {
		ctx = a.traced
	}
	done := Attempt{Number: r.tally.made, Verdict: a.judged.Verdict, Unsent: a.unsent, Err: a.err, Duration: r.tally.ended.Sub(a.started)}
	if a.resp != nil {
		done.Status, done.Proto = a.resp.StatusCode, a.resp.Proto
	}
	r.client.note(ctx, slog.LevelDebug, logAttempt, "attempt", &r.op, "number", done.Number, "status", done.Status, "unsent", done.Unsent, "error", done.Err)
	if r.client.trace.AttemptEnded != nil {
		r.client.trace.AttemptEnded(ctx, operationOf(&r.op), done)
	}
}

// describe is what the journal keeps of an error: its nature, never its text,
// which may hold anything.
func describe(err error, unsent bool) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, wire.ErrAttemptTimeout), errors.Is(err, wire.ErrOutOfTime):
		return "timed out"
	case errors.Is(err, ErrShutdown):
		return "broken off by shutdown"
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
