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
	)
	return contract{
		adapter: providers.Shopify(),
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
	}
}

func TestShopifyServesTheShopsItIsGiven(t *testing.T) {
	p := providers.Shopify("one.myshopify.com", "two.myshopify.com")
	assert.Equal(t, []string{"one.myshopify.com", "two.myshopify.com"}, p.Hosts)
	assert.NoError(t, p.Validate())
}
