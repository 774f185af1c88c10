package providers_test

import "github.com/onceward/onceward/providers"

func worldlineContract() contract {
	const (
		payment = "POST https://payment.direct.worldline-solutions.com/v2/shop/payments"
		session = "POST https://payment.direct.worldline-solutions.com/v2/shop/hostedcheckouts"

		failure = `{"errorId":"1","errors":[{"errorCode":"50001111"}]}`
	)
	cards := []string{"cardNumber", "cvv"}
	return contract{
		adapter: providers.Worldline(),
		terms: []terms{
			{
				requests: []string{
					payment,
					"POST https://payment.preprod.direct.worldline-solutions.com/v2/shop/payments/1/cancel",
					"POST https://payment.direct.worldline-solutions.com/v2/shop/payments/1/capture",
					"POST https://payment.direct.worldline-solutions.com/v2/shop/payments/1/complete",
					"POST https://payment.direct.worldline-solutions.com/v2/shop/payments/1/refund",
					"POST https://payment.direct.worldline-solutions.com/v2/shop/payments/1/subsequent",
					"POST https://payment.direct.worldline-solutions.com/v2/shop/payouts",
				},
				key: "raw header X-GCS-Idempotence-Key", max: 40,
				retention: day, remembers: everything, guard: true, resent: true, secretFields: cards,
			},
			{requests: []string{session}, secretFields: cards},
		},
		sent: []sent{
			{
				payment + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v2/shop/payments HTTP/1.1\nHost: payment.direct.worldline-solutions.com\nContent-Length: 14\nContent-Type: application/json\nX-Gcs-Idempotence-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
		answers: []answers{
			{payment, refusalRows(failure)},
			{payment, []row{
				{"in progress", 409, "", failure, indeterminate, inFlight},
				{"a refusal from the record", 402, "X-Gcs-Idempotence-Request-Timestamp: 1452723944000", failure, indeterminate, indeterminate},
			}},
			{session, refusalRows(failure)},
		},
	}
}
