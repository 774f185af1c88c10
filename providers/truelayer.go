package providers

import (
	"slices"
	"time"
)

// TrueLayer describes TrueLayer's Payments API, version 3, live and sandbox.
//
// Its POSTs take a key in Idempotency-Key, with which a request is performed once while
// the key is valid. A page says 30 days and an older one 6 hours: 6 hours are claimed.
// A request that is lost is safely sent again, and one that comes while the first is
// worked on is answered by 409, as is one for a resource that another request uses: in
// either case it is not executed, and is asked again. Another payload under a key is
// refused by 422, like much else. Whether a failure that was received is executed again is not
// published: after one, nothing is sent again.
//
// TrueLayer has most requests signed, the key with them (Tl-Signature). A key that was
// signed has to be the one that is sent: bring it along in the header, or sign in
// Authorize, which sees the request as it is sent. Access tokens are passed through.
//
// The account is the token's. Tokens expire, so that a new
// one is not taken to end the memory of keys: a service that acts for several
// clients names each by an account label.
func TrueLayer() Provider {
	p := Provider{
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
	}
	return p.Clone()
}

const (
	sourceTrueLayer       = "docs.truelayer.com/docs/idempotency-for-payment-requests [D]"
	sourceTrueLayerErrors = "docs.truelayer.com/docs/error-types [D]"
)

var trueLayerKeyless = refusalsUnlimited("type", sourceTrueLayerErrors+": problem details, which have a type")
