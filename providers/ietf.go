package providers

import (
	"slices"
	"time"
)

// IETF describes a server that follows the Internet-Draft draft-ietf-httpapi-idempotency-key-header. The key is a
// quoted string in the header Idempotency-Key, on every method that may change something. Without hosts the table
// serves every host that no other provider names.
//
// The facts are those of -06 and -07. The draft is not an RFC. The text of -08 (22 October 2026, with a third author)
// has not been compared and may differ. The server publishes its own retention. None is assumed, and
// [Provider.Validate] rejects a retention that is not longer than 0. A program that uses IETF twice gives one table
// another Name.
//
// By the draft, a server answers a repeat with the result of the first request, success or error. The draft does not
// say whether a 5xx is such a result. Published contracts of the same shape execute a repeat after a 5xx anew: see
// [Raw]. IETF therefore does not assume stored failures. After a 5xx, and after a kill in mid-call, the operation
// becomes unknown instead of being sent again. Use [Provider.WithStoredFailures] for a server that stores and replays
// failures.
//
// The table is careful wherever the draft is silent:
//
//   - A 500 is Indeterminate, because the server may or may not store it.
//   - 429 and the other 5xx are Retry, and prove nothing.
//   - A 4xx is the operation's answer on a first attempt only. A later one may come from in front of the server's deduplication.
//   - Nothing marks a replay.
//
// By the draft, 409 means that a request with the same key is in progress, and 422 means another request's key. If your
// server also uses these statuses for other errors (a business conflict, a validation error), put a rule before those
// of the endpoint. The field "type" of the problem details can distinguish the two.
func IETF(retention time.Duration, hosts ...string) Provider {
	const source = "draft-ietf-httpapi-idempotency-key-header-07 [D]"
	return Provider{
		Name:  "ietf",
		Hosts: hosts,
		Endpoints: []Endpoint{{
			Pattern:       "/",
			Key:           Key{Place: KeyQuotedHeader, Name: "Idempotency-Key"},
			Retention:     said(retention),
			Remembers:     SuccessesLostAnswers,
			InFlightGuard: true,
			Rules: slices.Concat(
				[]Rule{
					{Status: 409, Verdict: InFlight, Source: source + ": a request for this key is outstanding"},
					{Status: 422, Verdict: Misuse, Source: source + ": the key is used with another payload"},
				},
				refused,
				passing,
				[]Rule{
					{Status: 400, Through: 499, On: FirstAttempt, Verdict: Final, Source: source + ": a repeat gets the result of the first, success or error"},
					{Status: 500, Verdict: Indeterminate, Source: source + ": whether a 500 is stored is left open [?]"},
				},
			),
			Source: source + ": the result of the first is kept, success or error",
		}},
		Source: source,
	}
}
