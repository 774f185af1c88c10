package providers_test

import "github.com/onceward/onceward/providers"

func zuoraContract() contract {
	const (
		order   = "POST https://rest.zuora.com/v1/orders"
		update  = "PATCH https://rest.na.zuora.com/v1/orders/1"
		renewal = "PUT https://rest.zuora.com/v1/subscriptions/1/renew"

		failure = `{"success":false,"reasons":[{"code":"50000020","message":"x"}]}`
	)
	cards := []string{"cardNumber", "creditCardNumber", "securityCode"}
	return contract{
		adapter: providers.Zuora(),
		terms: []terms{
			{
				requests: []string{order, update, "POST https://rest.apisandbox.zuora.com/v1/payments"},
				key:      "raw header Idempotency-Key", max: 254,
				retention: day, remembers: everything, guard: true, resent: true, secretFields: cards,
			},
			{requests: []string{renewal, "DELETE https://rest.zuora.com/v1/orders/1"}, secretFields: cards},
		},
		noEffect: []string{
			"POST https://rest.zuora.com/oauth/token",
			"POST https://rest.zuora.com/v1/action/query",
			"POST https://rest.zuora.com/v1/action/queryMore",
		},
		sent: []sent{
			{
				order + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v1/orders HTTP/1.1\nHost: rest.zuora.com\nContent-Length: 14\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
		answers: []answers{
			{order, answered(refusalRows(failure), 422, misuse, misuse)},
			{order, []row{
				{"a refusal", 400, "", failure, final, indeterminate},
				{"a refusal by 200", 200, "", failure, final, final},
				{"in flight", 409, "", failure, indeterminate, inFlight},
			}},
			{renewal, refusalRows(failure)},
		},
	}
}
