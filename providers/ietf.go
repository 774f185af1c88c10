package providers

import (
	"slices"
	"time"
)

// IETF describes a server that follows the Internet-Draft
// draft-ietf-httpapi-idempotency-key-header: the key is a quoted string in the
// header Idempotency-Key, on every method that may change something. Without
// hosts it serves every host that no other provider names.
//
// The facts are those of -06 and -07; the draft is not an RFC. There is a -08, of
// 22 October 2026 and with a third author, whose text has not been compared: it may
// say otherwise. The draft leaves the retention to the server, which has
// to publish it: none is assumed, and [Provider.Validate] refuses one that is
// not longer than 0. A program that uses IETF twice gives one of them another
// Name.
//
// The draft has a server answer a repeat with the result of the first request, success or error. It does not say whether a
// 5xx is such a result, and published contracts of the same shape execute a repeat after a 5xx anew: see [Raw]. So IETF
// does not assume that failures are stored. If an attempt was answered by a 5xx, the operation is not sent again: it becomes
// unknown. Use [Provider.WithStoredFailures] for a server that stores and replays its failures.
//
// Where the draft is silent, the careful reading stands: a 500 is
// Indeterminate, since the draft does not say whether a server stores it; 429
// and the other 5xx are Retry, not proof of anything; a 4xx is the operation's
// answer on a first attempt only, since on a later one it may come from in
// front of the server's deduplication; there is no mark of a replay.
//
// The draft has servers answer 409 while a request with the same key is being
// worked on and 422 to a key that was used with another request. A server that
// says something else by these statuses too (a business conflict, a validation
// error) needs a rule of its own in front of those of the endpoint, which tells
// the two apart, for instance by the field "type" of its problem details.
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
