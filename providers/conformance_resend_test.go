package providers_test

import "github.com/onceward/onceward/providers"

func resendContract() contract {
	const (
		email  = "POST https://api.resend.com/emails"
		batch  = "POST https://api.resend.com/emails/batch"
		domain = "POST https://api.resend.com/domains"

		concurrent = `{"statusCode":409,"name":"concurrent_idempotent_requests","message":"…"}`
		another    = `{"statusCode":409,"name":"invalid_idempotent_request","message":"…"}`
		invalidKey = `{"statusCode":400,"name":"invalid_idempotency_key","message":"…"}`
		invalid    = `{"statusCode":422,"name":"validation_error","message":"…"}`
	)
	quoted := []string{`"` + conformanceKey + `"`}
	return contract{
		adapter: providers.Resend(),
		terms: []terms{
			{
				requests: []string{email},
				key:      "raw header Idempotency-Key", min: 1, max: 256, refuses: quoted,
				retention: day, remembers: cleanFailures, guard: true, resent: true,
			},
			{
				requests: []string{batch},
				key:      "raw header Idempotency-Key", min: 1, max: 256, refuses: quoted,
				retention: day, remembers: successes, guard: true,
			},
			{requests: []string{domain, "POST https://api.resend.com/emails/1/cancel", "PATCH https://api.resend.com/emails/1", "POST https://api.resend.com/broadcasts/1/send"}},
			{
				requests: []string{
					"POST https://api.resend.com/api-keys",
					"POST https://api.resend.com/webhooks",
					"POST https://api.resend.com/emails/1/share",
				},
				secret: true,
			},
		},
		sent: []sent{{
			email + "\nContent-Type: application/json\n\n{\"to\":[\"a@example.com\"]}",
			"POST /emails HTTP/1.1\nHost: api.resend.com\nContent-Length: 24\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"to\":[\"a@example.com\"]}",
		}},
		answers: []answers{
			{email, refusedRows},
			{email, passingRows},
			{email, badInput},
			{email, []row{
				{"sent, or the first answer again", 200, "", `{"id":"1"}`, final, final},
				{"409 that says in flight", 409, "", concurrent, inFlight, inFlight},
				{"409 that says mismatch", 409, "", another, misuse, misuse},
				{"409 that says neither", 409, "", `{"name":"something_new"}`, indeterminate, indeterminate},
				{"409 that says nothing", 409, "Content-Type: text/html", html, indeterminate, indeterminate},
				{"a key it does not take", 400, "", invalidKey, rejected, rejected},
				{"a refusal", 422, "", invalid, final, indeterminate},
				{"a quota", 429, "", `{"name":"daily_quota_exceeded"}`, notExecuted, notExecuted},
				{"a rate limit", 429, "", `{"name":"rate_limit_exceeded"}`, notExecuted, notExecuted},
				{"500", 500, "", `{"name":"application_error"}`, retry, retry},
			}},
			{domain, refusedRows},
			{domain, passingRows},
			{domain, []row{
				{"a refusal", 422, "", invalid, final, indeterminate},
				{"a rate limit", 429, "", `{"name":"rate_limit_exceeded"}`, notExecuted, notExecuted},
			}},
		},
		ownKey: []answers{{email, ownKeyRows(invalid)}},
	}
}
