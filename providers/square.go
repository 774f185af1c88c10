package providers

import (
	"slices"
	"time"
)

// Square describes Square's API, live and in its sandbox. The key travels in the
// field idempotency_key of the JSON body, with a length that differs from
// endpoint to endpoint. Where Square takes it as optional, it is always sent.
//
// Square does not publish for how long it keeps a key: say a retention that you
// have from Square, or 0, and then none is claimed. Nor does it publish which
// failures it stores, how it answers a second request while the first is worked
// on and whether keys belong to the seller or the application, so that, even
// with a retention, a request that may have run is not sent again. A program
// that knows better sets Remembers and InFlightGuard on the endpoints it knows
// of. A key that was used with another request is Misuse by the code
// IDEMPOTENCY_KEY_REUSED, whatever the status.
//
// Without a key: what Square's description doesn't give one; uploads
// (multipart/form-data), in which the caller's own key stays where it is; and
// the cancellation of a payment by its key (POST /v2/payments/cancel), whose
// idempotency_key names the payment. A 200 to that also says that there was no
// such payment, and doesn't say that none can still arrive.
//
// Searches, batch retrievals and OAuth tokens are passed through. Answers that
// hold the signature key of a webhook or a mobile authorization code are not
// kept.
func Square(retention time.Duration) Provider {
	p := Provider{
		Name:   "square",
		Hosts:  []string{"connect.squareup.com", "connect.squareupsandbox.com"},
		Source: sourceSquareIdempotency + "; hosts: square-go-sdk 3f484c5 environments.go [S]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: squareRules, Source: sourceSquareSpec + ": no key, or one that names another operation"},
				"/"),
			each(Endpoint{Rules: squareRules, SecretResponse: true, Source: sourceSquareSpec + ": no key; the answer holds a secret"},
				"POST /mobile/authorization-code",
				"PUT /v2/webhooks/subscriptions/{id}"),
			each(Endpoint{NoEffect: true, Source: sourceSquareSpec},
				squareReads...),
			each(squareKeyed(45, retention),
				"POST /v2/bookings/custom-attribute-definitions",
				"PUT /v2/bookings/custom-attribute-definitions/{key}",
				"PUT /v2/bookings/{id}/custom-attributes/{key}",
				"POST /v2/customers/custom-attribute-definitions",
				"PUT /v2/customers/custom-attribute-definitions/{key}",
				"POST /v2/customers/{id}/custom-attributes/{key}",
				"POST /v2/disputes/{id}/evidence-text",
				"POST /v2/locations/custom-attribute-definitions",
				"PUT /v2/locations/custom-attribute-definitions/{key}",
				"POST /v2/locations/{id}/custom-attributes/{key}",
				"POST /v2/merchants/custom-attribute-definitions",
				"PUT /v2/merchants/custom-attribute-definitions/{key}",
				"POST /v2/merchants/{id}/custom-attributes/{key}",
				"POST /v2/orders/custom-attribute-definitions",
				"PUT /v2/orders/custom-attribute-definitions/{key}",
				"POST /v2/orders/{id}/custom-attributes/{key}",
				"POST /v2/payments",
				"PUT /v2/payments/{id}",
				"POST /v2/team-members/jobs"),
			each(squareSecret(squareKeyed(45, retention)),
				"POST /v2/webhooks/subscriptions",
				"POST /v2/webhooks/subscriptions/{id}/signature-key"),
			each(squareKeyed(64, retention),
				"POST /v2/terminals/actions",
				"POST /v2/terminals/checkouts",
				"POST /v2/terminals/refunds"),
			each(squareKeyed(128, retention),
				"POST /v2/catalog/batch-upsert",
				"POST /v2/catalog/object",
				"POST /v2/devices/codes",
				"POST /v2/gift-cards",
				"POST /v2/gift-cards/activities",
				"POST /v2/inventory/batch-change",
				"POST /v2/inventory/changes/batch-create",
				"POST /v2/invoices",
				"PUT /v2/invoices/{id}",
				"POST /v2/invoices/{id}/publish",
				"POST /v2/labor/break-types",
				"POST /v2/labor/scheduled-shifts",
				"POST /v2/labor/scheduled-shifts/{id}/publish",
				"POST /v2/labor/shifts",
				"POST /v2/labor/timecards",
				"POST /v2/loyalty/accounts",
				"POST /v2/loyalty/accounts/{id}/accumulate",
				"POST /v2/loyalty/accounts/{id}/adjust",
				"POST /v2/loyalty/programs/{id}/promotions",
				"POST /v2/loyalty/rewards",
				"POST /v2/loyalty/rewards/{id}/redeem",
				"POST /v2/vendors/create",
				"PUT /v2/vendors/{id}"),
			each(squareKeyed(192, retention),
				"POST /v2/locations/{id}/checkouts",
				"POST /v2/online-checkout/payment-links",
				"POST /v2/orders",
				"PUT /v2/orders/{id}",
				"POST /v2/orders/{id}/pay"),
			each(squareKeyed(255, retention),
				"POST /v2/bookings",
				"PUT /v2/bookings/{id}",
				"POST /v2/bookings/{id}/cancel"),
			each(squareKeyed(0, retention),
				"POST /v2/cards",
				"POST /v2/customers",
				"POST /v2/customers/groups",
				"POST /v2/orders/clone",
				"POST /v2/refunds",
				"POST /v2/subscriptions",
				"POST /v2/team-members"),
		),
	}
	return *p.clone()
}

