package providers

import (
	"slices"
	"time"
)

// Rapyd describes Rapyd's API, live and sandbox.
//
// Create Payment takes a key in the header idempotency. For 24 hours a repeat gets the first response. The check
// compares the amount and nothing else, not even the currency: an operation's bytes never change here, so that
// does no harm. Other requests take a key only if Rapyd's support switched that on for you. What is kept of a failure, and
// what a second request during the first gets, is not published. So nothing is sent again.
//
// A payment may have your merchant_reference_id, and is found by it.
//
// Requests are signed over the body: sign in Authorize, which sees the final request. The key is not signed.
func Rapyd() Provider {
	return Provider{
		Name:           "rapyd",
		Hosts:          []string{"api.rapyd.net", "sandboxapi.rapyd.net"},
		AccountHeaders: []string{"Access_key"},
		Answers:        jsonAnswers,
		SecretSource:   "docs.rapyd.net [M]: the number and the code of a card; our reading: no other field is secret",
		Source:         sourceRapyd + "; hosts, account header: [M]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: rapydRules, SecretRequest: rapydCards, Source: sourceRapyd + ": by default for Create Payment only"}, "/"),
			each(Endpoint{
				Key:           Key{Place: KeyRawHeader, Name: "Idempotency"},
				Retention:     24 * time.Hour,
				Remembers:     Successes,
				Object:        "payment",
				Reference:     rapydReference,
				Lookups:       []Lookup{rapydPayments},
				SecretRequest: rapydCards,
				Rules:         rapydRules,
				Source:        sourceRapyd + ": the response to the first request for 24 hours; header and amount are compared; failures and guard: [?]",
			}, "POST /v1/payments"),
		),
	}.Clone()
}

const (
	sourceRapyd    = "docs.rapyd.net/en/idempotency.html [D]"
	sourceRapydSDK = "Rapyd-Samples/Rapyd-Python-SDK fac89c6 [S]"
)

var rapydReference = Reference{
	Place: KeyJSONField, Name: "merchant_reference_id", MaxLength: 255, Visible: true, Mutable: true,
	Source: sourceRapydSDK + " V1PaymentsBody: an ID defined by the client; visibility to payers, and whether an update changes it: [?]",
}

// rapydPayments compares the amount that was asked for. A payment's amount is what was received.
var rapydPayments = Lookup{
	By:    ByReference,
	Path:  "/v1/payments",
	Query: "merchant_reference_id={reference}&limit=100",
	Items: "data[]",
	Same: []Same{
		{Field: "merchant_reference_id", Is: "{reference}"},
		{Field: "original_amount", Is: "{request.amount}", As: AsDecimal},
		{Field: "currency_code", Is: "{request.currency}", As: AnyCase},
	},
	ID:        "id",
	Created:   "created_at",
	Next:      Paging{Size: 100},
	Fetch:     "/v1/payments/{id}",
	Means:     states("data.status", TookEffect.of("ACT", "CLO"), Reversed.of("CAN", "ERR", "EXP", "REV")),
	SameShape: true,
	Source:    sourceRapydSDK + " payment.py, Payment, PaymentStatus: a filter by merchant_reference_id, at most 100; our reading of the states' names; the amount of a payment with foreign exchange differs; when one is listed: [?]",
}

var (
	rapydCards = []string{"fields.number", "fields.cvv"}
	rapydRules = slices.Concat(
		conflicts("status.error_code", "what a conflict means for a key is not published [?]"),
		refusalsUnlimited("status.error_code", "docs.rapyd.net [M]: errors have a status with an error_code"),
	)
)
