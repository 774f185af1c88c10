package providers

import (
	"slices"
	"time"
)

// Moov describes Moov's API.
//
// Creating a transfer, refunding and reversing one take a key of at most 36 characters
// in X-Idempotency-Key, which never expires: a second transfer with it is answered by
// 409, which says that one was created. Retention stands for it by 90 days, the time for
// which a journal keeps answers anyway. That has no exception, so that a request that
// may have run is sent again: if the first never arrived, it is executed. If it did, the
// 409 does not name the transfer: the operation is unknown, and the list of transfers
// tells.
//
// The other requests have an effect and no key; one with a raw card is a secret. OAuth
// tokens are passed through.
// The account is in the path. Whether a key is known under another token, too, is not
// published, so that it is not sent again under one: whoever has Moov's word that keys are
// the account's sets CredentialScoped to false.
func Moov() Provider {
	p := Provider{
		Name:         "moov",
		SecretSource: "docs.moov.io/api/sources/cards/create [D]: a card's number and code; our reading: no other field is secret",
		Hosts:        []string{"api.moov.io"},
		Answers:      jsonAnswers,

		CredentialScoped: true, // in doubt

		Source: sourceMoov + "; host: moov-go 02692ad [S]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: moovKeyless, SecretRequest: []string{"cardNumber", "cardCvv"}, Source: sourceMoov + ": three endpoints only; cards: docs.moov.io/api/sources/cards/create [D]"}, "/"),
			each(Endpoint{NoEffect: true, Source: "moov-go 02692ad paths.go [S]: the OAuth token endpoints"}, "POST /oauth2/token", "POST /oauth2/revoke"),
			each(Endpoint{
				Key:           Key{Place: KeyRawHeader, Name: "X-Idempotency-Key", MaxLength: 36},
				Retention:     90 * 24 * time.Hour,
				Remembers:     SuccessesCleanFailures,
				InFlightGuard: true,
				Rules: slices.Concat(
					[]Rule{
						{Status: 409, Verdict: Indeterminate, Source: sourceMoov + ": a transfer was previously created with the key, which it does not name"},
					},
					moovKeyless,
				),
				Source: sourceMoov + ": never expires; any transfer with the same key is flagged as a duplicate; paths: moov-go 02692ad paths.go [S]",
			},
				"POST /accounts/{account}/transfers",
				"POST /accounts/{account}/transfers/{id}/refunds",
				"POST /accounts/{account}/transfers/{id}/reversals"),
		),
	}
	return p.Clone()
}

const sourceMoov = "docs.moov.io/guides/money-movement/idempotency [D]"

var moovKeyless = refusalsUnlimited("error", "docs.moov.io/api/errors [D]: a client error is one of the input; the field: [M]")
