package providers

import (
	"time"

	"github.com/onceward/onceward/internal/status"
)

// What any HTTP server says by these statuses.
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

// jsonAnswers are those of an API that answers in JSON.
var jsonAnswers = []string{"application/json"}

// conflicts read 409 where an endpoint takes keys and it is not published what a
// conflict means for one. With a key that nobody else can have sent, nothing is in
// flight on a first attempt: the API's own error is the operation's answer. Any other
// conflict may be one with an earlier request of ours.
func conflicts(field, source string) []Rule {
	return []Rule{
		{Status: 409, Field: field, On: FirstAttemptOwnKey, Verdict: Final, Source: sourceConflict},
		{Status: 409, Verdict: Indeterminate, Source: source},
	}
}

const sourceConflict = "RFC 9110 section 15.5.10 [D]: the request could not be completed; our reading: no other request with its key can be in the way"

// said returns the retention, or, if nobody said any, one that Validate refuses.
func said(retention time.Duration) time.Duration {
	if retention <= 0 {
		return -1
	}
	return retention
}
