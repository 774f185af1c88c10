package providers_test

import "github.com/onceward/onceward/providers"

func ietfContract() contract {
	const transfer = "POST https://ietf.example.com/transfers"
	return contract{
		adapter: providers.IETF(day, "ietf.example.com"),
		sent: []sent{{
			transfer + "\n\n{}",
			"POST /transfers HTTP/1.1\nHost: ietf.example.com\nContent-Length: 2\nIdempotency-Key: \"" + conformanceKey + "\"\n\n{}",
		}},
	}
}
