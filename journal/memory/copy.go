package memory

import (
	"bytes"
	"slices"

	"github.com/onceward/onceward/journal"
)

func copyOperation(op journal.Operation, bodies bool) journal.Operation {
	op.Request = copyRequest(op.Request, bodies)
	op.Answer = copyAnswer(op.Answer, bodies)
	op.Compare, op.Rounds, op.Evidence = slices.Clone(op.Compare), slices.Clone(op.Rounds), slices.Clone(op.Evidence)
	for i := range op.Evidence {
		op.Evidence[i].Answer = copyAnswer(op.Evidence[i].Answer, bodies)
	}
	return op // what Resolved and Unwanted point to is never written to
}

func copyRequest(r journal.Request, body bool) journal.Request {
	r.Header = r.Header.Clone()
	r.WithheldHeaders = slices.Clone(r.WithheldHeaders)
	r.WithheldQuery = slices.Clone(r.WithheldQuery)
	r.Body = copyBody(r.Body, body)
	return r
}

func copyAnswer(a *journal.Answer, body bool) *journal.Answer {
	if a == nil {
		return nil
	}
	answer := *a
	answer.Header, answer.Trailer = a.Header.Clone(), a.Trailer.Clone()
	answer.Body = copyBody(a.Body, body)
	answer.Replaced = copyAnswer(a.Replaced, body)
	return &answer
}

func copyBody(body []byte, wanted bool) []byte {
	if !wanted {
		return nil
	}
	return bytes.Clone(body)
}
