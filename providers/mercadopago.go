package providers

import (
	"slices"
	"time"
)

// MercadoPago describes Mercado Pago's API for payments.
//
// Creating a payment or an advanced payment, and refunding one, have to have a key in
// X-Idempotency-Key. A request whose connection was interrupted can be made again with
// the same key: if the payment was created, its information is returned, and 409 is the
// answer while it is processed. For how long a key is known is not published: say a
// retention that you have from Mercado Pago, or 0, and then none is claimed, and what
// may have run is not sent again. Nor is it after a failure that was received, of which
// it is not published whether it leaves anything behind.
//
// The account is the token's. Everything else has an effect and no key. OAuth tokens and
// card tokens are passed through.
func MercadoPago(retention time.Duration) Provider {
	p := Provider{
		Name:             "mercadopago",
		Hosts:            []string{"api.mercadopago.com"},
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Source:           sourceMercadoPago + "; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: mercadoPagoKeyless, Source: sourceMercadoPago + ": payments only"}, "/"),
			each(Endpoint{NoEffect: true, Source: "mercadopago.com/developers [D]: the OAuth token endpoint; a card token charges nobody"}, "POST /oauth/token", "POST /v1/card_tokens"),
			each(Endpoint{
				Key:           Key{Place: KeyRawHeader, Name: "X-Idempotency-Key"},
				Retention:     retention,
				Remembers:     SuccessesLostAnswers,
				InFlightGuard: true,
				Rules: slices.Concat(
					[]Rule{
						{Status: 409, On: LaterAttempt, Verdict: InFlight, Source: sourceMercadoPago + "/responses: it is being processed, or has been paid"},
						{Status: 409, Verdict: Indeterminate, Source: "what a conflict means where nothing of ours is out is not published [?]"},
					},
					mercadoPagoKeyless,
				),
				Source: sourceMercadoPago + ": a payment that was created is returned; retention: the caller's",
			},
				"POST /v1/payments",
				"POST /v1/payments/{id}/refunds",
				"POST /v1/advanced_payments"),
		),
	}
	return p.Clone()
}

const sourceMercadoPago = "mercadopago.com/developers/en/docs/wallet-connect/payment-flow/idempotency [D]"

var mercadoPagoKeyless = refusalsUnlimited("error", sourceMercadoPago+"/responses: an error has one")
