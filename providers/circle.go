package providers

import "slices"

// Circle describes Circle's API (Mint and developer-controlled wallets), live and sandbox.
//
// Its creating requests take a key in the JSON body's idempotencyKey, a UUID version 4. A repeat gets the original
// response and is not executed. Circle does not publish how long a key is remembered, which failures are kept, or how a
// second request during the first is answered. So nothing is sent again.
//
// A wallet's transfer is found by the refId in your request. Mint's payouts and transfers show no mark from their
// request. Those of the same time, amount and destination are listed for a person.
//
// Each wallet request brings a ciphertext with the entity's secret, another one each time. It is not compared, so a
// repeated call is the same operation. The body is kept with it, because only Circle can decrypt the ciphertext, and
// takes each one once.
func Circle() Provider {
	return Provider{
		Name:             "circle",
		Hosts:            []string{"api.circle.com", "api-sandbox.circle.com"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Source:           sourceCircle + "; hosts: [M]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: circleRules, Source: sourceCircle + ": only certain requests take a key"}, "/"),
			each(circleKeyed(Endpoint{}),
				"POST /v1/payments",
				"POST /v1/payments/{id}/refund",
				"POST /v1/transfers"),
			each(circleKeyed(Endpoint{Object: "payout", ObjectID: "data.id", Lookups: []Lookup{circleMint("/v1/payouts", circlePayee)}}), "POST /v1/payouts"),
			each(circleKeyed(Endpoint{Object: "payout", ObjectID: "data.id", Lookups: []Lookup{circleMint("/v1/businessAccount/payouts", circlePayee)}}), "POST /v1/businessAccount/payouts"),
			each(circleKeyed(Endpoint{Object: "transfer", ObjectID: "data.id", Lookups: []Lookup{circleMint("/v1/businessAccount/transfers")}}), "POST /v1/businessAccount/transfers"),
			each(circleKeyed(Endpoint{
				Object: "transaction", ObjectID: "data.id", Reference: circleReference, Lookups: []Lookup{circleTransactions},
				OmitFields: []string{"entitySecretCiphertext"},
			}), "POST /v1/w3s/developer/transactions/transfer"),
		),
	}.Clone()
}

// circleKeyed takes a key.
func circleKeyed(e Endpoint) Endpoint {
	e.Key = Key{Place: KeyJSONField, Name: "idempotencyKey", UUIDVersion: 4}
	e.Remembers = Successes
	e.Rules = circleRules
	e.Source = sourceCircle + ": UUID of version 4, the original response; paths: developers.circle.com/circle-mint/a-note-on-idempotent-requests [D], their spelling [M]; retention, failures and guard: [?]"
	return e
}

const (
	sourceCircle        = "developers.circle.com/api-reference/idempotent-requests [D]"
	sourceCircleMint    = "circle-nodejs-sdk 13be064 sdk.json, API 2.16.0 [D]"
	sourceCircleWallets = "@circle-fin/developer-controlled-wallets 10.6.0 [S]"
)

// circlePages end at an empty page, since a collection may give fewer items than it was asked for.
var circlePages = Paging{Style: PageLastID, Param: "pageAfter", Size: 1}

var circlePayee = Same{Field: "destination.id", Is: "{request.destination.id}"}

// circleMint reads what the account paid in a time.
func circleMint(path string, same ...Same) Lookup {
	return Lookup{
		By:         ByTime,
		Path:       path,
		Query:      "from={since}&to={until}&pageSize=50",
		TimeLayout: "rfc3339",
		Items:      "data[]",
		Same: append([]Same{
			{Field: "amount.amount", Is: "{request.amount.amount}", As: AsDecimal},
			{Field: "amount.currency", Is: "{request.amount.currency}"},
		}, same...),
		ID:      "id",
		Created: "createDate",
		Next:    circlePages,
		Means:   states("status", TookEffect.of("pending", "complete"), Reversed.of("failed")),
		Source:  sourceCircleMint + ": lists by time, which show neither key nor reference; when one is listed: [?]",
	}
}

var (
	circleReference = Reference{
		Place: KeyJSONField, Name: "refId", Visible: true,
		Source: sourceCircleWallets + ": a reference to identify the transaction, which no request changes; length and visibility to payees: [?]",
	}

	// circleTransactions are more than a create's answer, which has an ID and a state.
	circleTransactions = Lookup{
		By:         ByReference,
		Path:       "/v1/w3s/transactions",
		Query:      "includeAll=true&from={since}&to={until}&pageSize=50",
		TimeLayout: "rfc3339",
		Items:      "data.transactions[]",
		Same: []Same{
			{Field: "refId", Is: "{reference}"},
			{Field: "destinationAddress", Is: "{request.destinationAddress}", As: AnyCase},
			{Field: "amounts[]", Is: "{request.amounts[]}", As: AsDecimal, Optional: true},
			{Field: "walletId", Is: "{request.walletId}", Optional: true},
		},
		ID:      "id",
		Created: "createDate",
		Next:    circlePages,
		Means: states("state",
			TookEffect.of("INITIATED", "CLEARED", "QUEUED", "SENT", "STUCK", "CONFIRMED", "COMPLETE"),
			Reversed.of("FAILED", "DENIED", "CANCELLED")),
		Source: sourceCircleWallets + ": Transaction, listTransactions; one that Circle denied counts as undone; when one is listed: [?]",
	}
)

var circleRules = slices.Concat(
	conflicts("code", "what a conflict means for a key is not published [?]"),
	refusalsUnlimited("code", "developers.circle.com [M]: errors have a code"),
)
