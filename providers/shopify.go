package providers

import (
	"slices"
	"time"
)

// Shopify describes Shopify's GraphQL Admin API on the given shops' hosts ("example.myshopify.com"), or on
// every *.myshopify.com if none is given.
//
// The 17 mutations on Shopify's list, refundCreate and those of the inventory, take a key in the directive
// @idempotent(key: $key). The client refuses a literal key, because it sets the variable. From 2026-04 on Shopify
// refuses the mutations without a key. The directive is never added. These requests take no key, and are not sent again
// once they may have run:
//
//   - a listed mutation without the directive;
//   - a mutation that Shopify does not list, with or without the directive, because nothing is promised;
//   - several mutations in one document;
//   - the REST API, legacy since October 2024, with its unique_token. A header Idempotency-Key, which some articles show for REST,
//     is not Shopify's.
//
// Three mutations that charge have an argument or field idempotencyKey of their own: orderCreateMandatePayment,
// appUsageRecordCreate and subscriptionBillingAttemptCreate. If the document has the field, the field is the key, and
// prevents a second charge. Its retention is not published, so they are not sent again either.
//
// A throttled request was not executed, because Shopify checks the cost of a query against the bucket first. That
// holds if the answer has no data and every error is THROTTLED. The Storefront API has no key.
//
// Keys are kept for 24 hours, as integrators quote Shopify. A mutation is executed once, however often it is
// sent, and a repeat is answered from the current state. Early in 2026, before the directive was mandatory,
// an integrator saw executed repeats. To be safe from that, set Retention to 0 on these endpoints. The scope
// of keys is not published, so an operation whose credential changed is not sent again.
//
// Errors are user errors in a 200. Their code shows whether a key is in use, or was used with other parameters. A
// document must therefore request userErrors { code } and a field of the created object. An answer that shows neither
// data nor an error is Indeterminate. Any other user error is the operation's answer on a first attempt. Shopify does
// not publish whether the error is remembered, so the error proves nothing on a later attempt.
func Shopify(shops ...string) Provider {
	if len(shops) == 0 {
		shops = []string{"*.myshopify.com"}
	}
	const path = "POST /admin/api/{version}/graphql.json"
	p := Provider{
		Name:    "shopify",
		Hosts:   shops,
		Answers: jsonAnswers,
		Endpoints: []Endpoint{
			{
				Pattern:  "POST /admin/oauth/access_token",
				NoEffect: true,
				Source:   "shopify.dev/docs/apps/build/authentication-authorization [D]: the OAuth token endpoint",
			},
			{
				Pattern: "/",
				Rules:   refusals("errors", sourceShopify+": the REST API takes no key in a header"),
				Source:  sourceShopify + "; shopify.dev/docs/api/admin-rest/usage/idempotent-requests [D]: unique_token, on some requests of a legacy API",
			},
		},
		CredentialScoped: true,
		Source:           sourceShopify + "; host: its examples; scope of keys: [?]",
	}
	for _, path := range []string{path, "POST /admin/api/graphql.json", "POST /api/{version}/graphql.json", "POST /api/graphql.json"} {
		p.Endpoints = append(p.Endpoints,
			Endpoint{
				Pattern:  path,
				Action:   Action{Place: ActionGraphQL, Value: "query"},
				NoEffect: true,
				Source:   "GraphQL specification of October 2021, section 2.3 [D]: a query is a read-only fetch",
			},
			Endpoint{
				Pattern: path,
				Rules:   shopifyRules,
				Source:  sourceShopifyList + ": not listed; paths without a version, and the Storefront's: [M]",
			},
		)
	}
	for _, charge := range []struct{ mutation, key, source string }{
		{"orderCreateMandatePayment", "idempotencyKey", "shopify.dev/docs/api/admin-graphql/latest/mutations/orderCreateMandatePayment [D]: subsequent calls with the same key return the original result"},
		{"appUsageRecordCreate", "idempotencyKey", "shopify.dev/changelog/idempotent-creation-of-appusagerecord [D]: the merchant will not be charged twice"},
		{"subscriptionBillingAttemptCreate", "subscriptionBillingAttemptInput.idempotencyKey", "shopify.dev/docs/api/admin-graphql/latest/mutations/subscriptionBillingAttemptCreate [D]: a unique key to avoid duplicate charges"},
	} {
		p.Endpoints = append(p.Endpoints, Endpoint{
			Pattern:   path,
			Action:    Action{Place: ActionGraphQL, Value: "mutation " + charge.mutation},
			Key:       Key{Place: KeyGraphQL, Name: charge.key, OnlyIfThere: true},
			Remembers: Successes,
			Rules:     shopifyRules,
			Source:    charge.source + "; retention, failures and guard: [?]",
		})
	}
	for _, mutation := range []string{"delegateAccessTokenCreate", "storefrontAccessTokenCreate"} {
		p.Endpoints = append(p.Endpoints, Endpoint{
			Pattern:        path,
			Action:         Action{Place: ActionGraphQL, Value: "mutation " + mutation},
			SecretResponse: true,
			Rules:          shopifyRules,
			Source:         "shopify.dev/docs/api/admin-graphql/latest/mutations/" + mutation + " [D]: the answer is a token; no key",
		})
	}
	for _, mutation := range shopifyIdempotent {
		p.Endpoints = append(p.Endpoints, Endpoint{
			Pattern:       path,
			Action:        Action{Place: ActionGraphQL, Value: "mutation " + mutation},
			Key:           Key{Place: KeyGraphQL, Name: "@idempotent.key"},
			Retention:     24 * time.Hour,
			Remembers:     SuccessesCleanFailures,
			InFlightGuard: true,
			Rules:         shopifyRules,
			Source:        sourceShopifyList + "; executed once, however often it is sent: " + sourceShopify + "; 24 hours: [C]",
		})
	}
	return p.Clone()
}

