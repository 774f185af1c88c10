package providers

import (
	"slices"
	"time"
)

// Moov describes Moov's API.
//
// Requests that create, refund or reverse a transfer take a key of at most 36 characters in X-Idempotency-Key, which
// never expires. A second transfer with it gets 409, which reports the first, and has the original transfer in the
// body. Retention is 90 days, as long as a journal keeps answers. The contract has no exception, so a request that may
// have run is sent again. If the first never arrived, the repeat is executed. If it did arrive, the 409 names the
// transfer ([AlreadyDone]). The transfer is then fetched and becomes the answer. A 409 that does not name the transfer
// completes the operation without an answer ([AnswerGone]). The 409 to a repeated refund or reversal has the transfer
// and not the refund, so that operation becomes unknown.
//
// The other requests have an effect and no key. A request with a raw card is a secret. OAuth tokens pass
// through.
//
// The account is in the path. It is not published whether a key is known under another token, so nothing is sent again
// after the token changed. If Moov confirmed to you that keys belong to the account, set CredentialScoped to false, and
// Identity to a request that shows the token's account.
func Moov() Provider {
	keyed := Endpoint{
		Key:           Key{Place: KeyRawHeader, Name: "X-Idempotency-Key", MaxLength: 36},
		Retention:     90 * 24 * time.Hour,
		Remembers:     SuccessesCleanFailures,
		InFlightGuard: true,
		Rules: slices.Concat(
			[]Rule{
				{Status: 409, Verdict: Indeterminate, Source: sourceMoov + ": the key has been seen, and what became of its request is not described [?]"},
			},
			moovKeyless,
		),
		Source: sourceMoov + ": never expires; any transfer with the same key is flagged as a duplicate; paths: moov-go 02692ad paths.go [S]",
	}
	transfer := keyed
	transfer.FetchPointer = true
	transfer.Rules = slices.Concat([]Rule{
		{Status: 409, Verdict: AlreadyDone, Pointer: "transferID", Source: sourceMoovTransfers + ": a second request with the key returns 409 with the original transfer in the body; " +
			"the field: moov-go a3ea550 transfer_models.go [S]"},
		{Status: 409, Field: "error", Verdict: AnswerGone, Source: sourceMoov + ": a second attempt gets 409, which says that a transfer was previously created with the key; " +
			"moov-go a3ea550 transfer_api.go, http_test.go [S]: 409 is a duplicate X-Idempotency-Key, errors have the field"},
	}, keyed.Rules)
	return Provider{
		Name:         "moov",
		SecretSource: "docs.moov.io/api/sources/cards/create [D]: a card's number and code; our reading: no other field is secret",
		Hosts:        []string{"api.moov.io"},
		Answers:      jsonAnswers,

		CredentialScoped: true, // in doubt

		Source: sourceMoov + "; host: moov-go 02692ad [S]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: moovKeyless, SecretRequest: []string{"cardNumber", "cardCvv"}, Source: sourceMoov + ": three endpoints only; cards: docs.moov.io/api/sources/cards/create [D]"}, "/"),
			each(Endpoint{NoEffect: true, Source: "moov-go 02692ad paths.go [S]: the OAuth token endpoints"}, "POST /oauth2/token", "POST /oauth2/revoke"),
			each(transfer, "POST /accounts/{account}/transfers"),
			each(keyed,
				"POST /accounts/{account}/transfers/{id}/refunds",
				"POST /accounts/{account}/transfers/{id}/reversals"),
		),
	}.Clone()
}

const sourceMoovTransfers = "docs.moov.io/guides/money-movement/manage-transfers [D]"

const sourceMoov = "docs.moov.io/guides/money-movement/idempotency [D]"

var moovKeyless = refusalsUnlimited("error", "docs.moov.io/api/errors [D]: a client error is one of the input; the field: [M]")