func squareKeyed(maxLength int, retention time.Duration) Endpoint {
	return Endpoint{
		Key:       Key{Place: KeyJSONField, Name: "idempotency_key", MaxLength: maxLength},
		Retention: retention,
		Remembers: Successes,
		Rules:     squareRules,
		Source:    sourceSquareIdempotency + "; length: " + sourceSquareSpec + "; retention: the caller's, none is published [C]; failures and guard: [?]",
	}
}

func squareSecret(e Endpoint) Endpoint {
	e.SecretResponse = true
	e.Source += "; signature_key: " + sourceSquareSpec
	return e
}

const (
	sourceSquareIdempotency = "developer.squareup.com/docs/working-with-apis/idempotency [D]"
	sourceSquareSpec        = "connect-api-specification 5733f66 api.json [D]"
)

// squareReads are requests that only read, and those for OAuth tokens.
var squareReads = []string{
	"POST /oauth2/token",
	"POST /oauth2/token/status",
	"POST /v2/bookings/availability/search",
	"POST /v2/bookings/bulk-retrieve",
	"POST /v2/bookings/team-member-booking-profiles/bulk-retrieve",
	"POST /v2/catalog/batch-retrieve",
	"POST /v2/catalog/search",
	"POST /v2/catalog/search-catalog-items",
	"POST /v2/customers/bulk-retrieve",
	"POST /v2/customers/search",
	"POST /v2/events",
	"POST /v2/gift-cards/from-gan",
	"POST /v2/gift-cards/from-nonce",
	"POST /v2/inventory/batch-retrieve-changes",
	"POST /v2/inventory/batch-retrieve-counts",
	"POST /v2/inventory/changes/batch-retrieve",
	"POST /v2/inventory/counts/batch-retrieve",
	"POST /v2/invoices/search",
	"POST /v2/labor/scheduled-shifts/search",
	"POST /v2/labor/shifts/search",
	"POST /v2/labor/timecards/search",
	"POST /v2/loyalty/accounts/search",
	"POST /v2/loyalty/events/search",
	"POST /v2/loyalty/programs/{id}/calculate",
	"POST /v2/loyalty/rewards/search",
	"POST /v2/orders/batch-retrieve",
	"POST /v2/orders/calculate",
	"POST /v2/orders/search",
	"POST /v2/subscriptions/search",
	"POST /v2/team-members/search",
	"POST /v2/terminals/actions/search",
	"POST /v2/terminals/checkouts/search",
	"POST /v2/terminals/refunds/search",
	"POST /v2/vendors/bulk-retrieve",
	"POST /v2/vendors/search",
}

var squareRules = slices.Concat(
	[]Rule{
		{Status: 400, Through: 499, Field: "errors[].code", Equals: "IDEMPOTENCY_KEY_REUSED", Verdict: Misuse, Source: sourceSquareIdempotency + ": the answer may vary by API; 400: developer forum [C]"},
		{Status: 409, Verdict: Indeterminate, Source: sourceSquareSpec + ": CONFLICT, which may or may not be a request of ours in flight [?]"},
	},
	refusals("errors[].code", sourceSquareSpec+": the error format; whether a decline is stored is not published [?]"),
)
