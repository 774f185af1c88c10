package providers_test

import "github.com/onceward/onceward/providers"

func trueLayerContract() contract {
	const payment = "POST https://api.truelayer.com/v3/payments"
	return contract{
		adapter: providers.TrueLayer(),
		sent: []sent{
			{
				payment + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v3/payments HTTP/1.1\nHost: api.truelayer.com\nContent-Length: 14\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
	}
}
