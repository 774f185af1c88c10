package providers_test

import "github.com/onceward/onceward/providers"

func svixContract() contract {
	const message = "POST https://api.eu.svix.com/api/v1/app/app_1/msg"
	return contract{
		adapter: providers.Svix("svix.example.com:8071"),
		sent: []sent{{
			message + "\n\n{}",
			"POST /api/v1/app/app_1/msg HTTP/1.1\nHost: api.eu.svix.com\nContent-Length: 2\nIdempotency-Key: " + conformanceKey + "\n\n{}",
		}},
	}
}
