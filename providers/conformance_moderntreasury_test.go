package providers_test

import "github.com/onceward/onceward/providers"

func modernTreasuryContract() contract {
	const (
		order  = "POST https://app.moderntreasury.com/api/payment_orders"
		update = "PATCH https://app.moderntreasury.com/api/payment_orders/42"
	)
	return contract{
		adapter: providers.ModernTreasury(),
		sent: []sent{
			{
				order + "\nContent-Type: application/json\n\n{\"amount\":1000}",
				"POST /api/payment_orders HTTP/1.1\nHost: app.moderntreasury.com\nContent-Length: 15\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":1000}",
			},
			{
				update + "\n\n{}",
				"PATCH /api/payment_orders/42 HTTP/1.1\nHost: app.moderntreasury.com\nContent-Length: 2\n\n{}",
			},
		},
	}
}
