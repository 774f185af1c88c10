package providers

import (
	"slices"
	"time"
)

// Repeatable describes an API that follows OASIS Repeatable Requests 1.0, like Azure's, on every method that may change
// something. Without hosts the table serves every host that no other provider names.
//
// The key goes into Repeatability-Request-ID. Repeatability-First-Sent has the time of the first attempt, the
// same on every attempt. Azure requires a GUID, which Onceward's keys are.
//
// retention is the server's published tracked window: at least 5 minutes in Azure, and no more in its Communication
// Services. None is assumed, and [Provider.Validate] rejects a retention that is not longer than 0. A program that uses
// Repeatable twice gives one table another Name. Of 5 minutes, 3 minutes and 45 seconds are left for repeats. The clock
// must be right, because a skewed one alone gets 412.
//
// By the specification, a request can be retried without unintended side effects. A success and a 4xx are
// remembered. Azure executes a request again that ended in a 5xx. The answer to a second request during the
// first is left open, so no guard is claimed, and nothing is sent again once it may have run. If the server
// answers 409 then, as Email in Azure Communication Services does, set InFlightGuard on the endpoint.
//
// 412 with Repeatability-Result: rejected says that the first attempt is outside the tracked window, and that this
// attempt was not executed. On a first attempt the clock is wrong, and the operation is Rejected. On a later one the
// server may have executed and forgotten the first attempt, so the answer is Indeterminate. An endpoint without support
// for these headers answers 501. An answer without Repeatability-Result comes from a server, or a proxy, that ignored
// the headers. Its success is still a success.
func Repeatable(retention time.Duration, hosts ...string) Provider {
	const result = "Repeatability-Result"
	return Provider{
		Name:  "repeatable",
		Hosts: hosts,
		Endpoints: []Endpoint{{
			Pattern:   "/",
			Key:       Key{Place: KeyRawHeader, Name: "Repeatability-Request-ID", FirstSent: "Repeatability-First-Sent"},
			Retention: said(retention),
			Remembers: SuccessesCleanFailures,
			Rules: slices.Concat(
				[]Rule{
					{Status: 400, Header: result, Value: "rejected", Verdict: Misuse, Source: sourceACS + ": the request does not match the first one under this ID; the headers of ours are not malformed"},
					{Status: 412, Header: result, Value: "rejected", On: FirstAttempt, Verdict: Rejected, Source: sourceRepeatable + ": outside the tracked window, and not executed"},
					{Status: 412, On: LaterAttempt, Verdict: Indeterminate, Source: sourceRepeatable + ": not executed now; our reading: an earlier attempt may have been"},
					{Status: 409, Header: result, Value: "accepted", Verdict: Retry, Source: sourceACS + ": the first request is in progress (Email), or a conflict was its answer"},
					{Status: 409, Verdict: Indeterminate, Source: sourceRepeatable + ": leaves in flight to the API, and this does not say that it isn't"},
					{Status: 501, On: FirstAttempt, Verdict: Rejected, Source: sourceRepeatable + ": an endpoint that does not support the headers refuses them"},
					{Status: 501, On: LaterAttempt, Verdict: Indeterminate, Source: sourceRepeatable + ": an endpoint that does not support the headers has remembered nothing"},
				},
				refused,
				passing,
				[]Rule{
					{Status: 400, Through: 499, Header: result, Value: "accepted", Verdict: Final, Source: sourceACS + ": the status of the first request is repeated if it was a 4xx"},
					{Status: 400, Through: 499, On: FirstAttempt, Verdict: Final, Source: sourceRepeatable + ": leaves the meaning of other errors to the API"},
				},
			),
			Source: sourceRepeatable + "; 5xx is executed again: " + sourceACS + "; in flight: [?]; retention: the caller's",
		}},
		Source: sourceRepeatable,
	}.Clone()
}

const (
	sourceRepeatable = "OASIS Repeatable Requests 1.0, CS01 [D]"
	sourceACS        = "learn.microsoft.com/rest/api/communication/repeatable-requests [D]"
)
