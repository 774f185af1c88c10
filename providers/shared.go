package providers

import "time"

// The statuses by which any HTTP server says that it refused a request rather
// than applied it.
var refused = []Rule{
	{Status: 401, Verdict: Rejected, Source: sourceRefused},
	{Status: 403, Verdict: Rejected, Source: sourceRefused},
	{Status: 407, Verdict: Rejected, Source: sourceRefused},
}

const sourceRefused = "RFC 9110 sections 15.5.2, 15.5.4 and 15.5.8: refused, not applied [D]"

// Client errors that stand for a passing condition at any HTTP server. They
// come before a rule that takes the other 4xx for an answer.
var passing = []Rule{
	{Status: 408, Verdict: Retry, Source: "RFC 9110 section 15.5.9: the client may repeat the request [D]"},
	{Status: 425, Verdict: Retry, Source: "RFC 8470 section 5.2: the client may repeat the request [D]"},
	{Status: 429, Verdict: Retry, Source: "RFC 6585 section 4 does not say whether the request was executed [D]"},
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

const sourceConflict = "RFC 9110 section 15.5.10 [D]: the request could not be completed; that no other request with its key can be in the way is our reading"

// said returns the retention, or, if nobody said any, one that Validate refuses.
func said(retention time.Duration) time.Duration {
	if retention <= 0 {
		return -1
	}
	return retention
}
