package providers_test

import "github.com/onceward/onceward/providers"

func increaseContract() contract {
	const (
		transfer = "POST https://api.increase.com/ach_transfers"
		approve  = "POST https://api.increase.com/ach_transfers/42/approve"
		put      = "PUT https://api.increase.com/accounts/42"
		update   = "PATCH https://api.increase.com/accounts/42"

		replayed = "Idempotent-Replayed: true"
		used     = `{"type":"idempotency_key_already_used_error","status":409,"title":"…","resource_id":"ach_transfer_1"}`
		invalid  = `{"type":"invalid_parameters_error","status":400,"title":"…"}`
	)
	quoted := []string{`"` + conformanceKey + `"`}
	return contract{
		adapter: providers.Increase(),
		terms: []terms{
			{
				requests: []string{transfer, "POST https://sandbox.increase.com/accounts"},
				key:      "raw header Idempotency-Key", max: 200, refuses: quoted,
				retention: 90 * day, remembers: cleanFailures, guard: true, resent: true,
			},
			{
				requests: []string{"POST https://api.increase.com/file_links"},
				key:      "raw header Idempotency-Key", max: 200, refuses: quoted,
				retention: 90 * day, remembers: cleanFailures, guard: true, resent: true, secret: true,
			},
			{
				requests: []string{approve, "POST https://sandbox.increase.com/simulations/card_refunds"},
				key:      "raw header Idempotency-Key", max: 200, refuses: quoted,
			},
			{
				requests: []string{"POST https://api.increase.com/cards/42/create_details_iframe"},
				key:      "raw header Idempotency-Key", max: 200, refuses: quoted, secret: true,
			},
			{requests: []string{update, "DELETE https://api.increase.com/webhooks/42"}, idempotent: true},
			{requests: []string{put}},
		},
		noEffect: []string{"POST https://api.increase.com/oauth/tokens"},
		sent: []sent{{
			transfer + "\n\n{}",
			"POST /ach_transfers HTTP/1.1\nHost: api.increase.com\nContent-Length: 2\nIdempotency-Key: " + conformanceKey + "\n\n{}",
		}},
		answers: []answers{
			{transfer, refusedRows},
			{transfer, passingRows},
			{transfer, badInput},
			{transfer, []row{
				{"a transfer", 200, "", `{"id":"ach_transfer_1"}`, final, final},
				{"the transfer again", 200, replayed, `{"id":"ach_transfer_1"}`, final, final},
				{"a mismatch, which names the first object", 409, "", used, misuse, misuse},
				{"409 of another type", 409, "", `{"type":"invalid_operation_error"}`, indeterminate, indeterminate},
				{"a rate limit of Increase's", 429, "", `{"type":"rate_limited_error","retry_after":1}`, notExecuted, notExecuted},
				{"409 without a type", 409, "", "", indeterminate, indeterminate},
				{"a refusal", 400, "", invalid, final, indeterminate},
				{"a refusal that is not Increase's", 400, "Content-Type: text/html", html, indeterminate, indeterminate},
				{"500", 500, "", `{"type":"internal_server_error"}`, retry, retry},
			}},
			{update, refusedRows},
			{update, passingRows},
			{update, []row{
				{"a refusal", 400, "", invalid, final, indeterminate},
				{"a conflict, if no key can be in flight", 409, "", `{"type":"invalid_operation_error"}`, final, indeterminate},
				{"a rate limit of Increase's", 429, "", `{"type":"rate_limited_error","retry_after":1}`, notExecuted, notExecuted},
			}},
		},
		ownKey: []answers{{transfer, ownKeyRows(`{"type":"invalid_operation_error","detail":"There is an insufficient balance in the account."}`)}},
	}
}
