package memory

import (
	"bytes"
	"slices"

	"github.com/onceward/onceward/journal"
)

// copyEvent copies what the journal is going to keep of ev.
func copyEvent(ev journal.Event) journal.Event {
	if ev.Intent != nil {
		intent := *ev.Intent
		intent.Request = copyRequest(intent.Request)
		ev.Intent = &intent
	}
	ev.Answer = copyAnswer(ev.Answer)
	return ev
}

func copyOperation(op journal.Operation) journal.Operation {
	op.Request = copyRequest(op.Request)
	op.Answer = copyAnswer(op.Answer)
	return op
}

func copyRequest(r journal.Request) journal.Request {
	r.Header = r.Header.Clone()
	r.Body = bytes.Clone(r.Body)
	r.WithheldHeaders = slices.Clone(r.WithheldHeaders)
	r.WithheldQuery = slices.Clone(r.WithheldQuery)
	return r
}

func copyAnswer(a *journal.Answer) *journal.Answer {
	if a == nil {
		return nil
	}
	answer := *a
	answer.Header, answer.Trailer = a.Header.Clone(), a.Trailer.Clone()
	answer.Body = bytes.Clone(a.Body)
	return &answer
}

func withoutBodies(op journal.Operation) journal.Operation {
	op.Request.Body = nil
	if op.Answer != nil {
		answer := *op.Answer
		answer.Body = nil
		op.Answer = &answer
	}
	return op
}
