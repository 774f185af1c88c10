package providers

import (
	"slices"
	"time"
)

// TrueLayer describes version 3 of TrueLayer's Payments API, live and sandbox.
//
// Its POSTs take a key in Idempotency-Key. With a valid key a request is performed once. One page says 30
// days and an older one 6 hours: 6 hours are claimed. A lost request can safely be sent again. A request
// during the first gets 409, as does one for a resource that another request uses. Neither is executed, and
// both are repeated. Another payload under a key gets 422, like many other errors. It is not published
// whether a repeat executes a received failure again, so nothing is sent again after one.
//
// TrueLayer requires a signature for most requests, which includes the key (Tl-Signature). The signed key
// must be the sent key: pass it in the header, or sign in Authorize, which sees the final request. Requests
// for access tokens pass through.
//
// The account belongs to the token. Tokens expire, so a new token does not end the memory of keys. A service
// that acts for several clients gives each an account label.
func TrueLayer() Provider {
	return Provider{
		Name:    "truelayer",
		Hosts:   []string{"api.truelayer.com", "api.truelayer-sandbox.com", "auth.truelayer.com", "auth.truelayer-sandbox.com"},
		Answers: jsonAnswers,
		Source:  sourceTrueLayer + "; hosts: [M]; scope of keys: the client, by its advice for requests without a token",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: trueLayerKeyless, Source: sourceTrueLayer + ": version 3 only"}, "/"),
			each(Endpoint{NoEffect: true, Source: "docs.truelayer.com [D]: the access token endpoint"}, "POST /connect/token"),
			each(Endpoint{
				Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
				Retention:     6 * time.Hour,
				Remembers:     SuccessesLostAnswers,
				InFlightGuard: true,
				Rules: slices.Concat(
					[]Rule{
						{Status: 409, On: LaterAttempt, Verdict: InFlight, Source: sourceTrueLayerErrors + ": another request with the key is in progress, or one for the resource"},
						{Status: 409, Verdict: Retry, Source: sourceTrueLayerErrors + ": the resource is being used in another request; try again later"},
					},
					trueLayerKeyless,
				),
				Source: sourceTrueLayer + ": 30 days, and 6 hours on docs.truelayer.com/docs/idempotency [D-old]; after a connection issue it is safely retried",
			}, "POST /v3/"),
		),
	}.Clone()
}

const (
	sourceTrueLayer       = "docs.truelayer.com/docs/idempotency-for-payment-requests [D]"
	sourceTrueLayerErrors = "docs.truelayer.com/docs/error-types [D]"
)

var trueLayerKeyless = refusalsUnlimited("type", sourceTrueLayerErrors+": problem details, which have a type")
