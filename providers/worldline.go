package providers

import (
	"slices"
	"time"
)

// Worldline describes Worldline Direct's API, live and pre-production.
//
// Requests that create, cancel, capture, refund or complete a payment, subsequent payments and payouts take a
// key of at most 40 ASCII characters in X-GCS-Idempotence-Key. It is kept for at least 24 hours, and only the
// first attempt is processed. A later one gets the same response, marked by the header
// X-GCS-Idempotence-Request-Timestamp, or 409 during the first. A request that may have run is sent again.
//
// Requests are not compared: a used key gets the first request's answer, whatever the request. The other requests have
// an effect and no key.
//
// A request's X-GCS headers are signed (GCS v1HMAC): sign in Authorize, which sees the final request, or pass
// the key in the header.
//
// It is not published whether a key is known under another API key, so nothing is sent again under one. Each
// signature looks like another credential.
func Worldline() Provider {
	return Provider{
		Name:         "worldline",
		SecretSource: "docs.direct.worldline-solutions.com [D], on creating a token: a card's number and code; our reading: no other field is secret",
		Hosts:        []string{"payment.direct.worldline-solutions.com", "payment.preprod.direct.worldline-solutions.com"},
		Answers:      jsonAnswers,

		CredentialScoped: true, // in doubt

		ReplayHeader: "X-Gcs-Idempotence-Request-Timestamp",
		Source:       sourceWorldline + "; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: worldlineKeyless, SecretRequest: worldlineCards, Source: sourceWorldline + ": the listed methods only"}, "/"),
			each(Endpoint{
				Key:           Key{Place: KeyRawHeader, Name: "X-GCS-Idempotence-Key", MaxLength: 40},
				Retention:     24 * time.Hour,
				Remembers:     Everything,
				InFlightGuard: true,
				SecretRequest: worldlineCards,
				Rules: slices.Concat(
					[]Rule{
						{Status: 409, On: LaterAttempt, Verdict: InFlight, Source: sourceWorldline + ": the request is currently being processed"},
						{Status: 409, Verdict: Indeterminate, Source: "what a conflict means where nothing of ours is out is not published [?]"},
					},
					worldlineKeyless,
				),
				Source: sourceWorldline + ": processed once; the same outcome as the original request, for at least 24 hours",
			},
				"POST /v2/{merchant}/payments",
				"POST /v2/{merchant}/payments/{id}/cancel",
				"POST /v2/{merchant}/payments/{id}/capture",
				"POST /v2/{merchant}/payments/{id}/complete",
				"POST /v2/{merchant}/payments/{id}/refund",
				"POST /v2/{merchant}/payments/{id}/subsequent",
				"POST /v2/{merchant}/payouts"),
		),
	}.Clone()
}

// worldlineCards are the fields of a raw card: the number and the code (docs.direct.worldline-solutions.com, on
// creating a token [D]).
var worldlineCards = []string{"cardNumber", "cvv"}

const sourceWorldline = "docs.direct.worldline-solutions.com/en/integration/api-developer-guide/idempotent-requests [D]"

var worldlineKeyless = refusalsUnlimited("errorId", "docs.direct.worldline-solutions.com [D]: an error has an errorId")
