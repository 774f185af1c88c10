package providers_test

import "github.com/onceward/onceward/providers"

func bridgeContract() contract {
	const (
		transfer = "POST https://api.bridge.xyz/v0/transfers"
		update   = "PATCH https://api.bridge.xyz/v0/customers/1"
		replace  = "PUT https://api.bridge.xyz/v0/customers/1"

		failure = `{"code":"invalid_parameters","message":"x"}`
	)
	return contract{
		adapter: providers.Bridge(),
		terms: []terms{
			{
				requests:  []string{transfer, "POST https://api.sandbox.bridge.xyz/v0/customers"},
				key:       "raw header Idempotency-Key",
				retention: day, remembers: cleanFailures, guard: true, resent: true,
			},
			{requests: []string{replace}},
			{requests: []string{update, "DELETE https://api.bridge.xyz/v0/transfers/1"}, idempotent: true},
		},
		sent: []sent{
			{
				transfer + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v0/transfers HTTP/1.1\nHost: api.bridge.xyz\nContent-Length: 14\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
		answers: []answers{
			{transfer, refusalRows(failure)},
			{transfer, []row{
				{"a conflict", 409, "", failure, indeterminate, indeterminate},
				{"a key from before the window, or with another body", 422, "", `{"code":"idempotency_error"}`, final, indeterminate},
			}},
			{update, refusalRows(failure)},
		},
		ownKey: []answers{{transfer, ownKeyRows(failure)}},
	}
}
