package providers_test

import "github.com/onceward/onceward/providers"

func rawContract() contract {
	const transfer = "POST https://raw.example.com/transfers"
	return contract{
		adapter: providers.Raw(day, "raw.example.com"),
		sent: []sent{{
			transfer + "\n\n{}",
			"POST /transfers HTTP/1.1\nHost: raw.example.com\nContent-Length: 2\nIdempotency-Key: " + conformanceKey + "\n\n{}",
		}},
	}
}
