package providers_test

import (
	"github.com/onceward/onceward/providers"
)

func paypalContract() contract {
	const (
		capture = "POST https://api-m.paypal.com/v2/payments/authorizations/A1/capture"
		void    = "POST https://api-m.paypal.com/v2/payments/authorizations/A1/void"
	)
	return contract{
		adapter: providers.PayPal(),
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
	}
}
