package providers

import (
	"slices"
	"time"
)

// Raw describes an API with deduplication like Stripe, by a bare key in the header Idempotency-Key, on every
// method that may change something. Without hosts, Raw serves every host that no other provider names.
//
// retention is the server's own promise. None is assumed, and [Provider.Validate] rejects a retention of 0 or
// less. A program with two Raw tables gives one table another Name.
//
// Raw assumes this behavior of the server:
//
//   - The server reserves the key before the work, and answers 409 while a request with the same key is in
//     progress.
//   - The server compares requests, and answers 422 to another one under a known key.
//   - The server stores each success, and marks a repeat of the success with Idempotent-Replayed: true. After
//     a lost answer, a repeat gets the first answer.
//   - The server answers 401, 403, 407 and 429 before the server looks at the key: nothing is executed and
//     nothing stored.
//
// Raw does not assume stored failures. After a 5xx without a replay mark, the operation becomes unknown instead of
// being sent again. It does so after a kill in the middle of a call too, because the dead process may have received a
// 5xx. Some published contracts execute such a repeat anew, as the Agentic Commerce Protocol does (rfc.agentic_checkout
// section 6.5, 2026-06-15 [D]). Use [Provider.WithStoredFailures] for a server that stores and replays failures.
//
// If your server also uses one of these statuses for other errors (409 for a business conflict, 422 for a validation
// error), put a rule before the endpoint's that distinguishes the errors by a field or header.
func Raw(retention time.Duration, hosts ...string) Provider {
	const source = "the assumptions that the documentation of Raw states"
	return Provider{
		Name:         "raw",
		Hosts:        hosts,
		ReplayHeader: "Idempotent-Replayed", ReplayValue: "true",
		Endpoints: []Endpoint{{
			Pattern:       "/",
			Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key", MaxLength: 255},
			Retention:     said(retention),
			Remembers:     SuccessesLostAnswers,
			InFlightGuard: true,

			RefusalsRegisterNoKey: true,

			Rules: slices.Concat(
				refused,
				[]Rule{
					{Status: 400, Through: 499, Header: "Idempotent-Replayed", Value: "true", Verdict: Final, Source: source + ": a replayed answer was executed"},
					{Status: 409, Verdict: InFlight, Source: source},
					{Status: 422, Verdict: Misuse, Source: source},
					{Status: 429, Verdict: NotExecuted, Source: source},
				},
				passing[:2],
				[]Rule{
					{Status: 400, Through: 499, On: FirstAttempt, Verdict: Final, Source: source},
					{Status: 400, Through: 499, On: LaterAttempt, Verdict: Retry, Source: source + ": if it was executed, the next answer carries the mark"},
					{Status: 500, Through: 599, Header: "Idempotent-Replayed", Value: "true", Verdict: Indeterminate, Source: source + ": a stored 5xx stays as it is"},
				},
			),
			Source: source,
		}},
		Source: source,
	}
}

// WithStoredFailures returns a copy of p for a server that stores every executed request's result, failures included,
// and answers a repeat with the stored result. An operation is then sent again after a 5xx too, inside the retention.
// The method works for [Raw], [IETF] or a table of your own.
//
// Use the method only if the server's contract says so. A server that executes a request anew after a failure
// would execute the request twice.
func (p Provider) WithStoredFailures() Provider {
	p.Endpoints = slices.Clone(p.Endpoints)
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; e.Remembers == SuccessesLostAnswers {
			e.Remembers = Everything
		}
	}
	return p
}
