package providers_test

import (
	"strings"

	"github.com/onceward/onceward/providers"
)

func stripeContract() contract {
	const (
		v1 = "POST https://api.stripe.com/v1/charges"
		v2 = "POST https://api.stripe.com/v2/core/accounts"

		inUse     = `{"error":{"code":"idempotency_key_in_use","type":"idempotency_error"}}`
		invalid   = `{"error":{"type":"invalid_request_error","code":"charge_already_captured"}}`
		declined  = `{"error":{"type":"card_error","code":"card_declined"}}`
		apiError  = `{"error":{"type":"api_error"}}`
		reused    = `{"error":{"type":"idempotency_error"}}`
		replayed  = "Idempotent-Replayed: true"
		dontRetry = "Stripe-Should-Retry: false"
		doRetry   = "Stripe-Should-Retry: true"
	)
	cards := []string{"card.number", "card.cvc", "source.number", "source.cvc", "external_account.number", "external_account.cvc"}
	parameter := func(name, code string) row {
		return row{name, 400, "", `{"error":{"type":"invalid_request_error","code":"` + code + `","param":"amount"}}`, rejected, rejected}
	}
	return contract{
		adapter: providers.Stripe(),
		terms: []terms{
			{
				requests: []string{
					v1, "POST https://files.stripe.com/v1/files", "POST https://api.stripe.com/v1/payment_methods/pm_1/attach",
					"POST https://api.stripe.com/v1/payment_intents", "POST https://api.stripe.com/v1/refunds",
					"POST https://api.stripe.com/v1/transfers", "POST https://api.stripe.com/v1/payouts", "POST https://api.stripe.com/v1/topups",
					"POST https://api.stripe.com/v1/subscriptions", "POST https://api.stripe.com/v1/invoices", "POST https://api.stripe.com/v1/customers",
				},
				key: "raw header Idempotency-Key", max: 255, refuses: []string{`"` + conformanceKey + `"`},
				retention: day, remembers: everything, guard: true, resent: true, refusals: true, secretFields: cards,
			},
			{requests: []string{"DELETE https://api.stripe.com/v1/customers/cus_1"}, idempotent: true},
			{
				requests: []string{v2, v2 + "/acct_1/persons", "POST https://api.stripe.com/v2/core/account_links", "DELETE https://api.stripe.com/v2/core/accounts/acct_1"},
				key:      "raw header Idempotency-Key", max: 255,
				retention: 30 * day, remembers: cleanFailures, secretFields: cards,
			},
			{
				requests: []string{
					"POST https://api.stripe.com/v1/account_links",
					"POST https://api.stripe.com/v1/account_sessions",
					"POST https://api.stripe.com/v1/accounts/acct_1/login_links",
					"POST https://api.stripe.com/v1/billing_portal/sessions",
					"POST https://api.stripe.com/v1/customer_sessions",
					"POST https://api.stripe.com/v1/financial_connections/sessions",
					"POST https://api.stripe.com/v1/identity/verification_sessions",
					"POST https://api.stripe.com/v1/identity/verification_sessions/vs_1",
					"POST https://api.stripe.com/v1/ephemeral_keys",
					"POST https://api.stripe.com/v1/webhook_endpoints",
					"POST https://api.stripe.com/v1/terminal/connection_tokens",
				},
				key: "raw header Idempotency-Key", max: 255,
				retention: day, remembers: everything, guard: true, resent: true, refusals: true, secretFields: cards, secret: true,
			},
			{
				requests: []string{"POST https://api.stripe.com/v2/core/event_destinations", "POST https://api.stripe.com/v2/billing/meter_event_session"},
				key:      "raw header Idempotency-Key", max: 255,
				retention: 30 * day, remembers: cleanFailures, secretFields: cards, secret: true,
			},
		},
		noEffect: []string{"POST https://api.stripe.com/v1/tokens", "POST https://api.stripe.com/v1/payment_methods"},
		unlisted: []string{"PATCH https://api.stripe.com/v1/charges/ch_1", "POST https://connect.stripe.com/oauth/deauthorize"},
		sent: []sent{
			{
				v1 + "\nContent-Type: application/x-www-form-urlencoded\n\namount=2000",
				"POST /v1/charges HTTP/1.1\nHost: api.stripe.com\nContent-Length: 11\nContent-Type: application/x-www-form-urlencoded\nIdempotency-Key: " + conformanceKey + "\n\namount=2000",
			},
			{
				"DELETE https://api.stripe.com/v2/core/accounts/acct_1",
				"DELETE /v2/core/accounts/acct_1 HTTP/1.1\nHost: api.stripe.com\nIdempotency-Key: " + conformanceKey + "\n\n",
			},
			{
				"DELETE https://api.stripe.com/v1/customers/cus_1",
				"DELETE /v1/customers/cus_1 HTTP/1.1\nHost: api.stripe.com\n\n",
			},
		},
		answers: []answers{
			{v1, refusedRows},
			{v1, passingRows[:2]},
			{v1, []row{
				{"a success", 200, "", `{"id":"ch_1"}`, final, final},
				{"a replayed success", 200, replayed, `{"id":"ch_1"}`, final, final},
				{"in flight, by its code under any type", 409, "", inUse, inFlight, inFlight},
				{"in flight with another type", 409, "", strings.Replace(inUse, "idempotency_error", "invalid_request_error", 1), inFlight, inFlight},
				{"another conflict is not in flight", 409, "", invalid, retry, retry},
				{"a conflict without a body", 409, "", "", retry, retry},
				{"other parameters under the key", 400, "", reused, misuse, misuse},
				{"a rate limit", 429, "", `{"error":{"code":"rate_limit"}}`, notExecuted, notExecuted},
				{"a rate limit without a body", 429, "", "", notExecuted, notExecuted},
				{"a locked object", 429, "", `{"error":{"code":"lock_timeout"}}`, notExecuted, notExecuted},
				{"a rate limit that does not pass", 429, dontRetry, "", rejected, rejected},
				parameter("a missing parameter", "parameter_missing"),
				parameter("an unknown parameter", "parameter_unknown"),
				parameter("an empty parameter", "parameter_invalid_empty"),
				parameter("no integer", "parameter_invalid_integer"),
				parameter("a blank text", "parameter_invalid_string_blank"),
				parameter("an empty text", "parameter_invalid_string_empty"),
				parameter("parameters that exclude each other", "parameters_exclusive"),
				{"a decline", 402, "", declined, final, final},
				{"a decline with the advice not to retry", 402, dontRetry, declined, final, final},
				{"a decline replayed", 402, replayed, declined, final, final},
				{"402 that is not Stripe's", 402, "Content-Type: text/html", html, indeterminate, indeterminate},
				{"an executed refusal", 400, "", invalid, final, retry},
				{"an executed refusal, replayed", 400, replayed, invalid, final, final},
				{"a refusal that a retry does not change", 404, dontRetry, invalid, final, indeterminate},
				{"a refusal by something in between", 404, "Content-Type: text/html", html, indeterminate, indeterminate},
				{"an external dependency that failed", 424, "", apiError, indeterminate, indeterminate},
				{"500", 500, "", apiError, retry, retry},
				{"500 that Stripe will not change", 500, dontRetry, apiError, indeterminate, indeterminate},
				{"500 that is stored", 500, replayed, apiError, indeterminate, indeterminate},
				{"500 that may be retried", 500, doRetry, apiError, retry, retry},
				{"503 by a gateway", 503, "Content-Type: text/html", html, retry, retry},
				{"a header that contradicts itself", 500, dontRetry + "; " + doRetry, apiError, retry, retry},
			}},
			{v1, badInput},
			{"DELETE https://api.stripe.com/v1/customers/cus_1", refusedRows},
			{"DELETE https://api.stripe.com/v1/customers/cus_1", passingRows[:2]},
			{"DELETE https://api.stripe.com/v1/customers/cus_1", []row{
				{"deleted", 200, "", `{"deleted":true}`, final, final},
				{"nothing there, perhaps deleted by an earlier attempt", 404, "", `{"error":{"type":"invalid_request_error","code":"resource_missing"}}`, final, indeterminate},
				{"a rate limit", 429, "", "", notExecuted, notExecuted},
				{"a rate limit that does not pass", 429, dontRetry, "", rejected, rejected},
				{"a locked object", 429, "", `{"error":{"code":"lock_timeout"}}`, notExecuted, notExecuted},
				{"a conflict", 409, "", "", retry, retry},
				{"500", 500, "", "", retry, retry},
				{"500 that may be retried", 500, doRetry, "", retry, retry},
				{"500 that Stripe will not change", 500, dontRetry, "", indeterminate, indeterminate},
				{"424", 424, "", "", indeterminate, indeterminate},
			}},
			{v2, refusedRows},
			{v2, passingRows},
			{v2, []row{
				{"a success", 200, "", `{"id":"acct_1"}`, final, final},
				{"a failure is executed again", 500, "", `{"error":{"code":"x"}}`, retry, retry},
				{"a failure that may be retried", 500, doRetry, "", retry, retry},
				{"a failure that a retry does not change", 500, dontRetry, "", indeterminate, indeterminate},
				{"a conflict, whose meaning is not published", 409, "", `{"error":{"type":"idempotency_error"}}`, retry, retry},
				{"misuse, read with tolerance", 422, "", `{"error":{"type":"idempotency_error"}}`, misuse, misuse},
				{"a rate limit of Stripe's", 429, "", `{"error":{"type":"rate_limit"}}`, notExecuted, notExecuted},
				{"a refusal", 400, "", `{"error":{"type":"invalid_request","code":"x"}}`, final, indeterminate},
			}},
		},
	}
}
