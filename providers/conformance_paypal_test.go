package providers_test

import (
	"time"

	"github.com/onceward/onceward/providers"
)

func paypalContract() contract {
	const (
		capture = "POST https://api-m.paypal.com/v2/payments/authorizations/A1/capture"
		void    = "POST https://api-m.paypal.com/v2/payments/authorizations/A1/void"

		failure    = `{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"AUTHORIZATION_ALREADY_CAPTURED"}],"debug_id":"d1"}`
		inProgress = `{"name":"RESOURCE_CONFLICT","details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}`
	)
	issue := func(name string) string {
		return `{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"` + name + `"}]}`
	}
	cards := []string{"card.number", "card.security_code", "card.cvv2", "credit_card.number", "credit_card.cvv2"}
	limited := row{"a rate limit of PayPal's", 429, "", `{"name":"RATE_LIMIT_REACHED","message":"Too many requests."}`, notExecuted, notExecuted}
	key := terms{key: "raw header PayPal-Request-Id", refuses: []string{`"` + conformanceKey + `"`}, remembers: cleanFailures, guard: true, resent: true, secretFields: cards}
	keyed := func(retention time.Duration, max int, requests ...string) terms {
		k := key
		k.retention, k.max, k.requests = retention, max, requests
		return k
	}
	old := keyed(0, 0, "POST https://api-m.paypal.com/v1/checkout/orders/O1/pay")
	old.resent = false
	return contract{
		adapter: providers.PayPal(),
		terms: []terms{
			keyed(6*time.Hour, 108,
				"POST https://api-m.paypal.com/v2/checkout/orders",
				"POST https://api-m.sandbox.paypal.com/v2/checkout/orders/O1/authorize",
				"POST https://api-m.paypal.com/v2/checkout/orders/O1/capture",
				"POST https://api.paypal.com/v2/checkout/orders",
				"POST https://api.sandbox.paypal.com/v2/checkout/orders/O1/capture"),
			keyed(45*day, 0, capture,
				"POST https://api-m.paypal.com/v2/payments/authorizations/A1/reauthorize",
				"POST https://api-m.paypal.com/v2/payments/captures/C1/refund"),
			keyed(3*day, 0,
				"POST https://api-m.paypal.com/v1/billing/plans",
				"POST https://api-m.paypal.com/v1/billing/subscriptions",
				"POST https://api-m.paypal.com/v1/billing/subscriptions/S1/capture",
				"POST https://api-m.paypal.com/v1/catalogs/products"),
			keyed(30*day, 1000, "POST https://api-m.paypal.com/v1/payments/payouts"),
			keyed(30*day, 78,
				"POST https://api-m.paypal.com/v1/payments/payment/P1/execute",
				"POST https://api-m.paypal.com/v1/payments/sale/S1/refund",
				"POST https://api-m.paypal.com/v1/payments/authorization/A1/void",
				"POST https://api-m.paypal.com/v1/payments/orders/O1/do-void",
				"POST https://api-m.paypal.com/v1/payments/capture/C1/refund"),
			keyed(3*time.Hour, 0,
				"POST https://api-m.paypal.com/v3/vault/payment-tokens",
				"POST https://api-m.paypal.com/v3/vault/setup-tokens",
				"POST https://api-m.paypal.com/v1/payment-experience/web-profiles"),
			old,
			{requests: []string{
				void,
				"POST https://api-m.paypal.com/v2/checkout/orders/O1/track",
				"PATCH https://api-m.paypal.com/v2/checkout/orders/O1",
				"DELETE https://api-m.paypal.com/v3/vault/payment-tokens/T1",
				"POST https://api-m.paypal.com/v1/payments/payment",
			}, secretFields: cards},
		},
		noEffect: []string{
			"POST https://api-m.paypal.com/v1/oauth2/token\nContent-Type: application/x-www-form-urlencoded\n\ngrant_type=client_credentials",
			"POST https://api-m.paypal.com/v1/notifications/verify-webhook-signature",
			"POST https://api-m.paypal.com/v1/invoicing/search",
			"POST https://api-m.paypal.com/v2/invoicing/search-invoices",
			"POST https://api-m.paypal.com/v1/invoicing/invoices/next-invoice-number",
			"POST https://api-m.paypal.com/v2/invoicing/generate-next-invoice-number",
			"POST https://api-m.paypal.com/v2/invoicing/invoices/I1/generate-qr-code",
		},
		sent: []sent{
			{
				capture + "\nContent-Type: application/json\n\n{\"final_capture\":true}",
				"POST /v2/payments/authorizations/A1/capture HTTP/1.1\nHost: api-m.paypal.com\nContent-Length: 22\nContent-Type: application/json\nPaypal-Request-Id: " + conformanceKey + "\n\n{\"final_capture\":true}",
			},
			{
				void,
				"POST /v2/payments/authorizations/A1/void HTTP/1.1\nHost: api-m.paypal.com\nContent-Length: 0\n\n",
			},
		},
		answers: []answers{
			{capture, refusalRows(failure)},
			{capture, []row{
				{"a replay, which nothing marks", 200, "", `{"id":"C1","status":"COMPLETED"}`, final, final},
				{"a request in progress, perhaps under this key", 409, "", inProgress, retry, inFlight},
				{"another conflict", 409, "", `{"name":"RESOURCE_CONFLICT"}`, indeterminate, indeterminate},
				{"a conflict without a body", 409, "", "", indeterminate, indeterminate},
				limited,
				{"a rate limit of another name", 429, "", `{"name":"OTHER"}`, retry, retry},
				{"the key was used for another request", 422, "", issue("PAYPAL_REQUEST_ID_PREVIOUSLY_USED"), misuse, misuse},
				{"the key was used, perhaps by the same request", 400, "", `{"name":"DUPLICATE_REQUEST_ID"}`, indeterminate, indeterminate},
				{"the key is missing", 400, "", issue("PAYPAL_REQUEST_ID_REQUIRED"), rejected, rejected},
				{"the key is missing, and something else", 422, "", `{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"PAYPAL_REQUEST_ID_REQUIRED"},{"issue":"OTHER"}]}`, final, indeterminate},
				{"the key is missing, by another status", 422, "", issue("PAYPAL_REQUEST_ID_REQUIRED"), rejected, rejected},
				{"the invoice was paid, perhaps by us", 422, "", issue("DUPLICATE_INVOICE_ID"), final, indeterminate},
			}},
			{void, refusalRows(failure)},
			{void, []row{
				{"a request in progress on the resource", 409, "", inProgress, notExecuted, indeterminate},
				{"a request in progress, and another conflict", 409, "", `{"name":"RESOURCE_CONFLICT","details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"},{"issue":"OTHER"}]}`, final, indeterminate},
				{"another conflict, if no key can be in flight", 409, "", `{"name":"RESOURCE_CONFLICT"}`, final, indeterminate},
				limited,
			}},
		},
		ownKey: []answers{
			{capture, ownKeyRows(`{"name":"RESOURCE_CONFLICT"}`)},
			{capture, []row{{"a request in progress on the resource", 409, "", inProgress, retry, inFlight}}},
		},
	}
}
