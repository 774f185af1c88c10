package memory

import (
	"bytes"
	"slices"

	"github.com/onceward/onceward/journal"
)

func copyOperation(op journal.Operation, bodies bool) journal.Operation {
	op.Request = copyRequest(op.Request, bodies)
	op.Answer = copyAnswer(op.Answer, bodies)
	op.Compare, op.Rounds, op.Evidence = slices.Clone(op.Compare), slices.Clone(op.Rounds), copyEvidence(op.Evidence, bodies)
	return op // the targets of Resolved and Unwanted never change
}

func copyEvidence(list []journal.Evidence, bodies bool) []journal.Evidence {
	list = slices.Clone(list)
	for i := range list {
		list[i].Answer = copyAnswer(list[i].Answer, bodies)
	}
	return list
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
