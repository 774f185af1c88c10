package providers_test

import "github.com/onceward/onceward/providers"

func dwollaContract() contract {
	const transfer = "POST https://api.dwolla.com/transfers"
	return contract{
		adapter: providers.Dwolla(),
		sent: []sent{{
			transfer + "\nContent-Type: application/vnd.dwolla.v1.hal+json\n\n{\"amount\":{}}",
			"POST /transfers HTTP/1.1\nHost: api.dwolla.com\nContent-Length: 13\nContent-Type: application/vnd.dwolla.v1.hal+json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":{}}",
		}},
	}
}
