package providers_test

import "github.com/onceward/onceward/providers"

func wiseContract() contract {
	const (
		transfer = "POST https://api.wise.com/v1/transfers"
		fund     = "POST https://api.wise.com/v3/profiles/1/transfers/2/payments"
		failure  = `{"errors":[{"code":"NOT_VALID","message":"x","path":"targetAccount","arguments":[]}]}`
	)
	return contract{
		adapter: providers.Wise(day),
		terms: []terms{
			{
				requests: []string{
					transfer,
					"POST https://api.wise.com/2026Q4/transfers",
					"POST https://api.wise.com/v3/profiles/1/batch-groups/2/transfers",
					"POST https://api.wise.com/2026Q4/profiles/1/batch-groups/2/transfers",
					"POST https://api-mtls.transferwise.com/v1/transfers",
					"POST https://api.wise-sandbox.com/v1/transfers",
					"POST https://api.sandbox.transferwise.tech/v1/transfers",
					"POST https://api-mtls.sandbox.transferwise.tech/v1/transfers",
				},
				key: "JSON field customerTransactionId", min: 36, max: 36,
				refuses:   []string{"invoice-991-charge-of-november-2026-x", "invoice-991/charge/of/november/2026/"},
				retention: day, remembers: cleanFailures,
			},
			{requests: []string{
				fund,
				"PUT https://api.wise.com/v1/transfers/2/cancel",
				"POST https://api.wise.com/v2/profiles/1/balance-movements",
				"POST https://api.wise.com/v2/profiles/1/third-party-transfers",
			}},
		},
		noEffect: []string{
			"POST https://api.wise.com/oauth/token",
			"POST https://api.wise.com/2026Q4/oauth/token",
			"POST https://api.wise.com/v1/transfer-requirements",
			"POST https://api.wise.com/2026Q4/transfer-requirements",
		},
		unfit: []string{transfer, transfer + "\n\n\"text\""},
		sent: []sent{
			{
				transfer + "\nContent-Type: application/json\n\n{ \"targetAccount\": 1 }",
				"POST /v1/transfers HTTP/1.1\nHost: api.wise.com\nContent-Length: 85\nContent-Type: application/json\n\n{\"customerTransactionId\":\"" + conformanceKey + "\", \"targetAccount\": 1 }",
			},
			{
				transfer + "\nContent-Type: application/json\n\n{\"customerTransactionId\":\"\"}",
				"POST /v1/transfers HTTP/1.1\nHost: api.wise.com\nContent-Length: 64\nContent-Type: application/json\n\n{\"customerTransactionId\":\"" + conformanceKey + "\"}",
			},
		},
		answers: []answers{
			{transfer, refusalRows(failure)},
			{transfer, []row{
				{"a repeat", 200, "", `{"id":2,"status":"incoming_payment_waiting"}`, final, final},
				{"a conflict", 409, "", `{"errors":[{"code":"NOT_UNIQUE"}]}`, indeterminate, indeterminate},
				{"a system error", 400, "", `{"error":"invalid_token"}`, indeterminate, indeterminate},
			}},
			{fund, refusalRows(failure)},
			{fund, []row{{"a conflict, where no key can be in flight", 409, "", `{"errors":[{"code":"NOT_UNIQUE"}]}`, final, indeterminate}}},
		},
		ownKey: []answers{{transfer, ownKeyRows(`{"errors":[{"code":"NOT_UNIQUE"}]}`)}},
	}
}
