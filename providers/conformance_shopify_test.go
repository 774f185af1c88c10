package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

func shopifyContract() contract {
	const (
		graphql = "POST https://example.myshopify.com/admin/api/2026-04/graphql.json\nContent-Type: application/json\n\n"

		refund   = graphql + `{"query":"mutation m($k: String!) { refundCreate(input: {orderId: \"gid://shopify/Order/1\"}) @idempotent(key: $k) { refund { id } userErrors { code message } } }","variables":{"k":"4f5b6ebf-143c-4da5-8d0f-fb8553bfd85d"}}`
		variable = graphql + `{"query":"mutation m($key: String!) { refundCreate(input: {}) @idempotent(key: $key) { refund { id } } }","variables":{"key":"4f5b6ebf-143c-4da5-8d0f-fb8553bfd85d"}}`
		keyless  = graphql + `{"query":"mutation { orderCancel(orderId: \"1\") { job { id } } }"}`
		mandate  = graphql + `{"query":"mutation m($k: String!) { orderCreateMandatePayment(id: \"1\", idempotencyKey: $k) { paymentReferenceId userErrors { code } } }","variables":{"k":"k"}}`
		rest     = "POST https://example.myshopify.com/admin/api/2026-04/orders.json"
	)
	var listed []string
	for _, mutation := range []string{
		"inventoryActivate",
		"inventoryAdjustQuantities",
		"inventoryMoveQuantities",
		"inventorySetOnHandQuantities",
		"inventorySetQuantities",
		"inventorySetScheduledChanges",
		"inventoryShipmentAddItems",
		"inventoryShipmentCreate",
		"inventoryShipmentCreateInTransit",
		"inventoryShipmentReceive",
		"inventoryTransferCreate",
		"inventoryTransferCreateAsReadyToShip",
		"inventoryTransferDuplicate",
		"inventoryTransferSetItems",
		"locationActivate",
		"locationDeactivate",
	} {
		listed = append(listed, graphql+`{"query":"mutation m($key: String!) { `+mutation+`(input: {}) @idempotent(key: $key) { userErrors { code } } }"}`)
	}
	userError := func(code string) string {
		return `{"data":{"refundCreate":{"refund":null,"userErrors":[{"code":"` + code + `","message":"…"}]}}}`
	}
	failure := func(code string) string {
		return `{"errors":[{"message":"…","extensions":{"code":"` + code + `"}}]}`
	}
	return contract{
		adapter: providers.Shopify(),
		terms: []terms{
			{
				requests:  append(listed, refund, variable),
				key:       "GraphQL argument @idempotent.key",
				retention: day, remembers: cleanFailures, guard: true, resent: true,
			},
			{
				requests: []string{
					mandate,
					graphql + `{"query":"mutation m($key: String!) { appUsageRecordCreate(subscriptionLineItemId: \"1\", idempotencyKey: $key) { userErrors { message } } }","variables":{"key":"k"}}`,
				},
				key: "GraphQL argument idempotencyKey", remembers: successes,
			},
			{
				requests: []string{graphql + `{"query":"mutation { subscriptionBillingAttemptCreate(subscriptionContractId: \"1\", subscriptionBillingAttemptInput: {idempotencyKey: \"k\"}) { userErrors { message } } }"}`},
				key:      "GraphQL argument subscriptionBillingAttemptInput.idempotencyKey", remembers: successes,
			},
			{requests: []string{
				keyless,
				graphql + `{"query":"mutation { appUsageRecordCreate(subscriptionLineItemId: \"1\") { userErrors { message } } }"}`,
				graphql + `{"query":"mutation { subscriptionBillingAttemptCreate(subscriptionContractId: \"1\", subscriptionBillingAttemptInput: {}) { userErrors { message } } }"}`,
				"POST https://example.myshopify.com/admin/api/graphql.json\nContent-Type: application/json\n\n" + keyless[len(graphql):],
				"POST https://example.myshopify.com/api/2026-04/graphql.json\nContent-Type: application/json\n\n" + `{"query":"mutation { cartCreate { cart { id } } }"}`,
				"POST https://example.myshopify.com/api/graphql.json\nContent-Type: application/json\n\n" + `{"query":"mutation { cartCreate { cart { id } } }"}`,
				graphql + `{"query":"mutation { orderCreate(order: {}) @idempotent(key: \"k\") { order { id } } }"}`,
				graphql + `{"query":"mutation { refundCreate(input: {}) @idempotent(key: \"k\") { refund { id } } orderCancel(orderId: \"1\") { job { id } } }"}`,
				graphql + `{"query":"mutation { refundCreate(input: {}) @idempotent(key: \"k\") { refund { id } } ...F } fragment F on Mutation { orderCancel(orderId: \"1\") { job { id } } }"}`,
				rest,
				"DELETE https://example.myshopify.com/admin/api/2026-04/products/1.json",
			}},
			{
				requests: []string{
					graphql + `{"query":"mutation { storefrontAccessTokenCreate(input: {title: \"x\"}) { storefrontAccessToken { accessToken } } }"}`,
					graphql + `{"query":"mutation { delegateAccessTokenCreate(input: {}) { delegateAccessToken { accessToken } } }"}`,
				},
				secret: true,
			},
		},
		noEffect: []string{
			graphql + `{"query":"query { shop { name } }"}`,
			graphql + `{"query":"{ shop { name } }"}`,
			"POST https://example.myshopify.com/admin/api/graphql.json\nContent-Type: application/json\n\n" + `{"query":"{ shop { name } }"}`,
			"POST https://example.myshopify.com/api/2026-04/graphql.json\nContent-Type: application/json\n\n" + `{"query":"{ shop { name } }"}`,
			"POST https://example.myshopify.com/api/graphql.json\nContent-Type: application/json\n\n" + `{"query":"{ shop { name } }"}`,
			"POST https://example.myshopify.com/admin/oauth/access_token",
		},
		sent: []sent{
			{
				refund,
				"POST /admin/api/2026-04/graphql.json HTTP/1.1\nHost: example.myshopify.com\nContent-Length: 221\nContent-Type: application/json\n\n" +
					`{"query":"mutation m($k: String!) { refundCreate(input: {orderId: \"gid://shopify/Order/1\"}) @idempotent(key: $k) { refund { id } userErrors { code message } } }","variables":{"k":"` + conformanceKey + `"}}`,
			},
			{
				variable,
				"POST /admin/api/2026-04/graphql.json HTTP/1.1\nHost: example.myshopify.com\nContent-Length: 165\nContent-Type: application/json\n\n" +
					`{"query":"mutation m($key: String!) { refundCreate(input: {}) @idempotent(key: $key) { refund { id } } }","variables":{"key":"` + conformanceKey + `"}}`,
			},
			{
				mandate,
				"POST /admin/api/2026-04/graphql.json HTTP/1.1\nHost: example.myshopify.com\nContent-Length: 196\nContent-Type: application/json\n\n" +
					`{"query":"mutation m($k: String!) { orderCreateMandatePayment(id: \"1\", idempotencyKey: $k) { paymentReferenceId userErrors { code } } }","variables":{"k":"` + conformanceKey + `"}}`,
			},
			{keyless, "POST /admin/api/2026-04/graphql.json HTTP/1.1\nHost: example.myshopify.com\nContent-Length: 67\nContent-Type: application/json\n\n" + keyless[len(graphql):]},
		},
		answers: []answers{
			{refund, refusedRows},
			{refund, passingRows},
			{refund, badInput[:2]},
			{refund, []row{
				{"a refund", 200, "", `{"data":{"refundCreate":{"refund":{"id":"1"},"userErrors":[]}},"extensions":{"cost":{}}}`, final, final},
				{"a field of the payload", 200, "", `{"data":{"m":{"deletedId":"1"}}}`, final, final},
				{"a field further down", 200, "", `{"data":{"m":{"group":{"app":{"id":"1"}}}}}`, final, final},
				{"a field of a list", 200, "", `{"data":{"m":{"levels":[{"id":"1"}]}}}`, final, final},
				{"a field of a list further down", 200, "", `{"data":{"m":{"group":{"changes":[{"delta":5}]}}}}`, final, final},
				{"in flight", 200, "", userError("IDEMPOTENCY_CONCURRENT_REQUEST"), inFlight, inFlight},
				{"another request", 200, "", userError("IDEMPOTENCY_KEY_PARAMETER_MISMATCH"), misuse, misuse},
				{"in flight, under another name for the field", 200, "", `{"data":{"r":{"userErrors":[{"code":"IDEMPOTENCY_CONCURRENT_REQUEST"}]}}}`, inFlight, inFlight},
				{"another user error", 200, "", userError("INVALID_QUANTITY"), final, indeterminate},
				{"a user error whose code was not asked for", 200, "", `{"data":{"refundCreate":{"refund":null,"userErrors":[{"message":"…"}]}}}`, final, indeterminate},
				{"an error that was not asked for", 200, "", `{"data":{"refundCreate":{"refund":null}}}`, indeterminate, indeterminate},
				{"throttled", 200, "", failure("THROTTLED"), notExecuted, notExecuted},
				{"throttled, with its cost", 200, "", `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":10,"actualQueryCost":null}}}`, notExecuted, notExecuted},
				{"throttled beside data", 200, "", `{"data":{"refundCreate":{"clientMutationId":"x"}},"errors":[{"message":"…","extensions":{"code":"THROTTLED"}}]}`, retry, retry},
				{"throttled, without data", 200, "", `{"data":null,"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}]}`, notExecuted, notExecuted},
				{"throttled beside the created object", 200, "", `{"data":{"refundCreate":{"refund":{"id":"1"},"userErrors":[]}},"errors":[{"message":"…","extensions":{"code":"THROTTLED"}}]}`, retry, retry},
				{"throttled beside a list", 200, "", `{"data":{"refundCreate":{"refunds":[{"id":"1"}]}},"errors":[{"extensions":{"code":"THROTTLED"}}]}`, retry, retry},
				{"throttled in a field whose payload is lost", 200, "", `{"data":{"refundCreate":null},"errors":[{"path":["refundCreate","refund"],"extensions":{"code":"THROTTLED"}}]}`, retry, retry},
				{"throttled beside data that is there twice", 200, "", `{"data":{"refundCreate":{"refund":{"id":"1"}}},"data":null,"errors":[{"extensions":{"code":"THROTTLED"}}]}`, retry, retry},
				{"throttled, and an internal error", 200, "", `{"errors":[{"extensions":{"code":"THROTTLED"}},{"extensions":{"code":"INTERNAL_SERVER_ERROR"}}]}`, retry, retry},
				{"throttled, and an error without a code", 200, "", `{"errors":[{"extensions":{"code":"THROTTLED"}},{"message":"…"}]}`, retry, retry},
				{"throttled twice", 200, "", `{"errors":[{"extensions":{"code":"THROTTLED"}},{"extensions":{"code":"THROTTLED"}}]}`, notExecuted, notExecuted},
				{"an internal error", 200, "", failure("INTERNAL_SERVER_ERROR"), retry, retry},
				{"access denied", 200, "", failure("ACCESS_DENIED"), final, indeterminate},
				{"an error that is new", 200, "", failure("SOMETHING_NEW"), indeterminate, indeterminate},
				{"a page", 200, "Content-Type: text/html", html, indeterminate, indeterminate},
				{"a refusal before GraphQL", 402, "", `{"errors":"Unavailable Shop"}`, final, indeterminate},
				{"503", 503, "", "", retry, retry},
			}},
			{rest, refusedRows},
			{rest, passingRows},
			{rest, []row{{"a refusal", 404, "", `{"errors":"Not Found"}`, final, indeterminate}}},
		},
	}
}

func TestShopifyServesTheShopsItIsGiven(t *testing.T) {
	p := providers.Shopify("one.myshopify.com", "two.myshopify.com")
	assert.Equal(t, []string{"one.myshopify.com", "two.myshopify.com"}, p.Hosts)
	assert.NoError(t, p.Validate())
}
