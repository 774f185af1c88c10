package tables

import (
	"net/http"
	"slices"

	"github.com/onceward/onceward/internal/status"
	"github.com/onceward/onceward/providers"
)

// Answer is a provider's response to one attempt.
type Answer struct {
	// Status is the response's status code.
	Status int

	// Header holds the response's headers.
	Header http.Header

	// Body is the response's body, decoded, or a prefix of it. A JSON body that is
	// longer than [MaxAnswerBody], or cut short, has no fields. It is nil if it is not known.
	Body []byte

	// Beginning is the decoded beginning of a body that is not read for fields. Only [Recognises] reads it. It is nil if it is
	// not known.
	Beginning []byte

	// Later says that an earlier attempt under this key may have run.
	Later bool

	// OwnKey says that the key was made at random for this operation, so that no other party can have sent it. It is
	// false for a caller's own key. It is also false for one made from a secret and a name, since the same operation
	// would get that key again after a journal was lost.
	OwnKey bool
}

// Judgement is the meaning of an [Answer].
type Judgement struct {
	// Verdict is the meaning of the answer for the operation.
	Verdict providers.Verdict

	// Replayed says that the answer carries the provider's replay mark.
	Replayed bool

	// Earlier says that the answer proves an earlier attempt under this key,
	// even where the journal knows of none: a replay mark, InFlight,
	// AlreadyDone or AnswerGone.
	Earlier bool

	// Recognised says that the answer is a 2xx, and the provider's by all that its
	// table says of them: see [Recognises].
	Recognised bool

	// Credential says, of a Rejected, that the provider refused the credential
	// itself: no request that has it gets through.
	Credential bool

	// Pointer names the resource, for AlreadyDone.
	Pointer string

	// Source names where the rule that decided comes from.
	Source string
}

// Classify reads an answer by the endpoint's rules, the first match first. An
// answer with the provider's replay mark is read as one to a later attempt,
// whatever a.Later says, since it proves an earlier one.
//
// A 2xx that [Recognises] does not take for the provider's is
// Indeterminate, whatever the rules make of its status: something else answered.
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

// defaultRules classify the answers that a provider's own rules leave. They trust only facts that hold for any HTTP
// server, and otherwise choose the verdict that does the least harm. That is a repeat with the same key if the status
// promises that the next answer may differ, and reconciling elsewhere. The resend rule still has to allow the repeat.
// 409 and the other client errors mean something else at each provider.
var defaultRules = slices.Concat([]providers.Rule{
	{Status: 200, Through: 299, Verdict: providers.Final, Source: "RFC 9110 section 15.3: received, understood and accepted [D]"},
}, rules(status.Passing, providers.Retry), []providers.Rule{
	{Status: 500, Through: 599, Verdict: providers.Retry, Source: "RFC 9110 section 15.6 does not say whether the request was executed [D]"},
	{Verdict: providers.Indeterminate, Source: "no rule reads this answer"},
})
