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

// said returns the retention, or, if nobody said any, one that Validate refuses.
func said(retention time.Duration) time.Duration {
	if retention <= 0 {
		return -1
	}
	return retention
}
