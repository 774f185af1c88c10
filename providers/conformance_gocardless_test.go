package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

const gocardlessConflict = `{"error":{"type":"invalid_state","code":409,"errors":[{"reason":"idempotent_creation_conflict","message":"x","links":{"conflicting_resource_id":"PM123"}}]}}`

func gocardlessContract() contract {
	const (
		host    = "https://api.gocardless.com"
		pay     = "POST " + host + "/payments"
		cancel  = "POST " + host + "/payments/PM123/actions/cancel"
		failure = `{"error":{"type":"validation_failed","code":422,"errors":[{"field":"amount","message":"x"}]}}`

		nothingNamed = `{"error":{"type":"invalid_state","code":409,"errors":[{"reason":"idempotent_creation_conflict"}]}}`
		otherState   = `{"error":{"type":"invalid_state","code":409,"errors":[{"reason":"bank_account_exists","links":{"customer_bank_account":"BA1"}}]}}`
	)
	limited := row{"a rate limit of GoCardless's", 429, "", `{"error":{"type":"invalid_api_usage","code":429,"errors":[{"reason":"rate_limit_exceeded"}]}}`, notExecuted, notExecuted}
	return contract{
		adapter: providers.GoCardless(),
		terms: []terms{
			{
				requests: []string{
					pay,
					"POST https://api-sandbox.gocardless.com/subscriptions",
					"POST " + host + "/refunds",
					"POST " + host + "/billing_requests/create_with_actions",
					"POST " + host + "/blocks/block_by_ref",
					"POST " + host + "/branding/logos",
					"POST " + host + "/branding/payer_themes",
					"POST " + host + "/outbound_payments/withdrawal",
				},
				key: "raw header Idempotency-Key", refuses: []string{`"` + conformanceKey + `"`},
				remembers: cleanFailures, guard: true,
			},
			{requests: []string{cancel}, key: "raw header Idempotency-Key"},
			{requests: []string{"PUT " + host + "/customers/CU1", "DELETE " + host + "/customers/CU1"}},
		},
		noEffect: []string{"POST " + host + "/bank_details_lookups"},
		sent: []sent{{
			pay + "\nContent-Type: application/json\n\n{\"payments\":{\"amount\":100}}",
			"POST /payments HTTP/1.1\nHost: api.gocardless.com\nContent-Length: 27\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"payments\":{\"amount\":100}}",
		}},
		answers: []answers{
			{pay, refusalRows(failure)},
			{pay, []row{
				{"it was created before", 409, "Content-Type: application/json", gocardlessConflict, alreadyDone, alreadyDone},
				{"it was created before, and is not named", 409, "", nothingNamed, indeterminate, indeterminate},
				{"another conflict, which may be one in flight", 409, "", otherState, indeterminate, indeterminate},
				{"a conflict without a body", 409, "", "", indeterminate, indeterminate},
				limited,
			}},
			{cancel, refusalRows(failure)},
			{cancel, []row{{"a conflict that belongs to creations", 409, "", gocardlessConflict, final, indeterminate}, limited}},
		},
		ownKey: []answers{
			{pay, ownKeyRows(otherState)},
			{pay, []row{
				{"it was created before, and is not named", 409, "", nothingNamed, indeterminate, indeterminate},
				{"it was created before", 409, "", gocardlessConflict, alreadyDone, alreadyDone},
			}},
		},
	}
}

func TestGoCardlessNamesTheExistingResource(t *testing.T) {
	for _, tc := range []struct {
		url   string
		fetch bool
	}{
		{"https://api.gocardless.com/payments", true},
		{"https://api.gocardless.com/branding/logos", false},
	} {
		rt := route(t, newRouter(t, providers.GoCardless()), "POST", tc.url)
		j := rt.Classify(tables.Answer{Status: 409, Body: []byte(gocardlessConflict)})
		assert.Equal(t, "PM123", j.Pointer)
		assert.True(t, j.Earlier, "it proves an earlier attempt")
		assert.Equal(t, tc.fetch, rt.Endpoint.FetchPointer, tc.url)
	}
}
