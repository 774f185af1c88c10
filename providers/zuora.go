package providers

import (
	"slices"
	"time"
)

// Zuora describes Zuora's billing API, live and sandboxes.
//
// POST and PATCH take a key of fewer than 255 characters in Idempotency-Key. The result is kept for 24 hours,
// success or failure. 409 is the answer during the first request. 422 is the answer to a key of another
// tenant, URL or method. By Zuora's documentation both statuses usually mean that. A request that may have
// run is sent again.
//
// Many of Zuora's refusals are a 200 with success: false. PUT and DELETE take no key. Zuora calls PUTs idempotent, but
// some are not (to renew a subscription), so the table claims nothing for PUTs. OAuth tokens and queries pass through.
// A request with a raw card is a secret.
//
// The account belongs to the token. Tokens expire, so a new token does not end the memory of keys. A service
// that acts for several tenants gives each an account label.
func Zuora() Provider {
	return Provider{
		Name:         "zuora",
		SecretSource: "docs.zuora.com [D], on payment methods: a card's number and code; our reading: no other field is secret",
		Hosts: []string{
			"rest.zuora.com", "rest.na.zuora.com", "rest.eu.zuora.com", "rest.ap.zuora.com",
			"rest.apisandbox.zuora.com", "rest.sandbox.na.zuora.com", "rest.sandbox.eu.zuora.com",
			"rest.test.zuora.com", "rest.test.eu.zuora.com", "rest.test.ap.zuora.com",
		},
		Answers: jsonAnswers,
		Source:  sourceZuora + "; hosts: [M]; scope of keys: the tenant, by what 422 says",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: zuoraKeyless, SecretRequest: zuoraCards, Source: sourceZuora + ": POST and PATCH only"}, "/"),
			each(Endpoint{NoEffect: true, Source: "developer.zuora.com [D]: the OAuth token endpoint"}, "POST /oauth/token"),
			each(Endpoint{NoEffect: true, Source: "developer.zuora.com [D]: they run a query"}, "POST /v1/action/query", "POST /v1/action/queryMore"),
			each(Endpoint{
				Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key", MaxLength: 254},
				Retention:     24 * time.Hour,
				Remembers:     Everything,
				InFlightGuard: true,
				SecretRequest: zuoraCards,
				Rules: slices.Concat(
					[]Rule{
						{Status: 409, On: LaterAttempt, Verdict: InFlight, Source: sourceZuora + ": usually a request that is still in progress"},
						{Status: 409, Verdict: Indeterminate, Source: "what a conflict means where nothing of ours is out is not published [?]"},
						{Status: 422, Verdict: Misuse, Source: sourceZuora + ": usually a mismatch of tenant, URL or method"},
					},
					zuoraKeyless,
				),
				Source: sourceZuora + ": status, headers and body are saved, whether it succeeded or failed; removed after 24 hours",
			}, "POST /", "PATCH /"),
		),
	}.Clone()
}

// zuoraCards are the fields of a raw card: the number, which the older operations call otherwise, and the code
// (docs.zuora.com, on payment methods [D]).
var zuoraCards = []string{"cardNumber", "creditCardNumber", "securityCode"}

const sourceZuora = "developer.zuora.com/docs/guides/idempotent-requests [D]"

var zuoraKeyless = slices.Concat(
	refused,
	passing,
	[]Rule{
		{Status: 400, Through: 499, Field: "reasons[].code", On: FirstAttempt, Verdict: Final, Source: "developer.zuora.com [M]: an error of Zuora's has reasons"},
	},
)
