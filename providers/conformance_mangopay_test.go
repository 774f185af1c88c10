package providers_test

import "github.com/onceward/onceward/providers"

func mangopayContract() contract {
	const (
		payout = "POST https://api.mangopay.com/v2.01/client/payouts/bankwire"
		update = "PUT https://api.sandbox.mangopay.com/v2.01/client/wallets/1"

		failure = `{"Message":"x","Type":"param_error","Id":"1","Date":1452723944,"errors":{}}`
		blocked = `{"Message":"A resource has already been created with this Idempotency Key","Type":"idempotent_creation_conflict","Id":"1","Date":1452723944,"errors":null}`
	)
	return contract{
		adapter: providers.Mangopay(),
		terms: []terms{
			{
				requests: []string{payout, "POST https://api.sandbox.mangopay.com/v2.01/client/transfers"},
				key:      "raw header Idempotency-Key", min: 16, max: 36,
				refuses:   []string{"order_991_charge_991", "order/991/charge/991"},
				retention: day, remembers: everything, guard: true, resent: true,
			},
			{requests: []string{update}},
		},
		noEffect: []string{"POST https://api.mangopay.com/v2.01/oauth/token"},
		sent: []sent{
			{
				payout + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v2.01/client/payouts/bankwire HTTP/1.1\nHost: api.mangopay.com\nContent-Length: 14\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
		answers: []answers{
			{payout, refusalRows(failure)},
			{payout, []row{
				{"blocked, whatever the first one came to", 409, "", blocked, indeterminate, indeterminate},
				{"blocked, in other words", 409, "", failure, indeterminate, indeterminate},
			}},
			{update, refusalRows(failure)},
		},
	}
}
