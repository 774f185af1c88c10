package providers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

func squareContract() contract {
	const (
		pay      = "POST https://connect.squareup.com/v2/payments"
		complete = "POST https://connect.squareup.com/v2/payments/1/complete"
		failure  = `{"errors":[{"category":"PAYMENT_METHOD_ERROR","code":"CARD_DECLINED","detail":"x"}]}`
	)
	key := func(max int, requests string) terms {
		return terms{requests: squareRequests(requests), key: "JSON field idempotency_key", max: max, retention: day, remembers: lostAnswers}
	}
	secret := key(45, `
			POST /v2/webhooks/subscriptions
			POST /v2/webhooks/subscriptions/1/signature-key`)
	secret.secret = true
	transfers := key(0, `
			POST /v2/transfer-orders
			PUT /v2/transfer-orders/1
			POST /v2/transfer-orders/1/cancel
			POST /v2/transfer-orders/1/receive
			POST /v2/transfer-orders/1/start`)
	transfers.refuses = []string{"order/991"}
	return contract{
		adapter: providers.Square(day),
		terms: []terms{
			// As the API's description has them: connect-api-specification 5733f66.
			key(45, `
			POST /v2/bookings/custom-attribute-definitions
			PUT /v2/bookings/custom-attribute-definitions/1
			PUT /v2/bookings/1/custom-attributes/1
			POST /v2/customers/custom-attribute-definitions
			PUT /v2/customers/custom-attribute-definitions/1
			POST /v2/customers/1/custom-attributes/1
			POST /v2/disputes/1/evidence-text
			POST /v2/locations/custom-attribute-definitions
			PUT /v2/locations/custom-attribute-definitions/1
			POST /v2/locations/1/custom-attributes/1
			POST /v2/merchants/custom-attribute-definitions
			PUT /v2/merchants/custom-attribute-definitions/1
			POST /v2/merchants/1/custom-attributes/1
			POST /v2/orders/custom-attribute-definitions
			PUT /v2/orders/custom-attribute-definitions/1
			POST /v2/orders/1/custom-attributes/1
			POST /v2/payments
			PUT /v2/payments/1
			POST /v2/team-members/jobs
			POST /v2/cards
			POST /v2/refunds`),
			key(64, `
			POST /v2/terminals/actions
			POST /v2/terminals/checkouts
			POST /v2/terminals/refunds`),
			key(128, `
			POST /v2/catalog/batch-upsert
			POST /v2/catalog/object
			POST /v2/devices/codes
			POST /v2/gift-cards
			POST /v2/gift-cards/activities
			POST /v2/inventory/batch-change
			POST /v2/inventory/changes/batch-create
			POST /v2/invoices
			PUT /v2/invoices/1
			POST /v2/invoices/1/publish
			POST /v2/labor/break-types
			POST /v2/labor/scheduled-shifts
			POST /v2/labor/scheduled-shifts/1/publish
			POST /v2/labor/shifts
			POST /v2/labor/timecards
			POST /v2/loyalty/accounts
			POST /v2/loyalty/accounts/1/accumulate
			POST /v2/loyalty/accounts/1/adjust
			POST /v2/loyalty/programs/1/promotions
			POST /v2/loyalty/rewards
			POST /v2/loyalty/rewards/1/redeem
			POST /v2/vendors/create
			PUT /v2/vendors/1`),
			key(192, `
			POST /v2/locations/1/checkouts
			POST /v2/online-checkout/payment-links
			POST /v2/orders
			PUT /v2/orders/1
			POST /v2/orders/1/pay`),
			key(255, `
			POST /v2/bookings
			PUT /v2/bookings/1
			POST /v2/bookings/1/cancel`),
			key(0, `
			POST /v2/bank-accounts
			POST /v2/customers
			POST /v2/customers/groups
			POST /v2/orders/clone
			POST /v2/subscriptions
			POST /v2/team-members`),
			transfers,
			secret,
			{requests: append(squareRequests(`
				POST /v2/payments/cancel
				POST /v2/payments/1/complete
				POST /v2/payments/1/cancel
				POST /v2/catalog/images
				POST /v2/disputes/1/evidence-files
				POST /oauth2/revoke
				DELETE /v2/customers/1`), "POST https://connect.squareupsandbox.com/v2/payments/1/complete")},
			{
				requests: squareRequests(`
				POST /mobile/authorization-code
				PUT /v2/webhooks/subscriptions/1`),
				secret: true,
			},
		},
		noEffect: squareRequests(`
			POST /oauth2/token
			POST /oauth2/token/status
			POST /v2/bookings/availability/search
			POST /v2/bookings/bulk-retrieve
			POST /v2/bookings/team-member-booking-profiles/bulk-retrieve
			POST /v2/catalog/batch-retrieve
			POST /v2/catalog/search
			POST /v2/catalog/search-catalog-items
			POST /v2/channels/bulk-retrieve
			POST /v2/customers/bulk-retrieve
			POST /v2/customers/search
			POST /v2/events
			POST /v2/gift-cards/from-gan
			POST /v2/gift-cards/from-nonce
			POST /v2/inventory/batch-retrieve-changes
			POST /v2/inventory/batch-retrieve-counts
			POST /v2/inventory/changes/batch-retrieve
			POST /v2/inventory/counts/batch-retrieve
			POST /v2/invoices/search
			POST /v2/labor/scheduled-shifts/search
			POST /v2/labor/shifts/search
			POST /v2/labor/timecards/search
			POST /v2/loyalty/accounts/search
			POST /v2/loyalty/events/search
			POST /v2/loyalty/programs/1/calculate
			POST /v2/loyalty/rewards/search
			POST /v2/orders/batch-retrieve
			POST /v2/orders/calculate
			POST /v2/orders/search
			POST /v2/subscriptions/search
			POST /v2/team-members/search
			POST /v2/terminals/actions/search
			POST /v2/terminals/checkouts/search
			POST /v2/terminals/refunds/search
			POST /v2/transfer-orders/search
			POST /v2/vendors/bulk-retrieve
			POST /v2/vendors/search`),
		unfit: []string{
			pay + "\nContent-Type: application/json",
			pay + "\nContent-Type: application/json\n\n[{\"amount_money\":{}}]",
			pay + "\nContent-Type: application/json\n\n{\"amount_money\":{}",
			pay + "\nContent-Type: application/json\nContent-Encoding: gzip\n\n{}",
			pay + "\nContent-Type: application/json\n\n{\"idempotency_key\":\"a\",\"idempotency_key\":\"b\"}",
			pay + "\nContent-Type: application/json\n\n{\"idempotency_key\":1}",
		},
		sent: []sent{
			{
				pay + "\nContent-Type: application/json\n\n{\"amount_money\":{\"amount\":100}}",
				"POST /v2/payments HTTP/1.1\nHost: connect.squareup.com\nContent-Length: 88\nContent-Type: application/json\n\n{\"idempotency_key\":\"" + conformanceKey + "\",\"amount_money\":{\"amount\":100}}",
			},
			{
				pay + "\nContent-Type: application/json\n\n{\"amount_money\": {\"amount\": 100.00}, \"idempotency_key\": \"of an SDK\"}",
				"POST /v2/payments HTTP/1.1\nHost: connect.squareup.com\nContent-Length: 95\nContent-Type: application/json\n\n{\"amount_money\": {\"amount\": 100.00}, \"idempotency_key\": \"" + conformanceKey + "\"}",
			},
			{
				"POST https://connect.squareup.com/v2/payments/cancel\nContent-Type: application/json\n\n{\"idempotency_key\":\"of the payment\"}",
				"POST /v2/payments/cancel HTTP/1.1\nHost: connect.squareup.com\nContent-Length: 36\nContent-Type: application/json\n\n{\"idempotency_key\":\"of the payment\"}",
			},
		},
		answers: []answers{
			{pay, refusalRows(failure)},
			{pay, []row{
				{"another request under the key", 400, "", `{"errors":[{"category":"INVALID_REQUEST_ERROR","code":"IDEMPOTENCY_KEY_REUSED","field":"idempotency_key"}]}`, misuse, misuse},
				{"another request under the key, by another status", 409, "", `{"errors":[{"code":"IDEMPOTENCY_KEY_REUSED"}]}`, misuse, misuse},
				{"a conflict", 409, "", `{"errors":[{"code":"CONFLICT"}]}`, indeterminate, indeterminate},
				{"a decline", 402, "", failure, final, indeterminate},
				{"a rate limit of Square's", 429, "", `{"errors":[{"category":"RATE_LIMIT_ERROR","code":"RATE_LIMITED"}]}`, notExecuted, notExecuted},
				{"a temporary error, which is for a repeat", 400, "", `{"errors":[{"category":"PAYMENT_METHOD_ERROR","code":"TEMPORARY_ERROR"}]}`, retry, retry},
				{"an error of the API itself behind a refusal", 400, "", `{"errors":[{"category":"INVALID_REQUEST_ERROR","code":"BAD_REQUEST"},{"category":"API_ERROR","code":"GATEWAY_TIMEOUT"}]}`, indeterminate, indeterminate},
				{"a timeout of Square's", 504, "", `{"errors":[{"category":"API_ERROR","code":"GATEWAY_TIMEOUT"}]}`, retry, retry},
			}},
			{complete, refusalRows(failure)},
			{complete, []row{
				{"a conflict, if no key can be in flight", 409, "", `{"errors":[{"code":"CONFLICT"}]}`, final, indeterminate},
				{"a rate limit of Square's", 429, "", `{"errors":[{"category":"RATE_LIMIT_ERROR","code":"RATE_LIMITED"}]}`, notExecuted, notExecuted},
				{"a temporary error", 400, "", `{"errors":[{"category":"PAYMENT_METHOD_ERROR","code":"TEMPORARY_ERROR"}]}`, retry, retry},
				{"an error of the API itself", 400, "", `{"errors":[{"category":"API_ERROR","code":"GATEWAY_TIMEOUT"}]}`, indeterminate, indeterminate},
			}},
		},
		ownKey: []answers{{pay, ownKeyRows(`{"errors":[{"code":"CONFLICT"}]}`)}},
	}
}

// squareRequests are request lines on Square's live host.
func squareRequests(lines string) (requests []string) {
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		method, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		requests = append(requests, method+" https://connect.squareup.com"+path)
	}
	return requests
}

func TestSquareWithoutARetentionClaimsNone(t *testing.T) {
	router := newRouter(t, providers.Square(0))
	rt := route(t, router, http.MethodPost, "https://connect.squareup.com/v2/payments")
	assert.Zero(t, rt.Endpoint.Retention)
	assert.Equal(t, providers.KeyJSONField, rt.Endpoint.Key.Place)
}
