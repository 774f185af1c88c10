package providers_test

import "github.com/onceward/onceward/providers"

func worldlineContract() contract {
	const payment = "POST https://payment.direct.worldline-solutions.com/v2/shop/payments"
	return contract{
		adapter: providers.Worldline(),
		sent: []sent{
			{
				payment + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v2/shop/payments HTTP/1.1\nHost: payment.direct.worldline-solutions.com\nContent-Length: 14\nContent-Type: application/json\nX-Gcs-Idempotence-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
	}
}
