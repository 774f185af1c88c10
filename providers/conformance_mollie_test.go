package providers_test

import (
	"time"

	"github.com/onceward/onceward/providers"
)

func mollieContract() contract {
	const (
		put     = "PUT https://api.mollie.com/v2/payments/tr_1"
		payment = "POST https://api.mollie.com/v2/payments"
		failure = `{"status":422,"title":"Unprocessable Entity","detail":"x","_links":{}}`
	)
	key := terms{
		requests: []string{
			payment,
			"PATCH https://api.mollie.com/v2/payments/tr_1",
			"DELETE https://api.mollie.com/v2/customers/cst_1/subscriptions/sub_1",
			"POST https://api.mollie.com/v2/payments/tr_1/refunds",
			"POST https://api.mollie.com/v2/payments/tr_1/captures",
			"POST https://api.mollie.com/v2/customers",
			"DELETE https://api.mollie.com/oauth2/tokens",
		},
		key: "raw header Idempotency-Key", refuses: []string{`"` + conformanceKey + `"`},
		retention: time.Hour, remembers: successes,
	}
	webhook := key
	webhook.requests, webhook.secret = []string{"POST https://api.mollie.com/v2/webhooks"}, true
	return contract{
		adapter:  providers.Mollie(),
		terms:    []terms{key, webhook, {requests: []string{put}}},
		noEffect: []string{"POST https://api.mollie.com/oauth2/tokens"},
		sent: []sent{{
			"DELETE https://api.mollie.com/v2/payments/tr_1",
			"DELETE /v2/payments/tr_1 HTTP/1.1\nHost: api.mollie.com\nIdempotency-Key: " + conformanceKey + "\n\n",
		}},
		answers: []answers{
			{payment, refusalRows(failure)},
			{payment, []row{
				{"a replayed success", 201, "Idempotent-Replayed: true", `{"id":"tr_1"}`, final, final},
				{"another request under the key, or any bad one", 400, "Content-Type: application/hal+json", `{"status":400,"title":"Bad Request"}`, final, indeterminate},
				{"a refund like one shortly before, perhaps ours", 409, "", `{"status":409,"title":"Conflict"}`, indeterminate, indeterminate},
				{"a rate limit of Mollie's", 429, "Content-Type: application/hal+json", `{"status":429,"title":"Too Many Requests"}`, notExecuted, notExecuted},
				{"a replayed refusal", 422, "Idempotent-Replayed: true", failure, indeterminate, indeterminate},
			}},
			{put, refusalRows(failure)},
			{put, []row{
				{"a conflict, if no key can be in flight", 409, "", `{"status":409,"title":"Conflict"}`, final, indeterminate},
				{"a rate limit of Mollie's", 429, "", `{"status":429,"title":"Too Many Requests"}`, notExecuted, notExecuted},
			}},
		},
		ownKey: []answers{{payment, ownKeyRows(`{"status":409,"title":"Conflict"}`)}},
	}
}
