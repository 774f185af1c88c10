package providers_test

import "github.com/onceward/onceward/providers"

func oncewardContract() contract {
	const transfer = "POST https://onceward.example.com/transfers"
	return contract{
		adapter: providers.Onceward(30*day, "onceward.example.com"),
		sent: []sent{{
			transfer + "\n\n{}",
			"POST /transfers HTTP/1.1\nHost: onceward.example.com\nContent-Length: 2\nIdempotency-Key: \"" + conformanceKey + "\"\n\n{}",
		}},
	}
}