// shopifyIdempotent are the mutations that support the directive @idempotent.
var shopifyIdempotent = []string{
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
	"refundCreate",
}

const (
	sourceShopifyList   = "shopify.dev/changelog/making-idempotency-mandatory-for-inventory-adjustments-and-refund-mutations [D]"
	sourceShopify       = "shopify.dev/docs/api/usage/idempotent-requests [D]"
	sourceShopifyErrors = "shopify.dev/docs/api/usage/implementing-idempotency [D]"
	sourceShopifyStatus = "shopify.dev/docs/api/admin-graphql#status-and-error-codes [D]"
	shopifyUserErrors   = "data.*.userErrors[].code"
	shopifyErrorCode    = "errors[].extensions.code"
)

var shopifyRules = slices.Concat(
	[]Rule{
		{Status: 200, Field: shopifyUserErrors, Equals: "IDEMPOTENCY_CONCURRENT_REQUEST", Verdict: InFlight, Source: sourceShopifyErrors},
		{Status: 200, Field: shopifyUserErrors, Equals: "IDEMPOTENCY_KEY_PARAMETER_MISMATCH", Verdict: Misuse, Source: sourceShopifyErrors},
		{Status: 200, Field: shopifyUserErrors, On: FirstAttempt, Verdict: Final, Source: sourceShopifyErrors + ": any other user error"},
		{Status: 200, Field: "data.*.userErrors[].message", On: FirstAttempt, Verdict: Final, Source: sourceShopifyErrors + ": a user error without a code"},
		{Status: 200, Field: shopifyUserErrors, On: LaterAttempt, Verdict: Indeterminate, Source: sourceShopifyErrors + ": whether a refusal is remembered is not said [?]"},
		{Status: 200, Field: "data.*.userErrors[].message", On: LaterAttempt, Verdict: Indeterminate, Source: sourceShopifyErrors + ": the code, which would tell, was not asked for"},
		{Status: 200, Field: shopifyErrorCode, Equals: "THROTTLED", Without: "data", Verdict: NotExecuted, Source: "shopify.dev/docs/api/usage/rate-limits [D]: before execution begins the bucket has to have room for the requested cost; code: " + sourceShopifyStatus + "; GraphQL specification of October 2021, section 7.1.1 [D]: no data if execution did not begin"},
		{Status: 200, Field: shopifyErrorCode, Equals: "THROTTLED", Verdict: Retry, Source: sourceShopifyStatus + ", beside data or another error"},
		{Status: 200, Field: shopifyErrorCode, Equals: "INTERNAL_SERVER_ERROR", Verdict: Retry, Source: sourceShopifyStatus},
		{Status: 200, Field: shopifyErrorCode, Equals: "ACCESS_DENIED", On: FirstAttempt, Verdict: Final, Source: sourceShopifyStatus},
		{Status: 200, Field: "errors[].message", Verdict: Indeterminate, Source: sourceShopifyStatus + ": an error; nothing else is known of it"},
	},
	shopifyData,
	[]Rule{
		{Status: 200, Through: 299, Verdict: Indeterminate, Source: sourceShopifyErrors + ": neither data nor an error is to be seen"},
	},
	refusals("errors", sourceShopifyStatus),
)

// shopifyData matches an answer with data: a field in the created object, or in the payload.
var shopifyData = func() (rules []Rule) {
	for _, field := range []string{"data.*.*", "data.*.*.*", "data.*.*.*.*", "data.*.*[].*", "data.*.*.*[].*"} {
		rules = append(rules, Rule{Status: 200, Field: field, Verdict: Final, Source: sourceShopify + ": the result"})
	}
	return rules
}()
