package providers

import (
	"time"

	"github.com/onceward/onceward/internal/status"
)

// These statuses mean the same at any HTTP server.
var (
	refused = rules(status.Refused, Rejected)
	passing = rules(status.Passing, Retry)
)

// rules are the facts as rules of one verdict.
func rules(facts []status.Fact, v Verdict) (rules []Rule) {
	for _, f := range facts {
		rules = append(rules, Rule{Status: f.Code, Verdict: v, Source: f.Source})
	}
	return rules
}

// jsonAnswers are the answers of an API in JSON.
var jsonAnswers = []string{"application/json"}

// conflicts reads 409 at an endpoint that takes keys, if the status's meaning for a key is not published. With a key
// that no other program can have sent, nothing is in flight on a first attempt, so the API's own error is the
// operation's answer. Any other conflict may be with an earlier request of the same operation.
func conflicts(field, source string) []Rule {
	return []Rule{
		{Status: 409, Field: field, On: FirstAttemptOwnKey, Verdict: Final, Source: sourceConflict},
		{Status: 409, Verdict: Indeterminate, Source: source},
	}
}

const sourceConflict = "RFC 9110 section 15.5.10 [D]: the request could not be completed; our reading: no other request with its key can be in the way"

// said returns the retention. If the caller gave none, it returns a value that Validate rejects.
func said(retention time.Duration) time.Duration {
	if retention <= 0 {
		return -1
	}
	return retention
}
