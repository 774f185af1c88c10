package providers_test

import "github.com/onceward/onceward/providers"

func bridgeContract() contract {
	const transfer = "POST https://api.bridge.xyz/v0/transfers"
	return contract{
		adapter: providers.Bridge(),
		sent: []sent{
			{
				transfer + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v0/transfers HTTP/1.1\nHost: api.bridge.xyz\nContent-Length: 14\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
	}
}
