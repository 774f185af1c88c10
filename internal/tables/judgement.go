package tables

import (
	"net/http"
	"slices"

	"github.com/onceward/onceward/internal/status"
	"github.com/onceward/onceward/providers"
)

// MaxAnswerBody is the largest response body that is looked at, in bytes. A longer one has no fields.
const MaxAnswerBody = 16 << 20

// Answer is a provider's response to one attempt.
type Answer struct {
	// Status is the response's status code.
	Status int

	// Header holds the response's headers.
	Header http.Header

	// Body is the response's body, decoded, or a prefix. A JSON body that is cut short, or longer than [MaxAnswerBody],
	// has no fields. Nil means unknown.
	Body []byte

	// Beginning is the decoded beginning of a body that is not read for fields. Only [Recognises] reads Beginning. Nil
	// means unknown.
	Beginning []byte

	// Later says that an earlier attempt under the key may have run.
	Later bool

	// OwnKey says that the client made the key at random for the operation, so no other party can have sent the key. It
	// is false for a caller's own key. It is also false for a key made from a secret and a name, since the operation
	// would get the same key again after the loss of the journal.
	OwnKey bool
}

// Judgement is an [Answer]'s meaning.
type Judgement struct {
	// Verdict is the answer's meaning for the operation.
	Verdict providers.Verdict

	// Replayed says that the answer carries the provider's replay mark.
	Replayed bool

	// Earlier says that the answer proves an earlier attempt under the key, even if the journal knows of none: a replay
	// mark, InFlight, AlreadyDone or AnswerGone.
	Earlier bool

	// Recognised says that the answer is a 2xx from the provider, as far as the table tells: see [Recognises].
	Recognised bool

	// Credential says, of a Rejected, that the provider refused the credential itself. No request with the credential gets
	// through.
	Credential bool

	// Pointer names the resource, for AlreadyDone.
	Pointer string

	// Source names where the rule that decided comes from.
	Source string
}

// defaultRules classify the answers that a provider's own rules leave. They trust only facts that hold for any HTTP
// server, and otherwise choose the verdict with the least harm. If the status promises that the next answer may differ,
// the verdict is a repeat with the same key. Elsewhere the verdict is reconciliation. The resend rule still has to
// allow the repeat. 409 and the other client errors mean something else at each provider.
var defaultRules = slices.Concat([]providers.Rule{
	{Status: 200, Through: 299, Verdict: providers.Final, Source: "RFC 9110 section 15.3: received, understood and accepted [D]"},
}, rules(status.Passing, providers.Retry), []providers.Rule{
	{Status: 500, Through: 599, Verdict: providers.Retry, Source: "RFC 9110 section 15.6 does not say whether the request was executed [D]"},
	{Verdict: providers.Indeterminate, Source: "no rule reads this answer"},
})

// rules returns the facts as rules of one verdict.
func rules(facts []status.Fact, v providers.Verdict) (rules []providers.Rule) {
	for _, f := range facts {
		rules = append(rules, providers.Rule{Status: f.Code, Verdict: v, Source: f.Source})
	}
	return rules
}
