package providers_test

import "github.com/onceward/onceward/providers"

func razorpayContract() contract {
	const (
		payout = "POST https://api.razorpay.com/v1/payouts"
		refund = "POST https://api.razorpay.com/v1/payments/pay_1/refund"
		order  = "POST https://api.razorpay.com/v1/orders"
	)
	return contract{
		adapter: providers.Razorpay(day),
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
	}
}
