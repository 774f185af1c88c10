package providers

import "slices"

// Circle describes Circle's API (Mint and developer-controlled wallets), live and sandbox.
//
// Its creating requests take a key in idempotencyKey of the JSON body, a UUID of version 4. A repeat gets the
// original response and is not executed. Circle does not publish how long it remembers a key, what it keeps of a
// failure, or what a second request during the first gets. So nothing is sent again.
func Circle() Provider {
	p := Provider{
		Name:             "circle",
		Hosts:            []string{"api.circle.com", "api-sandbox.circle.com"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Source:           sourceCircle + "; hosts: [M]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: circleRules, Source: sourceCircle + ": only certain requests take a key"}, "/"),
			each(Endpoint{
				Key:       Key{Place: KeyJSONField, Name: "idempotencyKey", UUIDVersion: 4},
				Remembers: Successes,
				Rules:     circleRules,
				Source:    sourceCircle + ": UUID of version 4, the original response; paths: developers.circle.com/circle-mint/a-note-on-idempotent-requests [D], their spelling [M]; retention, failures and guard: [?]",
			},
				"POST /v1/payments",
				"POST /v1/payments/{id}/refund",
				"POST /v1/payouts",
				"POST /v1/transfers",
				"POST /v1/businessAccount/payouts",
				"POST /v1/businessAccount/transfers",
				"POST /v1/w3s/developer/transactions/transfer"),
		),
	}
	return p.Clone()
}

const sourceCircle = "developers.circle.com/api-reference/idempotent-requests [D]"

var circleRules = slices.Concat(
	conflicts("code", "what a conflict means for a key is not published [?]"),
	refusalsUnlimited("code", "developers.circle.com [M]: errors have a code"),
)
