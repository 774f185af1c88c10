package providers_test

import "github.com/onceward/onceward/providers"

func increaseContract() contract {
	const transfer = "POST https://api.increase.com/ach_transfers"
	return contract{
		adapter: providers.Increase(),
		sent: []sent{{
			transfer + "\n\n{}",
			"POST /ach_transfers HTTP/1.1\nHost: api.increase.com\nContent-Length: 2\nIdempotency-Key: " + conformanceKey + "\n\n{}",
		}},
	}
}
