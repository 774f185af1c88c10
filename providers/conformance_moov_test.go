package providers_test

import "github.com/onceward/onceward/providers"

func moovContract() contract {
	const transfer = "POST https://api.moov.io/accounts/1/transfers"
	return contract{
		adapter: providers.Moov(),
		sent: []sent{
			{
				transfer + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /accounts/1/transfers HTTP/1.1\nHost: api.moov.io\nContent-Length: 14\nContent-Type: application/json\nX-Idempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
	}
}
