package providers

import (
	"slices"
	"time"
)

// AIP155 describes an API with the request IDs of Google's AIP-155 on every method that may change something. Without
// hosts the table serves every host that no other provider names.
//
// AIP-155 puts the field request_id on the request message. Its place depends on the method's HTTP mapping:
// the query parameter requestId if the body is the resource ([KeyQuery], the usual case), or a field of the
// JSON body if the body is the whole message ([KeyJSONField]). An API with both needs a second [Endpoint] for
// the rarer one, a copy with another Pattern and Key.Place. A key has at most 36 ASCII characters. A UUIDv4
// fits every service.
//
// retention is the service's own promise, "any reasonable timeframe". [Provider.Validate] rejects a retention that is
// not longer than 0. A program that uses AIP155 twice gives one table another Name.
//
// With a request ID the service must process a request once, however often it arrives, also in parallel. InFlightGuard
// and the memory of this table rest on that. A duplicate gets the earlier success, or the current state of the
// resource. Other answers are read by the status in the body (error.status, AIP-193) and AIP-194:
//
//   - UNAVAILABLE is sent again.
//   - ABORTED, ALREADY_EXISTS and the other refusals are the operation's answer on a first attempt, and prove nothing about it
//     on a later one.
//   - DEADLINE_EXCEEDED, INTERNAL, UNKNOWN, CANCELLED and DATA_LOSS are Indeterminate.
func AIP155(place KeyPlace, retention time.Duration, hosts ...string) Provider {
	rules := []Rule{
		{Status: 503, Field: "error.status", Equals: "UNAVAILABLE", Verdict: Retry, Source: sourceAIP194 + ": the one code to retry"},
		{Status: 401, Field: "error.status", Equals: "UNAUTHENTICATED", Verdict: Rejected, Source: sourceAIP194 + ": not until it is authenticated"},
		{Status: 403, Field: "error.status", Equals: "PERMISSION_DENIED", Verdict: Rejected, Source: sourceAIP194 + ": not until it has permission"},
	}
	for _, code := range []string{
		"ABORTED",
		"ALREADY_EXISTS",
		"FAILED_PRECONDITION",
		"INVALID_ARGUMENT",
		"NOT_FOUND",
		"OUT_OF_RANGE",
		"RESOURCE_EXHAUSTED",
		"UNIMPLEMENTED",
	} {
		rules = append(rules, Rule{Status: 400, Through: 599, Field: "error.status", Equals: code, On: FirstAttempt, Verdict: Final, Source: sourceAIP194 + ": not to be retried as it is"})
	}
	rules = slices.Concat(rules, refused, []Rule{
		{Status: 400, Through: 599, Field: "error.status", Verdict: Indeterminate, Source: sourceAIP194 + ": not to be retried automatically; whether it was executed is left open"},
		{Status: 503, Verdict: Retry, Source: "RFC 9110 section 15.6.4 [D]: not able to handle the request for now; the key makes a repeat safe"},
		{Status: 400, Through: 599, Verdict: Indeterminate, Source: sourceAIP194 + ": says nothing of an answer without a code"},
	})
	return Provider{
		Name:  "aip155",
		Hosts: hosts,
		Endpoints: []Endpoint{{
			Pattern:       "/",
			Key:           Key{Place: place, Name: "requestId", MaxLength: 36},
			Retention:     said(retention),
			Remembers:     SuccessesCleanFailures,
			InFlightGuard: true,
			Rules:         rules,
			Source:        sourceAIP155 + ": a request ID must guarantee idempotency, in parallel too; place and retention: the caller's",
		}},
		Source: sourceAIP155,
	}.Clone()
}

const (
	sourceAIP155 = "google.aip.dev 126bed4 AIP-155 [D]"
	sourceAIP194 = "google.aip.dev 126bed4 AIP-194 [D]"
)
