package providers

import (
	"slices"
	"time"
)

// Lithic describes Lithic's card issuing API, live and sandbox.
//
// A POST takes a key in Idempotency-Key, which has to be a UUID. The result is kept for 24 hours at least, failures
// included, once execution begins. A request that clashes with one under way leaves no result, and other parameters are
// an error. Lithic supports keys on most POSTs, and adds endpoints one by one. Nothing rests on the key except in two
// places of Lithic's page: the creation and the renewal of a card. These are sent again.
//
// Payments, external payments, book transfers and management operations may have a token of yours, which becomes their own.
// They are found by it.
//
// PATCH, PUT and DELETE are idempotent by Lithic's documentation. The answer to a created card may show the card's
// number, so the answer is not kept.
func Lithic() Provider {
	card := Endpoint{
		Key:            lithicKey,
		Retention:      24 * time.Hour,
		Remembers:      Everything,
		InFlightGuard:  true,
		SecretResponse: true,
		Rules:          lithicRules,
		Source: sourceLithic + ": the first result is stored for 24 hours, 500 included, once execution begins; a clash with an ongoing request stores nothing [D-old]; " +
			"a card's answer has its number: lithic-go v0.108.0 card.go [S]",
	}
	return Provider{
		Name:             "lithic",
		Hosts:            []string{"api.lithic.com", "sandbox.lithic.com"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		SecretSource:     "lithic-go v0.108.0 [S]: a card's number, PIN and pin; our reading: no other field is secret",
		Source:           sourceLithic + "; hosts: lithic-go v0.108.0 [S]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Idempotent: true, Rules: lithicErrors, SecretRequest: lithicSecrets, Source: sourceLithic + ": naturally idempotent"}, "PATCH /", "PUT /", "DELETE /"),
			each(Endpoint{Key: lithicKey, Rules: lithicRules, SecretRequest: lithicSecrets, Source: sourceLithic + ": most POSTs; which: [?]"}, "POST /"),
			each(lithicMoves("payment", "/v1/payments", "financial_account_token"), "POST /v1/payments"),
			each(lithicMoves("external payment", "/v1/external_payments", "financial_account_token"), "POST /v1/external_payments"),
			each(lithicMoves("book transfer", "/v1/book_transfers", "to_financial_account_token"), "POST /v1/book_transfers"),
			each(lithicMoves("management operation", "/v1/management_operations", "financial_account_token"), "POST /v1/management_operations"),
			each(card, "POST /v1/cards", "POST /v1/cards/{token}/renew"),
		),
	}.Clone()
}

// lithicMoves moves money, and is found by the token. account is the field that names the account.
func lithicMoves(object, path, account string) Endpoint {
	return Endpoint{
		Key:           lithicKey,
		Object:        object,
		ObjectID:      "token",
		Rules:         lithicRules,
		SecretRequest: lithicSecrets,
		Source:        sourceLithic + ": most POSTs; which: [?]",
		Reference: Reference{
			Place: KeyJSONField, Name: "token", MaxLength: 36, Alphabet: "0123456789ABCDEFabcdef-", Visible: true,
			Source: "lithic-go e6232c6 payment.go, externalpayment.go, booktransfer.go, managementoperation.go [S]: a UUID of the caller's, which becomes the transaction's token; visibility to payees: [?]",
		},
		Lookups: []Lookup{{
			By:        ByReference,
			Path:      path + "/{reference}",
			Same:      []Same{{Field: "token", Is: "{reference}"}, {Field: account, Is: "{request." + account + "}"}},
			ID:        "token",
			Created:   "created",
			Means:     states("status", TookEffect.of("PENDING", "SETTLED"), Reversed.of("CANCELED", "DECLINED", "RETURNED", "REVERSED")),
			SameShape: object != "payment",
			Source:    "lithic-go e6232c6 payment.go, externalpayment.go, booktransfer.go, managementoperation.go [S]: by the token; a created payment's answer also has a balance; when one is found: [?]",
		}},
	}
}

var lithicKey = Key{Place: KeyRawHeader, Name: "Idempotency-Key", MinLength: 36, MaxLength: 36, Alphabet: "0123456789ABCDEFabcdef-"}

const sourceLithic = "docs.lithic.com/docs/idempotent-requests [D]"

var (
	lithicSecrets = []string{"pan", "pin"}
	lithicRules   = slices.Concat(
		conflicts("message", sourceLithic+": a clash with an ongoing request, or another error; the status of either: [?]"),
		lithicErrors,
	)
	lithicErrors = refusalsUnlimited("message", "lithic-go v0.108.0 internal/apierror [S]: errors have a message")
)
