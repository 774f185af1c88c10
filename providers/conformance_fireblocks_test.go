package providers_test

import "github.com/onceward/onceward/providers"

func fireblocksContract() contract {
	const transaction = "POST https://api.fireblocks.io/v1/transactions"
	return contract{
		adapter: providers.Fireblocks(),
		sent: []sent{
			{
				transaction + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v1/transactions HTTP/1.1\nHost: api.fireblocks.io\nContent-Length: 14\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
	}
}

// As in fireblocks/ts-sdk b9b0ae7 transaction-response.ts.
func fireblocksLooks() []look {
	const (
		create      = "POST https://api.fireblocks.io/v1/transactions\nContent-Type: application/json\n\n" + `{"externalTxId":"payout-7","assetId":"BTC","amount":0.5}`
		transaction = `{"id":"b70701f4","externalTxId":"payout-7","status":"CONFIRMING","assetId":"BTC","createdAt":1795176001123,
			"amountInfo":{"amount":"0.50","requestedAmount":"0.50","netAmount":"0.50"},"systemMessages":[]}`
	)
	asked := []string{"GET /v1/transactions/external_tx_id/payout-7"}
	return []look{
		{name: "a transaction", request: create, asks: asked, page: transaction, want: lookalike("b70701f4", providers.TookEffect, true)},
		{name: "a transaction of another amount", request: create, asks: asked, page: swap(transaction, "0.50", "0.51"), want: ambiguousAt(false, "b70701f4")},
		{name: "last month's transaction", request: create, asks: asked, page: swap(transaction, "1795176001123", "1792497601123"), want: ambiguousAt(false, "b70701f4")},
		{name: "a transaction that was blocked", request: create, asks: asked, page: swap(transaction, "CONFIRMING", "BLOCKED"), want: lookalike("b70701f4", providers.Reversed, false)},
		{name: "a transaction that awaits a state", request: create, asks: asked, page: swap(transaction, "CONFIRMING", "PARTIALLY_COMPLETED"), want: lookalike("b70701f4", providers.TookEffect, false)},
		{name: "an error", request: create, asks: asked, page: `{"message":"Transaction not found","code":1010}`, want: nothing(false)},
		{name: "a transaction without a name", request: swap(create, `"externalTxId":"payout-7",`, "")},
	}
}
