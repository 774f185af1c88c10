package providers

import (
	"slices"
	"time"
)

// Moov describes Moov's API.
//
// Requests that create, refund or reverse a transfer take a key of at most 36 characters in
// X-Idempotency-Key, which never expires. A second transfer with it gets 409, which says that one was
// created. Retention is 90 days, as long as a journal keeps answers. The contract has no exception, so a
// request that may have run is sent again. If the first never arrived, the repeat is executed. If it did
// arrive, the 409 does not name the transfer. The operation then completes without an answer
// ([AnswerGone]), and the list of transfers shows it. The 409 to a repeated refund or reversal is not
// described, so that operation becomes unknown.
//
// The other requests have an effect and no key. A request with a raw card is a secret. OAuth tokens pass
// through.
//
// The account is in the path. It is not published whether a key is known under another token, so nothing is
// sent again after the token changed. If Moov confirmed to you that keys belong to the account, set
// CredentialScoped to false, and Identity to a request that shows the token's account.
func Moov() Provider {
	keyed := Endpoint{
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
	}
	transfer := keyed
	transfer.Rules = slices.Concat([]Rule{
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

const sourceMoov = "docs.moov.io/guides/money-movement/idempotency [D]"

var moovKeyless = refusalsUnlimited("error", "docs.moov.io/api/errors [D]: a client error is one of the input; the field: [M]")
