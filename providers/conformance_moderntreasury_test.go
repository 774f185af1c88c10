package providers_test

import "github.com/onceward/onceward/providers"

func modernTreasuryContract() contract {
	const (
		order  = "POST https://app.moderntreasury.com/api/payment_orders"
		update = "PATCH https://app.moderntreasury.com/api/payment_orders/42"

		invalid = `{"errors":{"code":"parameter_invalid","message":"Amount is invalid","parameter":"amount"}}`
	)
	quoted := []string{`"` + conformanceKey + `"`}
	return contract{
		adapter: providers.ModernTreasury(),
		terms: []terms{
			{
				requests: []string{
					order,
					"POST https://app.moderntreasury.com/api/bulk_requests",
					"POST https://app.moderntreasury.com/api/counterparties",
					"POST https://app.moderntreasury.com/api/expected_payments",
					"POST https://app.moderntreasury.com/api/external_accounts",
					"POST https://app.moderntreasury.com/api/internal_accounts",
					"POST https://app.moderntreasury.com/api/ledger_account_categories",
					"POST https://app.moderntreasury.com/api/ledger_accounts",
					"POST https://app.moderntreasury.com/api/ledger_transactions",
					"POST https://app.moderntreasury.com/api/legal_entities",
				},
				key: "raw header Idempotency-Key", refuses: quoted,
				retention: day, remembers: cleanFailures, guard: true, resent: true,
			},
			{
				requests: []string{
					"POST https://app.moderntreasury.com/api/account_collection_flows",
					"POST https://app.moderntreasury.com/api/payment_flows",
				},
				key: "raw header Idempotency-Key", refuses: quoted,
				retention: day, remembers: cleanFailures, guard: true, resent: true, secret: true,
			},
			{requests: []string{"PUT https://app.moderntreasury.com/api/invoices/1/payment_orders/2"}},
			{requests: []string{update, "DELETE https://app.moderntreasury.com/api/counterparties/1"}, idempotent: true},
		},
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
		answers: []answers{
			{order, refusedRows},
			{order, passingRows},
			{order, badInput},
			{order, []row{
				{"a payment order", 201, "", `{"id":"1"}`, final, final},
				{"in flight, or a conflict of another kind", 409, "", "", retry, inFlight},
				{"a conflict with a code", 409, "", `{"errors":{"code":"conflict"}}`, retry, inFlight},
				{"a refusal", 422, "", invalid, final, indeterminate},
				{"a refusal that is not Modern Treasury's", 422, "Content-Type: text/html", html, indeterminate, indeterminate},
				{"a rate limit of Modern Treasury's", 429, "", `{"errors":{"code":"rate_limit","message":"…"}}`, notExecuted, notExecuted},
				{"500, which is not kept", 500, "", "", retry, retry},
			}},
			{update, refusedRows},
			{update, passingRows},
			{update, []row{
				{"a refusal", 422, "", invalid, final, indeterminate},
				{"409", 409, "", "", indeterminate, indeterminate},
				{"a rate limit of Modern Treasury's", 429, "", `{"errors":{"code":"rate_limit","message":"…"}}`, notExecuted, notExecuted},
			}},
		},
	}
}
