package providers_test

import "github.com/onceward/onceward/providers"

func mercadoPagoContract() contract {
	const (
		payment = "POST https://api.mercadopago.com/v1/payments"
		update  = "PUT https://api.mercadopago.com/v1/payments/1"

		failure = `{"status":"400","error":"bad_request","message":"x"}`
	)
	return contract{
		adapter: providers.MercadoPago(day),
		terms: []terms{
			{
				requests: []string{
					payment,
					"POST https://api.mercadopago.com/v1/payments/1/refunds",
					"POST https://api.mercadopago.com/v1/advanced_payments",
				},
				key:       "raw header X-Idempotency-Key",
				retention: day, remembers: lostAnswers, guard: true, resent: true,
			},
			{requests: []string{update}},
		},
		noEffect: []string{"POST https://api.mercadopago.com/oauth/token", "POST https://api.mercadopago.com/v1/card_tokens"},
		sent: []sent{
			{
				payment + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v1/payments HTTP/1.1\nHost: api.mercadopago.com\nContent-Length: 14\nContent-Type: application/json\nX-Idempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
		answers: []answers{
			{payment, refusalRows(failure)},
			{payment, []row{{"being processed, or paid", 409, "", failure, indeterminate, inFlight}}},
			{update, refusalRows(failure)},
		},
	}
}
