package providers_test

import "github.com/onceward/onceward/providers"

func dwollaContract() contract {
	const (
		transfer = "POST https://api.dwolla.com/transfers"
		remove   = "DELETE https://api.dwolla.com/webhook-subscriptions/1"

		hal     = "Content-Type: application/vnd.dwolla.v1.hal+json"
		invalid = `{"code":"ValidationError","message":"Validation error(s) present.","_embedded":{"errors":[{"code":"InsufficientFunds"}]}}`
	)
	quoted := []string{`"` + conformanceKey + `"`}
	return contract{
		adapter: providers.Dwolla(),
		terms: []terms{
			{
				requests: []string{transfer, "POST https://api.dwolla.com/mass-payments", "POST https://api-sandbox.dwolla.com/customers"},
				key:      "raw header Idempotency-Key", refuses: quoted,
				retention: day, remembers: cleanFailures, guard: true, resent: true,
			},
			{
				requests: []string{
					"POST https://api.dwolla.com/client-tokens",
					"POST https://api.dwolla.com/customers/1/funding-sources-token",
				},
				key: "raw header Idempotency-Key", refuses: quoted,
				retention: day, remembers: cleanFailures, guard: true, resent: true, secret: true,
			},
			{requests: []string{remove}},
		},
		noEffect: []string{"POST https://api.dwolla.com/token"},
		sent: []sent{{
			transfer + "\nContent-Type: application/vnd.dwolla.v1.hal+json\n\n{\"amount\":{}}",
			"POST /transfers HTTP/1.1\nHost: api.dwolla.com\nContent-Length: 13\nContent-Type: application/vnd.dwolla.v1.hal+json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":{}}",
		}},
		answers: []answers{
			{transfer, refusedRows},
			{transfer, passingRows},
			{transfer, badInput},
			{transfer, []row{
				{"created, or the original again", 201, "Location: https://api.dwolla.com/transfers/1", "", final, final},
				{"in flight, or locked by a failure", 409, hal, `{"code":"Conflict"}`, retry, inFlight},
				{"a refusal", 400, hal, invalid, final, indeterminate},
				{"a refusal that is not Dwolla's", 400, "Content-Type: text/html", html, indeterminate, indeterminate},
				{"500", 500, hal, `{"code":"ServerError"}`, retry, retry},
			}},
			{remove, refusedRows},
			{remove, passingRows},
			{remove, []row{{"a refusal", 404, hal, `{"code":"NotFound"}`, final, indeterminate}}},
		},
	}
}
