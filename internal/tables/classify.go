package tables

import (
	"github.com/onceward/onceward/providers"
)

// Classify reads an answer by the endpoint's rules, the first match first. An
// answer with the provider's replay mark is read as one to a later attempt,
// whatever a.Later says, since it proves an earlier one.
//
// A 2xx that [Recognises] does not take for the provider's is Indeterminate, whatever the rules say about the status:
// another server answered.
//
// An answer that no rule matches is read with care: 2xx is Final; 408, 425, 429
// and 5xx are Retry; everything else, other 4xx and 3xx included, is
// Indeterminate. A provider whose other 4xx answers are the operation's answer,
// or prove that nothing was executed, says so by rules.
//
// It is safe for concurrent use and never fails, whatever the answer holds.
func (rt Route) Classify(a Answer) Judgement {
	var j Judgement
	if p := rt.Provider; rt.Listed && p != nil && p.ReplayHeader != "" {
		j.Replayed = headerSays(a.Header, p.ReplayHeader, p.ReplayValue)
	}
	r := reading{Answer: a}
	r.Later = a.Later || j.Replayed
	switch {
	case rt.reads().decide(&r, &j):
	default:
		defaultReader.decide(&r, &j)
	}
	body := a.Body
	if a.Beginning != nil {
		body = a.Beginning
	}
	if j.Recognised = success(a.Status) && (!rt.Listed || Recognises(rt.Provider, a.Status, a.Header, body)); !j.Recognised && success(a.Status) {
		j = Judgement{Verdict: providers.Indeterminate, Replayed: j.Replayed, Source: sourceForeign}
	}
	j.Earlier = j.Replayed || j.Verdict == providers.InFlight || j.Verdict == providers.AlreadyDone || j.Verdict == providers.AnswerGone
	return j
}
