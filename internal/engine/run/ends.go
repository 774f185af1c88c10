package run

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

func (r *Run) park(due time.Time, cause string, err error) {
	r.end = &ending{kind: machine.EventPark, due: due, cause: cause, err: err}
}

func (r *Run) markUnknown(cause string, err error) {
	r.end = &ending{kind: machine.EventMarkUnknown, cause: cause, err: err}
}

func (r *Run) complete() {
	a := &r.attempt
	end := &struct {
		ending
		answer journal.Answer
	}{}
	answer := &end.answer
	*answer = journal.Answer{
		Generation: r.op.Generation,
		Status:     a.resp.StatusCode,
		Header:     wire.RecordedHeader(a.resp.Header),
		Trailer:    wire.RecordedHeader(a.resp.Trailer),
		Body:       a.body,
		Cut:        a.cut != nil,
		Refused:    a.resp.StatusCode >= 400 || r.declined(),
		Pointer:    a.judged.Pointer,
	}
	if a.judged.Verdict == providers.AlreadyDone {
		answer.Refused = false
	}
	if a.partial || r.hides(a.resp.Header, a.body) {
		answer.Body, answer.Omitted = nil, true
	}
	r.end = &end.ending
	r.end.kind, r.end.answer = machine.EventComplete, answer
}

// interrupted ends a run between two attempts after the context's or the client's end. If the caller cancelled, the
// operation is due at once, and otherwise at the next attempt's time.
func (r *Run) interrupted(due time.Time) {
	if r.attempt.partial {
		r.attempt.closed = true // for the next attempt
	}
	if r.ctx.Err() == nil {
		r.park(core.Later(r.client.Now(), due), "the client was shut down", fault.ErrShutdown)
		r.end.own = r.asked.IsZero()
		return
	}
	r.abandon(core.Later(r.client.Now(), due), "")
}

// abandon ends a run whose own context has ended. If the caller ended the context, the operation is due as soon as the
// provider allows. In the background, Run or Resume ended, and the operation stays due at the time due.
func (r *Run) abandon(due time.Time, cause string) {
	e := &ending{kind: r.givesUp(), due: core.Later(r.client.Now(), r.asked), own: r.asked.IsZero(), cause: "its caller gave up", err: context.Cause(r.ctx)}
	if r.caller == nil {
		e.due, e.cause = due, "Run or Resume ended"
	}
	if cause != "" {
		e.cause += "; " + cause
	}
	r.end = e
}

// givesUp returns the event that ends a run which cannot go on through no fault of the operation. The event cancels
// the operation if nothing may have run and the run's own caller began the operation. An operation that was pending
// before stays pending, since other callers know about the operation.
func (r *Run) givesUp() machine.EventKind {
	if r.caller == nil || r.op.Found.State == journal.StatePending {
		return machine.EventPark
	}
	return machine.EventCancel
}
