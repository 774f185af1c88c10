package providers

import (
	"slices"
	"time"
)

// Mollie describes Mollie's API. POST, PATCH and DELETE take a key in
// Idempotency-Key, a UUID; Mollie asks for version 4, and does not say that it
// refuses others. Derived keys are of version 8: who wants them of version 4 sets
// UUIDVersion on a copy, before the first use, since it changes the keys that names
// get.
//
// Integrators quote one hour as the time for which keys are kept, the shortest
// of all. What Mollie doesn't publish is how it answers a second request while
// the first is worked on, how long it works, and whether it stores failures: no
// guard is claimed, so that a request that may have run is not sent again.
// Mollie names recurring payments, subscriptions and partial refunds as those
// where a second request does harm, and the list endpoints as the way to find
// out. 400 is said to be the answer to a key that was used with another request,
// but it is not that alone, so that it is never Misuse; 409 is the answer to a
// second refund that looks like the first, which on a retry may have been our
// own. A rate limit of Mollie's was not executed.
//
// The account is the token's. Tokens of OAuth expire within the hour, so that a new
// one is not taken to end the memory of keys: a service that acts for several
// organizations names each by an account label, or sets CredentialScoped.
//
// The answer to a created webhook holds its secret and is not kept.
func Mollie() Provider {
	keyed := Endpoint{
		Key:       Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
		Retention: time.Hour,
		Remembers: Successes,
		Rules:     mollieRules,
		Source:    sourceMollieIdempotency + "; methods: " + sourceMollieSpec + "; one hour: integrators [C]; stored failures and guard: [?]",
	}
	webhook := keyed
	webhook.SecretResponse = true
	webhook.Source += "; webhookSecret: " + sourceMollieSpec
	p := Provider{
		Name:    "mollie",
		Answers: jsonAnswers,
		CredentialModes: []CredentialMode{
			{"test_", "test"}, {"live_", "live"},
		},
		Hosts:        []string{"api.mollie.com"},
		ReplayHeader: "Idempotent-Replayed", ReplayValue: "true",
		Source: sourceMollieIdempotency + "; host: " + sourceMollieSpec + "; the mark: mollie-api-python issue 299 [C]; modes: the examples of " + sourceMollieSpec,
		Endpoints: slices.Concat(
			each(Endpoint{Rules: mollieKeyless, Source: sourceMollieSpec + ": POST, PATCH and DELETE only"}, "/"),
			each(Endpoint{NoEffect: true, Source: sourceMollieSpec}, "POST /oauth2/tokens"),
			each(keyed, "POST /v2/", "PATCH /v2/", "DELETE /v2/", "DELETE /oauth2/tokens"),
			each(webhook, "POST /v2/webhooks"),
		),
	}
	return p.Clone()
}

const (
	sourceMollieIdempotency = "docs.mollie.com/reference/api-idempotency [D]"
	sourceMollieSpec        = "mollie/openapi cfbba47 [D]"
)

var (
	mollieRules = slices.Concat(
		conflicts("title", sourceMollieSpec+": a refund like one shortly before; whether it also says in flight is not published [?]"),
		mollieKeyless,
	)

	mollieKeyless = slices.Concat(
		[]Rule{
			{Status: 429, Field: "title", Verdict: NotExecuted, Source: sourceMollieSpec + " 429-rate-limit, on every operation; that it comes before execution is our reading"},
		},
		refusals("title", sourceMollieSpec+" error-response"),
	)
)
