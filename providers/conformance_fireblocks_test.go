package providers_test

import "github.com/onceward/onceward/providers"

func fireblocksContract() contract {
	const (
		transaction = "POST https://api.fireblocks.io/v1/transactions"
		freeze      = "PUT https://api.fireblocks.io/v1/users/1"

		failure = `{"message":"Invalid amount","code":1401}`
	)
	return contract{
		adapter: providers.Fireblocks(),
		terms: []terms{
			{
				requests: []string{
					transaction,
					"POST https://eu-api.fireblocks.io/v1/vault/accounts",
					"POST https://eu2-api.fireblocks.io/v1/vault/accounts",
					"POST https://sandbox-api.fireblocks.io/v1/vault/accounts",
				},
				key: "raw header Idempotency-Key", max: 40, retention: day, remembers: everything,
			},
			{requests: []string{freeze}},
		},
		sent: []sent{
			{
				transaction + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v1/transactions HTTP/1.1\nHost: api.fireblocks.io\nContent-Length: 14\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
		answers: []answers{
			{transaction, refusalRows(failure)},
			{transaction, []row{
				{"a key that failed inside, or an externalTxId that is taken", 400, "", failure, final, indeterminate},
				{"a conflict", 409, "", failure, indeterminate, indeterminate},
			}},
			{freeze, refusalRows(failure)},
		},
		ownKey: []answers{{transaction, ownKeyRows(failure)}},
	}
}
