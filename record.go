package onceward

import (
	"context"
	"errors"
	"log/slog"

	"github.com/onceward/onceward/journal"
)

// begun tells the world that the first attempt is next.
func (r *run) begun() {
	if r.replaced && r.client.trace.KeyReplaced != nil {
		r.client.trace.KeyReplaced(operationOf(&r.op))
	}
	if r.client.trace.Begun != nil {
		r.client.trace.Begun(operationOf(&r.op))
	}
}

// record writes the end of the run to the journal. What can't be written is kept
// and tried again; the caller gets what it would have got.
func (r *run) record() journal.Result {
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
		Delivered:  r.client.cfg.OnSettled == nil,
		LookAfter:  r.client.firstLook(),
		Account:    r.op.Account,
	}
	if e.answer != nil && r.client.looksFor(r.route) {
		ev.Object = answeredObject(r.route.Endpoint, e.answer, r.attempt.body)
	}
	res, err := r.client.journal.Apply(context.WithoutCancel(r.ctx), ev)
	if err != nil {
		op, decision, impossible := journal.Next(r.op, true, ev)
		res = journal.Result{Operation: op, Decision: decision}
		r.client.keepUnsaved(ev, op, errors.Join(err, impossible))
	}
	if res.Operation.Request.Method == "" {
		res.Operation.Request = r.op.Request
	}
	if e.answer != nil && res.Decision == journal.Recorded && res.Operation.State == journal.StateCompleted {
		res.Operation.Answer = e.answer
	}
	if e.answer != nil && !e.answer.Refused && res.Decision == journal.Recorded {
		r.controls(&res.Operation, ev.Object)
	}
	r.recorded(res)
	return res
}

// recorded tells the world what was recorded.
func (r *run) recorded(res journal.Result) {
	op := &res.Operation
	if r.end.answer != nil && (res.Decision == journal.Replay || res.Decision == journal.SecondEffect || res.Decision == journal.Gone) {
		second := res.Decision == journal.SecondEffect
		r.client.note(slog.LevelWarn, "a second answer came", op, "status", r.end.answer.Status, "second_effect", second)
		if r.client.trace.Conflicted != nil {
			r.client.trace.Conflicted(operationOf(op), r.end.answer.Status, second)
		}
	}
	if op.State == journal.StatePending {
		r.client.wake()
	}
	r.client.traceLeft(op, r.attempt.judged.Replayed)
}

// traceLeft tells logs and Trace that a call is done with an operation.
func (c *Client) traceLeft(op *journal.Operation, replayed bool) {
	switch op.State {
	case journal.StateCompleted:
		c.note(slog.LevelDebug, "completed", op, "attempts", op.Attempts, "replayed", replayed)
	case journal.StateUnknown:
		c.note(slog.LevelWarn, "outcome unknown", op, "cause", op.Cause)
	case journal.StatePending:
		c.note(slog.LevelInfo, "pending", op, "cause", op.Cause, "due", op.DueAt)
	default:
		c.note(slog.LevelInfo, op.State.String(), op, "cause", op.Cause)
	}
	if c.trace.Left != nil {
		reported := operationOf(op)
		reported.Replayed, reported.Answer = replayed, nil
		c.trace.Left(reported)
	}
}

func (r *run) attempted() {
	a := &r.attempt
	done := Attempt{Number: r.tally.made, Verdict: a.judged.Verdict, Unsent: a.unsent, Err: a.err, Duration: r.tally.ended.Sub(a.started)}
	if a.resp != nil {
		done.Status = a.resp.StatusCode
	}
	r.client.note(slog.LevelDebug, "attempt", &r.op, "number", done.Number, "status", done.Status, "unsent", done.Unsent, "error", done.Err)
	if r.client.trace.Attempted != nil {
		r.client.trace.Attempted(operationOf(&r.op), done)
	}
}

// describe is what the journal keeps of an error: its nature, never its text,
// which may hold anything.
func describe(err error, unsent bool) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errAttemptTimeout), errors.Is(err, errOutOfTime):
		return "timed out"
	case errors.Is(err, ErrShutdown):
		return "broken off by shutdown"
	case unsent && isNotSent(err):
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
