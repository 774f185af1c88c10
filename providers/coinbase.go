package providers

import (
	"slices"
	"time"
)

// Coinbase describes version 2 of the Coinbase Developer Platform's API.
//
// A POST that changes something takes a key in X-Idempotency-Key, a UUID of version 4. Other keys are
// refused. For 24 hours a repeat gets the same response, and temporary issues such as network failures cause
// no duplicate. With other parameters the key is an idempotency_error. Coinbase does not publish whether
// failures are stored, nor its answer to a second request during the first. A request that may have run is
// therefore not sent again. If you know more, set InFlightGuard.
//
// The answer to an export holds a private key and is not kept. Neither is the request of an import. Each request has a
// separate JWT: set the JWT in Authorize, which sees the final request. A new JWT does not end the provider's memory of
// keys. A service that acts for several projects gives each an account label.
func Coinbase() Provider {
	keyed := Endpoint{
		Key:       Key{Place: KeyRawHeader, Name: "X-Idempotency-Key", UUIDVersion: 4},
		Retention: 24 * time.Hour,
		Remembers: SuccessesLostAnswers,
		Rules:     coinbaseRules,
		Source:    sourceCoinbase + ": the same response for 24 hours, and no duplicate by network failures; stored failures and guard: [?]",
	}
	secret := keyed
	secret.SecretResponse, secret.SecretRequest = true, []string{"encryptedPrivateKey"}
	secret.Source += "; the answer, or the request, has a private key: coinbase/cdp-sdk [S]"
	return Provider{
		Name:    "coinbase",
		Hosts:   []string{"api.cdp.coinbase.com"},
		Answers: jsonAnswers,
		Source:  sourceCoinbase + "; host: coinbase/cdp-sdk [S]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: coinbaseKeyless, Source: sourceCoinbase + ": POST only"}, "/"),
			each(keyed, "POST /"),
			each(secret,
				"POST /platform/v2/evm/accounts/{address}/export",
				"POST /platform/v2/evm/accounts/import",
				"POST /platform/v2/solana/accounts/{address}/export",
				"POST /platform/v2/solana/accounts/import"),
		),
	}.Clone()
}

const (
	sourceCoinbase       = "docs.cdp.coinbase.com/api-reference/v2/idempotency [D]"
	sourceCoinbaseErrors = "docs.cdp.coinbase.com/api-reference/payment-apis/conventions [D]: errors have an errorType"
)

var (
	coinbaseRules = slices.Concat(
		[]Rule{
			{Status: 400, Through: 499, Field: "errorType", Equals: "idempotency_error", Verdict: Misuse, Source: sourceCoinbase + ": the key is used with other parameters; whether it also says in flight: [?]"},
			{Status: 409, Verdict: Indeterminate, Source: sourceCoinbaseErrors + "; what another conflict means for a key is not published [?]"},
		},
		coinbaseKeyless,
	)

	coinbaseKeyless = refusalsUnlimited("errorType", sourceCoinbaseErrors)
)
