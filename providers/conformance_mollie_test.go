package providers_test

import (
	"github.com/onceward/onceward/providers"
)

func mollieContract() contract {
	return contract{
		adapter: providers.Mollie(),
		sent: []sent{{
			"DELETE https://api.mollie.com/v2/payments/tr_1",
			"DELETE /v2/payments/tr_1 HTTP/1.1\nHost: api.mollie.com\nIdempotency-Key: " + conformanceKey + "\n\n",
		}},
	}
}
