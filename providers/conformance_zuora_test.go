package providers_test

import "github.com/onceward/onceward/providers"

func zuoraContract() contract {
	const order = "POST https://rest.zuora.com/v1/orders"
	return contract{
		adapter: providers.Zuora(),
		sent: []sent{
			{
				order + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v1/orders HTTP/1.1\nHost: rest.zuora.com\nContent-Length: 14\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
	}
}
