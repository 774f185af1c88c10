package providers

import (
	"slices"
	"time"
)

// Checkout describes Checkout.com's API, live and in its sandbox, with or
// without a subdomain of one's own (PREFIX.api.checkout.com). The eight
// endpoints that its documentation lists take a key in Cko-Idempotency-Key;
// the others have an effect and no key.
//
// Only a 2xx is remembered. After a 4xx or 5xx nothing is stored, and the same
// key is processed anew, so that a repeat may pay twice where a 5xx was received
// and had an effect: look the payment up by its reference. After a network error or
// a timeout, Checkout.com says, a request may be repeated without the risk of a
// second one, and is.
//
// The retention is 24 hours: the current page says 72, that of January 2026
// said 24, and an account can have another. A second request while the first is
// worked on is answered by 409, which is read so on a later attempt only, when one
// of ours may be out; 429, which it was before, now only is a rate limit. 422 is said to be the answer to a
// key that was used with another request, but it is that of any invalid request
// too, so that it is never Misuse.
//
// A card token (POST /tokens) is short-lived, charges nobody, and is made of
// card data: such requests are passed through and never journaled. A payment with a
// card's number in it is a secret.
func Checkout() Provider {
	p := Provider{
		Name:             "checkout.com",
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Hosts: []string{
			"api.checkout.com", "*.api.checkout.com", "api.sandbox.checkout.com", "*.api.sandbox.checkout.com",
			"access.checkout.com", "*.access.checkout.com", "access.sandbox.checkout.com", "*.access.sandbox.checkout.com",
			"transfers.checkout.com", "transfers.sandbox.checkout.com",
			"balances.checkout.com", "balances.sandbox.checkout.com",
			"files.checkout.com", "files.sandbox.checkout.com",
		},
		Declines: []Decline{
			{Field: "status", Equals: "Declined", Source: "checkout.com/docs/developer-resources/codes/api-response-codes [D]: a 2xx with 20xxx or 30xxx is a decline"},
		},
		Source: sourceCheckoutIdempotency + "; hosts: " + sourceCheckoutSDK + " configuration/environment.go; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: checkoutKeyless, SecretRequest: checkoutCards, Source: sourceCheckoutIdempotency + ": the header is not listed"},
				"/"),
			each(Endpoint{NoEffect: true, Source: sourceCheckoutSDK + " configuration/oauth_keys_credentials.go"},
				"POST /connect/token"),
			each(Endpoint{NoEffect: true, Source: sourceCheckoutSDK + " tokens: a card token, which charges nobody"},
				"POST /tokens"),
			each(Endpoint{
				Key:           Key{Place: KeyRawHeader, Name: "Cko-Idempotency-Key"},
				Retention:     24 * time.Hour,
				Remembers:     SuccessesLostAnswers,
				InFlightGuard: true,
				SecretRequest: checkoutCards,
				Rules:         checkoutRules,
				Source:        sourceCheckoutIdempotency + ": 72 h, 24 h in January 2026 [D-old]; only a 2xx is stored; after a network error or timeout a repeat is no duplicate; of concurrent requests one is processed",

				RefusalsRegisterNoKey: true,
			},
				"POST /payment-contexts",
				"POST /payments",
				"POST /payments/{id}/authorizations",
				"POST /payments/{id}/cancellations",
				"POST /payments/{id}/captures",
				"POST /payments/{id}/refunds",
				"POST /payments/{id}/voids",
				"POST /transfers"),
		),
	}
	return p.Clone()
}

// checkoutCards are the fields of a raw card: its number and its code.
var checkoutCards = []string{"source.number", "source.cvv", "destination.number", "destination.cvv", "card.number", "card.cvv"}

const (
	sourceCheckoutIdempotency = "checkout.com/docs/developer-resources/api/idempotency [D]"
	sourceCheckoutSDK         = "checkout-sdk-go 30688ab [S]"
)

var (
	checkoutRules = slices.Concat(
		[]Rule{
			{Status: 409, On: LaterAttempt, Verdict: InFlight, Source: sourceCheckoutIdempotency + "; support.checkout.com 26763450855186 [C]: the original is being processed"},
			{Status: 409, Verdict: Indeterminate, Source: "what a conflict means where nothing of ours is out is not published [?]"},
		},
		checkoutKeyless,
	)

	checkoutKeyless = slices.Concat(
		[]Rule{
			{Status: 429, Field: "error_type", Verdict: NotExecuted, Source: "support.checkout.com 24570669653010 [D]: it now only refers to rate limits; that one comes before execution is our reading; the field: " + sourceCheckoutSDK + " errors/error.go"},
		},
		refusals("error_type", sourceCheckoutIdempotency+": a 4xx stores nothing; the field: "+sourceCheckoutSDK+" errors/error.go"),
	)
)
