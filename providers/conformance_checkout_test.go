package providers_test

import "github.com/onceward/onceward/providers"

func checkoutContract() contract {
	const (
		pay     = "POST https://api.checkout.com/payments"
		keyless = "POST https://api.checkout.com/instruments"
		failure = `{"request_id":"r1","error_type":"request_invalid","error_codes":["amount_invalid"]}`
	)
	const limited = `{"request_id":"r1","error_type":"too_many_requests"}`
	cards := []string{"source.number", "source.cvv", "destination.number", "destination.cvv", "card.number", "card.cvv"}
	return contract{
		adapter: providers.Checkout(),
		terms: []terms{
			{
				requests: []string{
					pay,
					"POST https://api.sandbox.checkout.com/payment-contexts",
					"POST https://1234abcd.api.checkout.com/payments/P1/authorizations",
					"POST https://1234abcd.api.sandbox.checkout.com/payments/P1/cancellations",
					"POST https://api.checkout.com/payments/P1/captures",
					"POST https://api.checkout.com/payments/P1/refunds",
					"POST https://api.checkout.com/payments/P1/voids",
					"POST https://transfers.checkout.com/transfers",
				},
				key: "raw header Cko-Idempotency-Key", refuses: []string{`"` + conformanceKey + `"`},
				retention: day, remembers: lostAnswers, guard: true, resent: true, refusals: true, secretFields: cards,
			},
			{requests: []string{
				keyless,
				"PUT https://api.checkout.com/workflows/W1",
				"POST https://files.checkout.com/files",
				"POST https://balances.sandbox.checkout.com/balances",
			}, secretFields: cards},
		},
		noEffect: []string{
			"POST https://access.checkout.com/connect/token",
			"POST https://1234abcd.access.sandbox.checkout.com/connect/token",
			"POST https://api.checkout.com/tokens",
		},
		sent: []sent{{
			pay + "\nContent-Type: application/json\n\n{\"amount\":100}",
			"POST /payments HTTP/1.1\nHost: api.checkout.com\nContent-Length: 14\nCko-Idempotency-Key: " + conformanceKey + "\nContent-Type: application/json\n\n{\"amount\":100}",
		}},
		answers: []answers{
			{pay, refusalRows(failure)},
			{pay, []row{
				{"a decline, which is remembered", 201, "", `{"approved":false,"status":"Declined"}`, final, final},
				{"in flight", 409, "", "", indeterminate, inFlight},
				{"a rate limit of Checkout.com's", 429, "", limited, notExecuted, notExecuted},
				{"a conflict of the API's own", 409, "", failure, indeterminate, inFlight},
				{"422 may be another payload or any error", 422, "", `{}`, indeterminate, indeterminate},
			}},
			{keyless, refusalRows(failure)},
			{keyless, []row{
				{"a conflict, if no key can be in flight", 409, "", failure, final, indeterminate},
				{"a rate limit of Checkout.com's", 429, "", limited, notExecuted, notExecuted},
				{"a decline", 201, "", `{"approved":false,"status":"Declined"}`, final, final},
			}},
		},
	}
}
