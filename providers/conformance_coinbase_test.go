package providers_test

import "github.com/onceward/onceward/providers"

func coinbaseContract() contract {
	const transfer = "POST https://api.cdp.coinbase.com/platform/v2/transfers"
	return contract{
		adapter: providers.Coinbase(),
		sent: []sent{
			{
				transfer + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /platform/v2/transfers HTTP/1.1\nHost: api.cdp.coinbase.com\nContent-Length: 14\nContent-Type: application/json\nX-Idempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
	}
}
