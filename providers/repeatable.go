package providers

import (
	"slices"
	"time"
)

// Repeatable describes an API that follows OASIS Repeatable Requests 1.0, as those
// of Azure do, on every method that may change something. Without hosts it serves
// every host that no other provider names.
//
// The key goes in Repeatability-Request-ID, and with it Repeatability-First-Sent,
// the time of the first attempt, the same on every attempt. Azure wants the key to
// be a GUID, which the keys are that this module makes.
//
// The retention is the server's tracked window, which it has to publish: at least
// 5 minutes in Azure, and no more than that in its Communication Services. None is
// assumed, and [Provider.Validate] refuses one that is not longer than 0. A
// program that uses Repeatable twice gives one of them another Name. Of 5 minutes
// three and three quarters are left for repeats, and the clock has to be right: a
// skewed one alone is answered with 412.
//
// The specification has a request retried without unintended side effects. A
// success and a 4xx are remembered; Azure executes again what ended in a 5xx.
// What a server answers while the first request is being worked on is left open,
// so that no guard is claimed and nothing is sent again once it may have run: for
// a server that answers 409 then, as Email in Azure Communication Services does,
// set InFlightGuard on the endpoint.
//
// 412 with Repeatability-Result: rejected says that the first attempt is not inside
// the tracked window: this attempt was not executed. On a first attempt that is
// all there is to know, and the operation is Rejected, for a clock that is wrong.
// On a later one the first attempt may have been executed, which the server has
// forgotten by now: the answer is Indeterminate, to be reconciled. 501 is how an
// endpoint refuses these headers if it does not support them. An answer without
// Repeatability-Result comes from a server, or from something in front of it, that
// did not look at them; a success by it is one all the same.
func Repeatable(retention time.Duration, hosts ...string) Provider {
	const result = "Repeatability-Result"
	p := Provider{
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
	}
	return p.Clone()
}

const (
	sourceRepeatable = "OASIS Repeatable Requests 1.0, CS01 [D]"
	sourceACS        = "learn.microsoft.com/rest/api/communication/repeatable-requests [D]"
)
