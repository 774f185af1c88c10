package providers_test

import "github.com/onceward/onceward/providers"

func klarnaContract() contract {
	const (
		capture = "POST https://api.klarna.com/ordermanagement/v1/orders/O1/captures"
		release = "DELETE https://api.klarna.com/payments/v1/authorizations/A1"
		failure = `{"correlation_id":"c1","error_code":"NOT_FOUND","error_messages":["x"]}`
	)
	limited := row{"a rate limit of Klarna's", 429, "X-Ratelimit-Limit: 40, 40;w=1", "", notExecuted, notExecuted}
	return contract{
		adapter: providers.Klarna(),
		terms: []terms{
			{
				requests: []string{
					capture,
					"PATCH https://api-na.klarna.com/ordermanagement/v1/orders/O1/authorization",
					"POST https://api-oc.playground.klarna.com/ordermanagement/v1/orders/O1/refunds",
				},
				key: "raw header Klarna-Idempotency-Key", refuses: []string{`"` + conformanceKey + `"`},
				retention: day, remembers: cleanFailures, guard: true, resent: true,
			},
			{
				requests: []string{
					"POST https://api-oc.klarna.com/payments/v1/sessions",
					"PATCH https://api.playground.klarna.com/checkout/v3/orders/O1",
					"POST https://api-na.playground.klarna.com/customer-token/v1/tokens/T1/order",
					"POST https://api-global.klarna.com/v2/accounts/A1/payment/authorize",
					"POST https://api-global.test.klarna.com/v2/payment/requests",
				},
				key: "raw header Klarna-Idempotency-Key", retention: day, remembers: lostAnswers,
			},
			{requests: []string{
				release,
				"PUT https://api.klarna.com/instantshopping/v1/buttons/B1",
			}},
		},
		sent: []sent{{
			capture + "\nContent-Type: application/json\n\n{\"captured_amount\":100}",
			"POST /ordermanagement/v1/orders/O1/captures HTTP/1.1\nHost: api.klarna.com\nContent-Length: 23\nContent-Type: application/json\nKlarna-Idempotency-Key: " + conformanceKey + "\n\n{\"captured_amount\":100}",
		}},
		answers: []answers{
			{capture, refusalRows(failure)},
			{capture, []row{
				{"a conflict with the order's state", 409, "", `{"error_code":"CONFLICT"}`, indeterminate, indeterminate},
				limited,
				{"not allowed, perhaps because it was done", 403, "", `{"error_code":"CAPTURE_NOT_ALLOWED"}`, rejected, rejected},
			}},
			{release, refusalRows(failure)},
			{release, []row{limited, {"a conflict, if no key can be in flight", 409, "", `{"error_code":"CONFLICT"}`, final, indeterminate}}},
		},
		ownKey: []answers{{capture, ownKeyRows(`{"error_code":"CONFLICT"}`)}},
	}
}
