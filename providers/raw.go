package providers

import (
	"slices"
	"time"
)

// Raw describes an API of one's own that deduplicates in Stripe's manner, by a
// key that stands bare in the header Idempotency-Key, on every method that may
// change something. Without hosts it serves every host that no other provider
// names.
//
// The retention is what the server promises; nothing is assumed in its place,
// and [Provider.Validate] refuses one that is not longer than 0. A program that
// uses Raw twice gives one of them another Name.
//
// What it takes the server to do:
//
//   - It reserves the key before it works, and answers 409 while a request with
//     the same key is being worked on.
//   - It compares requests, and answers 422 to another one under a known key.
//   - It stores each success, and marks a repeat of it with Idempotent-Replayed: true. If an answer was lost, a repeat
//     is answered like the first request.
//   - 401, 403, 407 and 429 come before the key is looked at: nothing is
//     executed and nothing stored.
//
// Raw does not assume that the server stores failures. If an attempt was answered by a 5xx without the mark of a replay,
// the operation is not sent again: it becomes unknown. Some published contracts execute such a repeat anew, as the Agentic
// Commerce Protocol does (rfc.agentic_checkout section 6.5, 2026-06-15 [D]). Use [Provider.WithStoredFailures] for a server that stores
// and replays its failures.
//
// A server that says something else by one of these statuses (a business
// conflict by 409, a validation error by 422) needs a rule of its own in front
// of those of the endpoint, which tells the two apart by a field or header.
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

// WithStoredFailures returns p for a server that stores the result of every request that it began to execute, failures
// included, and answers a repeat with that result. An operation is then sent again after a 5xx too, inside the retention.
// Use it for [Raw], [IETF] or a table of your own, and only if the server's contract says so: a server that executes a
// request anew after a failure would execute it twice. p is not changed.
func (p Provider) WithStoredFailures() Provider {
	p.Endpoints = slices.Clone(p.Endpoints)
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; e.Remembers == SuccessesLostAnswers {
			e.Remembers = Everything
		}
	}
	return p
}
