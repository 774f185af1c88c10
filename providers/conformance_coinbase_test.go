package providers_test

import "github.com/onceward/onceward/providers"

func coinbaseContract() contract {
	const (
		transfer = "POST https://api.cdp.coinbase.com/platform/v2/transfers"
		update   = "PUT https://api.cdp.coinbase.com/platform/v2/policy-engine/policies/1"

		failure = `{"errorType":"invalid_request","errorMessage":"x","correlationId":"1"}`
		reused  = `{"errorType":"idempotency_error","errorMessage":"x","correlationId":"1"}`
	)
	return contract{
		adapter: providers.Coinbase(),
		terms: []terms{
			{
				requests: []string{transfer, "POST https://api.cdp.coinbase.com/platform/v2/evm/accounts"},
				key:      "raw header X-Idempotency-Key", version: 4,
				refuses:   []string{"72a68032-74fc-852a-9dd0-295bbd2287f3", "order-991", `"` + conformanceKey + `"`},
				retention: day, remembers: lostAnswers,
			},
			{
				requests: []string{
					"POST https://api.cdp.coinbase.com/platform/v2/evm/accounts/0x1/export",
					"POST https://api.cdp.coinbase.com/platform/v2/evm/accounts/import",
					"POST https://api.cdp.coinbase.com/platform/v2/solana/accounts/1/export",
					"POST https://api.cdp.coinbase.com/platform/v2/solana/accounts/import",
				},
				key: "raw header X-Idempotency-Key", version: 4,
				retention: day, remembers: lostAnswers, secret: true, secretFields: []string{"encryptedPrivateKey"},
			},
			{requests: []string{update}},
		},
		sent: []sent{
			{
				transfer + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /platform/v2/transfers HTTP/1.1\nHost: api.cdp.coinbase.com\nContent-Length: 14\nContent-Type: application/json\nX-Idempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
		answers: []answers{
			{transfer, refusalRows(failure)},
			{transfer, []row{
				{"another request under the key", 422, "", reused, misuse, misuse},
				{"a conflict over the key", 409, "", reused, misuse, misuse},
				{"another conflict", 409, "", failure, indeterminate, indeterminate},
			}},
			{update, refusalRows(failure)},
		},
	}
}
