package providers_test

import "github.com/onceward/onceward/providers"

func checkoutContract() contract {
	const pay = "POST https://api.checkout.com/payments"
	return contract{
		adapter: providers.Checkout(),
		sent: []sent{{
			pay + "\nContent-Type: application/json\n\n{\"amount\":100}",
			"POST /payments HTTP/1.1\nHost: api.checkout.com\nContent-Length: 14\nCko-Idempotency-Key: " + conformanceKey + "\nContent-Type: application/json\n\n{\"amount\":100}",
		}},
	}
}
