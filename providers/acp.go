package providers

import (
	"slices"
	"time"
)

// ACP describes a merchant that implements the Agentic Commerce Protocol's checkout. Name its hosts.
//
// Every POST takes a key in Idempotency-Key. It is remembered for 24 hours at least, by identity and path. A
// repeat gets the original result, marked Idempotent-Replayed: true. During the first request it gets 409 with the
// code idempotency_in_flight. Another body gets 422 with the code idempotency_conflict, and 409 by the text of January
// 2026.
//
// The protocol stores no 5xx, and executes a repeat after it afresh. An operation that received one is unknown.
// After a lost answer it is sent again, because a repeat must not execute effects a second time. Raw and IETF do not
// know this rule: use ACP instead.
//
// The session itself shows whether it is completed or canceled, and is looked at for these two requests.
func ACP(hosts ...string) Provider {
	return Provider{
		Name:             "acp",
		Hosts:            hosts,
		CredentialScoped: true,
		Answers:          jsonAnswers,
		ReplayHeader:     "Idempotent-Replayed", ReplayValue: "true",
		SecretSource: sourceACP + ": a payment's token is single-use and delegated; our reading: no other field is secret",
		Source:       sourceACP + "; scope of keys: identity and path",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: acpErrors, Source: sourceACP + ": keys are for POST"}, "/"),
			each(acpKeyed(""), "POST /"),
			each(acpKeyed("completed checkout session", acpSession("completed")), "POST /checkout_sessions/{id}/complete"),
			each(acpKeyed("canceled checkout session", acpSession("canceled")), "POST /checkout_sessions/{id}/cancel"),
		),
	}.Clone()
}

// acpKeyed takes a key. The look-ups read the session that the request names.
func acpKeyed(object string, looks ...Lookup) Endpoint {
	return Endpoint{
		Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key", MaxLength: 255},
		Retention:     24 * time.Hour,
		Remembers:     SuccessesLostAnswers,
		InFlightGuard: true,
		Object:        object,
		Lookups:       looks,
		Rules: slices.Concat(
			[]Rule{
				{Status: 409, Field: "code", Equals: "idempotency_conflict", Verdict: Misuse, Source: "rfcs/rfc.agentic_checkout.md 068f667 section 6 [D-old]: same key, other parameters"},
				{Status: 422, Field: "code", Equals: "idempotency_conflict", Verdict: Misuse, Source: sourceACP + ": same key, other parameters"},
				{Status: 409, Field: "code", Equals: "idempotency_in_flight", Verdict: InFlight, Source: sourceACP + ": the first is still in flight"},
				{Status: 409, Verdict: Indeterminate, Source: "what another conflict means is not said [?]"},
			},
			acpErrors,
		),
		Source: sourceACP + ": at least 24 hours; a 5xx is not cached, and a retry after it is processed afresh; effects are not executed again on a replay",
	}
}

// acpSession reads a session, which reaches the state once. It does not say when.
func acpSession(state string) Lookup {
	return Lookup{
		By:     ByParent,
		Path:   "/checkout_sessions/{path.id}",
		Same:   []Same{{Field: "id", Is: "{path.id}"}},
		ID:     "id",
		Means:  states("status", TookEffect.of(state)),
		Source: "agentic-commerce-protocol c2afc86 rfcs/rfc.agentic_checkout.md section 4 [D]: the authoritative state; a session is completed or canceled once; when the state is shown: [?]",
	}
}

const sourceACP = "agentic-commerce-protocol c2afc86 rfcs/rfc.agentic_checkout.md section 6 [D]"

var acpErrors = refusalsUnlimited("code", sourceACP+": errors have a type and a code")
