package providers_test

import "github.com/onceward/onceward/providers"

func razorpayContract() contract {
	const (
		payout   = "POST https://api.razorpay.com/v1/payouts"
		refund   = "POST https://api.razorpay.com/v1/payments/pay_1/refund"
		transfer = "POST https://api.razorpay.com/v1/transfers"
		order    = "POST https://api.razorpay.com/v1/orders"

		failure = `{"error":{"code":"BAD_REQUEST_ERROR","description":"The amount is invalid."}}`
		another = `{"error":{"code":"BAD_REQUEST_ERROR","description":"Different request with the same idempotency key has already been processed."}}`
		busy    = `{"error":{"code":"BAD_REQUEST_ERROR","description":"Another request is in progress."}}`
	)
	gateway := row{"an error of the gateway, which says nothing of the money", 400, "", `{"error":{"code":"GATEWAY_ERROR","description":"…"}}`, indeterminate, indeterminate}
	tooLong := conformanceKey + "0"
	cards := []string{"card.number", "card.cvv"}
	return contract{
		adapter: providers.Razorpay(day),
		terms: []terms{
			{
				requests: []string{payout},
				key:      "raw header X-Payout-Idempotency", min: 4, max: 36, refuses: []string{"invoice.991", "invoice/991", tooLong},
				retention: day, remembers: cleanFailures, secretFields: cards,
			},
			{
				requests: []string{refund},
				key:      "raw header X-Refund-Idempotency", min: 10, refuses: []string{"invoice 991 refund", "invoice:991:refund"},
				retention: day, remembers: cleanFailures, guard: true, resent: true,
			},
			{
				requests: []string{transfer},
				key:      "raw header X-Transfer-Idempotency", min: 4, max: 36, refuses: []string{"invoice.991", tooLong},
				retention: day, remembers: cleanFailures, guard: true, resent: true,
			},
			{requests: []string{
				"POST https://api.razorpay.com/v1/payments/create/json",
				"POST https://api.razorpay.com/v1/payments/pay_1/capture",
				"POST https://api.razorpay.com/v1/payments/pay_1/transfers",
				"PATCH https://api.razorpay.com/v1/payments/pay_1",
			}, secretFields: cards},
			{requests: []string{order}},
		},
		sent: []sent{
			{
				payout + "\n\n{\"amount\":100}",
				"POST /v1/payouts HTTP/1.1\nHost: api.razorpay.com\nContent-Length: 14\nX-Payout-Idempotency: " + conformanceKey + "\n\n{\"amount\":100}",
			},
			{
				refund + "\n\n{\"amount\":100}",
				"POST /v1/payments/pay_1/refund HTTP/1.1\nHost: api.razorpay.com\nContent-Length: 14\nX-Refund-Idempotency: " + conformanceKey + "\n\n{\"amount\":100}",
			},
			{
				order + "\n\n{\"amount\":100}",
				"POST /v1/orders HTTP/1.1\nHost: api.razorpay.com\nContent-Length: 14\n\n{\"amount\":100}",
			},
		},
		answers: []answers{
			{refund, refusalRows(failure)},
			{refund, []row{
				{"another request under the key, as the prose has it", 400, "", another, misuse, misuse},
				{"another request under the key, as the table has it", 409, "", another, misuse, misuse},
				{"in flight, by a text that is not published", 409, "", busy, retry, retry},
				{"a conflict without a body", 409, "", "", retry, retry},
				gateway,
			}},
			{payout, refusalRows(failure)},
			{payout, []row{
				{"another request under the key", 400, "", another, misuse, misuse},
				{"a conflict, whose meaning is not published", 409, "", busy, indeterminate, indeterminate},
				gateway,
				{"a payout that failed, replayed", 200, "", `{"id":"pout_1","status":"failed"}`, final, final},
			}},
			{order, refusalRows(failure)},
			{order, []row{{"a conflict, where no key can be in flight", 409, "", busy, final, indeterminate}, gateway}},
		},
	}
}
