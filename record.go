package onceward

import (
	"context"
	"errors"
	"log/slog"

	"github.com/onceward/onceward/journal"
)

// record writes the end of the run to the journal. What can't be written is kept
// and tried again; the caller gets what it would have got.
func (r *run) record() journal.Result {
	e := r.end
	ev := journal.Event{
		Kind:       e.kind,
		Ref:        r.op.Ref,
		Handle:     r.op.Handle,
		At:         r.now(),
		Session:    r.op.Holder,
		Claim:      r.op.Claim,
		Generation: r.op.Generation,
		Answer:     e.answer,
		Due:        e.due,
		DueOwn:     e.own,
		Wake:       e.wake,
		Cause:      e.cause,
		Attempts:   r.attempts,
		Open:       r.open,
		Unsent:     r.undated(),
		Failed:     r.failed,
		Busy:       e.busy,
		Mode:       r.mode,
		Told:       r.asker != nil,
		Delivered:  r.cfg.OnSettled == nil,
	}
	res, err := r.journal.Apply(context.WithoutCancel(r.ctx), ev)
	if err != nil {
		op, decision, impossible := journal.Next(r.op, true, ev)
		if impossible != nil {
			err = errors.Join(err, impossible)
		}
		res = journal.Result{Operation: op, Decision: decision}
		r.keep(ev, op, err)
	}
	if res.Operation.Request.Method == "" {
		res.Operation.Request = r.op.Request
	}
	if e.answer != nil && res.Decision == journal.Recorded && res.Operation.State == journal.Completed {
		res.Operation.Answer = e.answer
	}
	r.recorded(res)
	return res
}

// recorded tells the world what was recorded.
func (r *run) recorded(res journal.Result) {
	op := &res.Operation
	if r.end.answer != nil && (res.Decision == journal.Replay || res.Decision == journal.SecondEffect || res.Decision == journal.Gone) {
		second := res.Decision == journal.SecondEffect
		r.note(slog.LevelWarn, "a second answer came", op, "status", r.end.answer.Status, "second_effect", second)
		if r.trace.Conflicted != nil {
			r.trace.Conflicted(operationOf(op), r.end.answer.Status, second)
		}
	}
	if op.State == journal.Pending {
		r.wake()
	}
	r.left(op, r.attempt.judged.Replayed)
}

// left tells logs and Trace that a call is done with an operation.
func (c *Client) left(op *journal.Operation, replayed bool) {
	switch op.State {
	case journal.Completed:
		c.note(slog.LevelDebug, "completed", op, "attempts", op.Attempts, "replayed", replayed)
	case journal.Unknown:
		c.note(slog.LevelWarn, "outcome unknown", op, "cause", op.Cause)
	default:
		c.note(slog.LevelInfo, op.State.String(), op, "cause", op.Cause, "due", op.DueAt)
	}
	if c.trace.Left != nil {
		told := operationOf(op)
		told.Replayed, told.Answer = replayed, nil
		c.trace.Left(told)
	}
}

func (r *run) attempted() {
	a := &r.attempt
	done := Attempt{Number: r.attempts, Verdict: a.judged.Verdict, Unsent: a.unsent, Err: a.err, Duration: r.ended.Sub(a.started)}
	if a.resp != nil {
		done.Status = a.resp.StatusCode
	}
	r.note(slog.LevelDebug, "attempt", &r.op, "number", done.Number, "status", done.Status, "unsent", done.Unsent, "error", done.Err)
	if r.trace.Attempted != nil {
		r.trace.Attempted(operationOf(&r.op), done)
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
