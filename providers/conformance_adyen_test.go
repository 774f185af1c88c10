package providers_test

import "github.com/onceward/onceward/providers"

func adyenContract() contract {
	const payment = "POST https://checkout-test.adyen.com/v71/payments"
	return contract{
		adapter: providers.Adyen("1234abcd-Example"),
		sent: []sent{{
			payment + "\nContent-Type: application/json\n\n{\"reference\":\"invoice-991\"}",
			"POST /v71/payments HTTP/1.1\nHost: checkout-test.adyen.com\nContent-Length: 27\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"reference\":\"invoice-991\"}",
		}},
	}
}
