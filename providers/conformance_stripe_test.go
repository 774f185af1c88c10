package providers_test

import (
	"github.com/onceward/onceward/providers"
)

func stripeContract() contract {
	const v1 = "POST https://api.stripe.com/v1/charges"
	return contract{
		adapter: providers.Stripe(),
		sent: []sent{
			{
				v1 + "\nContent-Type: application/x-www-form-urlencoded\n\namount=2000",
				"POST /v1/charges HTTP/1.1\nHost: api.stripe.com\nContent-Length: 11\nContent-Type: application/x-www-form-urlencoded\nIdempotency-Key: " + conformanceKey + "\n\namount=2000",
			},
			{
				"DELETE https://api.stripe.com/v2/core/accounts/acct_1",
				"DELETE /v2/core/accounts/acct_1 HTTP/1.1\nHost: api.stripe.com\nIdempotency-Key: " + conformanceKey + "\n\n",
			},
			{
				"DELETE https://api.stripe.com/v1/customers/cus_1",
				"DELETE /v1/customers/cus_1 HTTP/1.1\nHost: api.stripe.com\n\n",
			},
		},
	}
}
