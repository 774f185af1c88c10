package providers

import "time"

// Onceward describes a service behind package server of this module, in the IETF flavour or in Stripe's. Without hosts
// the table serves every host that no other provider names. Every POST, PUT, PATCH and DELETE at these hosts has to be
// an endpoint in package server.
//
// retention is how long the service executes no key twice. It is Endpoint.Retain and Endpoint.RefuseFor together, at least 30 days by
// default. If endpoints differ, the shortest counts. None is assumed, and [Provider.Validate] rejects a retention that is not longer than
// 0. A program that uses Onceward twice gives one table another Name.
//
// Such a service remembers everything that took effect, recorded declines included. A failure leaves nothing behind at an
// endpoint of Atomic. At one of Repeatable, a repeat completes it without a second effect. So the operation is sent again
// after a lost answer, after a 5xx and after a crash. These answers mean:
//
//   - Idempotency-Expires marks a recorded answer. It is the operation's answer, on any attempt.
//   - Idempotency-Recorded: false marks an answer of the handler that the service forgets. It is the operation's answer on a
//     first attempt only. After 401, 408, 425 and 429 the operation is sent again.
//   - 409 without such a mark is InFlight. The service also answers so if it does not know the outcome itself. The
//     operation then stays pending until a person at the service has resolved the key.
//   - 422, or Stripe's idempotency_error, is Misuse.
//   - 410 is Indeterminate, because the answer is not kept any more. So is a refused replay.
//   - Other refusals of the service, which it marks by Cache-Control: no-store, had no effect.
//
// An operation becomes unknown only by such a 410 or refused replay, and if the retention ends first. A person then looks
// up the key at the service.
//
// A 2xx of any media type counts. If the service answers by JSON alone, set Answers, so that a page of a gateway does not pass for
// a success.
func Onceward(retention time.Duration, hosts ...string) Provider {
	const source = "package server of this module, docs/server.md [S]"
	recorded := func(r Rule, says string) Rule {
		r.Header, r.Source = "Idempotency-Expires", source+": "+says
		return r
	}
	forgotten := func(r Rule, says string) Rule {
		r.Header, r.Value, r.Source = "Idempotency-Recorded", "false", source+": "+says
		return r
	}
	own := func(r Rule, says string) Rule {
		r.Header, r.Value, r.Source = "Cache-Control", "no-store", source+": "+says
		return r
	}
	var rules []Rule
	rules = append(rules,
		recorded(Rule{Status: 300, Through: 499, Verdict: Final}, "a recorded answer"),
		Rule{Status: 300, Through: 499, Header: "Idempotent-Replayed", Value: "true", Verdict: Final, Source: source + ": a recorded answer, given again"},
	)
	for _, status := range []int{401, 408, 425, 429} {
		rules = append(rules, forgotten(Rule{Status: status, Verdict: Retry}, "never recorded, and the key is free"))
	}
	rules = append(rules,
		forgotten(Rule{Status: 300, Through: 499, On: FirstAttempt, Verdict: Final}, "the handler's answer, which is not recorded"),
		forgotten(Rule{Status: 300, Through: 499, On: LaterAttempt, Verdict: Retry}, "an earlier attempt may be under way in another process, and is recorded then"),
		own(Rule{Status: 403, Field: "type", Verdict: Indeterminate}, "a recorded answer may not be given to this caller"),
		own(Rule{Status: 403, Field: "error.type", Equals: "invalid_request_error", Verdict: Indeterminate}, "the same in Stripe's flavour"),
	)
	rules = append(rules, refused...)
	rules = append(rules,
		Rule{Status: 400, Field: "error.type", Equals: "idempotency_error", Verdict: Misuse, Source: source + ": the key was used for another request, in Stripe's flavour"},
		Rule{Status: 400, Header: "Retry-After", Verdict: NotExecuted, Source: source + ": the body broke off on its way, and nothing was executed"},
		own(Rule{Status: 400, Verdict: Rejected}, "the key is malformed, and nothing was executed"),
		Rule{Status: 409, Verdict: InFlight, Source: source + ": a request with the key is being served, or its outcome has to be resolved"},
		Rule{Status: 410, Verdict: Indeterminate, Source: source + ": the request was served, and its answer is not kept"},
		own(Rule{Status: 413, Verdict: Rejected}, "the body is too large, and nothing was executed"),
		Rule{Status: 422, Field: "type", Verdict: Misuse, Source: source + ": the key was used for another request"},
		own(Rule{Status: 429, Verdict: NotExecuted}, "too many requests of the caller at once"),
	)
	rules = append(rules, passing...)
	rules = append(rules,
		Rule{Status: 400, Through: 499, On: FirstAttempt, Verdict: Final, Source: source + ": an answer from in front of the endpoint, such as a router's"},
		Rule{Status: 400, Through: 499, On: LaterAttempt, Verdict: Retry, Source: source + ": if an earlier attempt was recorded, the next answer shows it"},
	)
	return Provider{
		Name:         "onceward",
		Hosts:        hosts,
		ReplayHeader: "Idempotent-Replayed", ReplayValue: "true",
		Endpoints: []Endpoint{{
			Pattern:       "/",
			Key:           Key{Place: KeyQuotedHeader, Name: "Idempotency-Key", MinLength: 8, MaxLength: 255},
			Retention:     said(retention),
			Remembers:     Everything,
			InFlightGuard: true,

			RefusalsRegisterNoKey: true,

			Rules:  rules,
			Source: source + ": what is not recorded has left nothing; retention: the caller's word",
		}},
		Source: source,
	}
}
