package memory

import (
	"bytes"
	"maps"
	"net/http"
	"slices"

	"github.com/onceward/onceward/journal"
)

func copyOperation(op journal.Operation, bodies bool) journal.Operation {
	op.Request = copyRequest(op.Request, bodies)
	op.Answer, op.LastAnswer = copyAnswer(op.Answer, bodies), copyAnswer(op.LastAnswer, bodies)
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

// ownRequest returns a copy of a request to be stored. A stored header never changes, so operations share equal ones.
func (j *Journal) ownRequest(r journal.Request) journal.Request {
	r.Header = own(r.Header, &j.latest.request)
	if j.latest.withheld == nil || !slices.Equal(r.WithheldHeaders, j.latest.withheld) {
		j.latest.withheld = slices.Clone(r.WithheldHeaders)
	}
	if r.WithheldHeaders != nil {
		r.WithheldHeaders = j.latest.withheld
	}
	r.WithheldQuery = slices.Clone(r.WithheldQuery)
	r.Body = bytes.Clone(r.Body)
	return r
}

// ownAnswer is ownRequest for an answer, which may be nil.
func (j *Journal) ownAnswer(a *journal.Answer) *journal.Answer {
	if a == nil || a.Replaced != nil {
		return copyAnswer(a, true)
	}
	answer := *a
	answer.Header, answer.Trailer, answer.Body = own(a.Header, &j.latest.answer), a.Trailer.Clone(), bytes.Clone(a.Body)
	return &answer
}

// own returns a copy of a header: the latest one if that is equal, and else a new one, which is the latest then.
func own(h http.Header, latest *http.Header) http.Header {
	if h == nil {
		return nil
	}
	if *latest == nil || !maps.EqualFunc(h, *latest, sameValues) {
		*latest = h.Clone()
	}
	return *latest
}

// sameValues tells a list without values from none.
func sameValues(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

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
