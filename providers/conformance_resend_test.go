package providers_test

import "github.com/onceward/onceward/providers"

func resendContract() contract {
	const email = "POST https://api.resend.com/emails"
	return contract{
		adapter: providers.Resend(),
		sent: []sent{{
			email + "\nContent-Type: application/json\n\n{\"to\":[\"a@example.com\"]}",
			"POST /emails HTTP/1.1\nHost: api.resend.com\nContent-Length: 24\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"to\":[\"a@example.com\"]}",
		}},
	}
}
