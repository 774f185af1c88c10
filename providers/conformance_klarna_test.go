package providers_test

import "github.com/onceward/onceward/providers"

func klarnaContract() contract {
	const capture = "POST https://api.klarna.com/ordermanagement/v1/orders/O1/captures"
	return contract{
		adapter: providers.Klarna(),
		sent: []sent{{
			capture + "\nContent-Type: application/json\n\n{\"captured_amount\":100}",
			"POST /ordermanagement/v1/orders/O1/captures HTTP/1.1\nHost: api.klarna.com\nContent-Length: 23\nContent-Type: application/json\nKlarna-Idempotency-Key: " + conformanceKey + "\n\n{\"captured_amount\":100}",
		}},
	}
}
