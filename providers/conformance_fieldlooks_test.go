package providers_test

import "github.com/onceward/onceward/providers"

const jsonContent = "\nContent-Type: application/json\n\n"

// As in PaystackOSS/doc-code-snippets 94af513 dist/api/transfers/verify/response.json.
func paystackLooks() []look {
	const (
		create   = "POST https://api.paystack.co/transfer" + jsonContent + `{"source":"balance","amount":100000,"currency":"NGN","recipient":"RCP_1","reference":"` + conformanceKey + `"}`
		transfer = `{"amount":100000,"createdAt":"2026-11-20T12:00:01.000Z","currency":"NGN","id":860670817,"reference":"` + conformanceKey + `","source":"balance","status":"success","transfer_code":"TRF_1"}`
		page     = `{"status":true,"message":"Transfer retrieved","data":` + transfer + `}`
	)
	asked := []string{"GET /transfer/verify/" + conformanceKey}
	return []look{
		{name: "a transfer", request: create, asks: asked, page: page, want: exactly("TRF_1", providers.TookEffect, false)},
		{name: "a transfer that waits for a password", request: create, asks: asked, page: swap(page, `"success"`, `"otp"`), want: exactly("TRF_1", providers.TookEffect, false)},
		{name: "a transfer that failed", request: create, asks: asked, page: swap(page, `"success"`, `"failed"`), want: exactly("TRF_1", providers.Reversed, false)},
		{name: "another amount", request: create, asks: asked, page: swap(page, "100000", "100001"), want: ambiguous("TRF_1")},
		{name: "yesterday's transfer", request: create, asks: asked, page: swap(page, "2026-11-20", "2026-11-19"), want: ambiguous("TRF_1")},
		{name: "no transfer", request: create, asks: asked, page: `{"status":false,"message":"Transfer not found"}`, want: nothing(true)},
	}
}
