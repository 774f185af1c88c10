package providers

import (
	"slices"
	"time"
)

// Square describes Square's API, live and sandbox. The key goes into the field idempotency_key of the JSON body, with a
// length that differs between endpoints. A key that is optional at Square is always sent.
//
// Square does not publish the retention of keys. Its staff said so of CreatePayment in October 2026. Pass a retention
// that Square gave you, or 0 for none. Square says that a request without an answer may be made again with the key.
// Square does not say which failures are stored, nor how a second request during the first is answered. Even with a
// retention, a request that may have run is therefore not sent again. If you know more, set InFlightGuard, and
// Remembers if failures are clean, on those endpoints.
//
// It is not published whether keys belong to the seller or the application, and the seller belongs to the
// token. Nothing is sent again once the token changed. A service with tokens that rotate sets CredentialScoped to
// false, gives each seller an account label, and lets the token read the merchant (Identity). A key that was used with another request is Misuse by the
// code IDEMPOTENCY_KEY_REUSED, whatever the status.
//
// Look-ups find a payment by the reference_id and amount among the location's, a refund by the payment and amount, and
// a card by the reference_id. New payments and refunds may take several seconds to be listed. Events show the reference
// of payments, but not their keys.
//
// These requests have no key:
//
//   - requests for which Square's description has none;
//   - uploads (multipart/form-data), in which the caller's own key stays unchanged;
//   - POST /v2/payments/cancel, whose idempotency_key names the payment to cancel. The 200 also means that no such
//     payment existed, and a payment may still arrive later.
//
// A rate limit of Square's own is recognised by its code, and was not executed. An error from Square's API may stand
// behind the first among several errors in a 4xx, and then nothing is proven. TEMPORARY_ERROR, with any status, is for
// a repeat.
//
// Searches, batch retrievals and OAuth tokens pass through. Answers with the signature key of a webhook or a
// mobile authorization code are not kept.
func Square(retention time.Duration) Provider {
	return Provider{
		Name:             "square",
		SecretSource:     sourceSquareSpec + ": none, since a card is named by a token (source_id); our reading: no other field is secret",
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Identity: Identity{
			Path: "/v2/merchants/me", Field: "merchant.id", Needs: "MERCHANT_PROFILE_READ",
			Source: sourceSquareSpec + " RetrieveMerchant",
		},
		WebhookSchemes: []string{"square"},
		Events:         squareEvents,
		Feed:           squareFeed,
		Hosts:          []string{"connect.squareup.com", "connect.squareupsandbox.com"},
		Source:         sourceSquareIdempotency + "; hosts: square-go-sdk 3f484c5 environments.go [S]; owner of the keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: squareKeyless, Source: sourceSquareSpec + ": no key, or one that names another operation"},
				"/"),
			each(Endpoint{Rules: squareKeyless, SecretResponse: true, Source: sourceSquareSpec + ": no key; the answer holds a secret"},
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
				"PUT /v2/payments/{id}",
				"POST /v2/team-members/jobs"),
			each(squareFound(retention, "payment", squarePaymentReference, squarePayments, squareMainPayments),
				"POST /v2/payments"),
			each(squareFound(retention, "card", squareCardReference, squareCards),
				"POST /v2/cards"),
			each(squareFound(retention, "refund", Reference{}, squareRefunds),
				"POST /v2/refunds"),
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
				"POST /v2/bank-accounts",
				"POST /v2/customers",
				"POST /v2/customers/groups",
				"POST /v2/orders/clone",
				"POST /v2/subscriptions",
				"POST /v2/team-members"),
			each(squareTransferOrders(retention),
				"POST /v2/transfer-orders",
				"PUT /v2/transfer-orders/{id}",
				"POST /v2/transfer-orders/{id}/cancel",
				"POST /v2/transfer-orders/{id}/receive",
				"POST /v2/transfer-orders/{id}/start"),
		),
	}.Clone()
}

func squareKeyed(maxLength int, retention time.Duration) Endpoint {
	return Endpoint{
		Key:       Key{Place: KeyJSONField, Name: "idempotency_key", MaxLength: maxLength},
		Retention: retention,
		Remembers: SuccessesLostAnswers,
		Rules:     squareRules,
		Source:    sourceSquareIdempotency + ": after a connection that failed the same request doesn't take the payment again; length: " + sourceSquareSpec + "; retention: the caller's, none is published: staff, developer forum 28303 and 28309, 2026-10-22 [C]; failures and guard: [?]",
	}
}

// squareFound are requests whose objects are found by reading, with keys of 45 characters.
func squareFound(retention time.Duration, object string, reference Reference, lookups ...Lookup) Endpoint {
	e := squareKeyed(45, retention)
	e.Object, e.ObjectID, e.Reference, e.Lookups = object, object+".id", reference, lookups
	return e
}

var (
	squarePaymentReference = Reference{
		Place: KeyJSONField, Name: "reference_id", MaxLength: 40, Visible: true,
		Source: sourceSquareSpec + " CreatePaymentRequest; a payment's is read only; visibility: [?]",
	}
	squareCardReference = Reference{
		Place: KeyJSONField, Name: "card.reference_id", MaxLength: 128, Visible: true,
		Source: sourceSquareSpec + " Card; visibility: [?]",
	}

	// Payments are listed of one location, the main one if none is named, as they are
	// made.
	squarePayments     = squareScan("payment", "location_id={request.location_id}&", squarePaymentSame, squarePaymentMeans)
	squareMainPayments = squareScan("payment", "", squarePaymentSame, squarePaymentMeans)

	squarePaymentSame = []Same{
		{Field: "reference_id", Is: "{reference}"},
		{Field: "amount_money.amount", Is: "{request.amount_money.amount}", As: AsDecimal},
		{Field: "amount_money.currency", Is: "{request.amount_money.currency}"},
	}
	squarePaymentMeans = states("payment.status", TookEffect.of("APPROVED", "PENDING", "COMPLETED"), Refused.of("FAILED"), Reversed.of("CANCELED"))

	// A refund has no reference, but names the payment. Those of all locations are listed.
	squareRefunds = squareScan("refund", "",
		[]Same{
			{Field: "payment_id", Is: "{request.payment_id}"},
			{Field: "amount_money.amount", Is: "{request.amount_money.amount}", As: AsDecimal},
			{Field: "amount_money.currency", Is: "{request.amount_money.currency}"},
		},
		states("refund.status", TookEffect.of("PENDING", "COMPLETED"), Refused.of("REJECTED", "FAILED")),
	)

	squareCards = Lookup{
		By:    ByReference,
		Path:  "/v2/cards",
		Query: "reference_id={reference}&include_disabled=true",
		Items: "cards[]",
		Same: []Same{
			{Field: "reference_id", Is: "{reference}"},
			{Field: "customer_id", Is: "{request.card.customer_id}"},
		},
		ID:        "id",
		Created:   "created_at",
		Next:      Paging{Style: PageCursor, Param: "cursor", Cursor: "cursor"},
		Means:     states("card.enabled", TookEffect.of("true"), Reversed.of("false")),
		Fetch:     "/v2/cards/{id}",
		SameShape: true,
		Source:    sourceSquareSpec + " ListCards, RetrieveCard; created_at: square-go-sdk 3f484c5 types.go [S]",
	}
)

// squareScan reads the objects created in the window. They appear "several seconds" late.
func squareScan(object, query string, same []Same, means []Meaning) Lookup {
	by := ByReference
	if object == "refund" {
		by = ByParent
	}
	return Lookup{
		By:         by,
		Path:       "/v2/" + object + "s",
		Query:      query + "begin_time={since}&end_time={until}&limit=100",
		TimeLayout: "rfc3339",
		Items:      object + "s[]",
		Same:       same,
		ID:         "id",
		Created:    "created_at",
		Next:       Paging{Style: PageCursor, Param: "cursor", Cursor: "cursor"},
		Means:      means,
		Fetch:      "/v2/" + object + "s/{id}",
		SameShape:  true,
		Needs:      "PAYMENTS_READ",
		Source:     sourceSquareSpec + ": lists and retrieves " + object + "s; results are eventually consistent, new ones might take several seconds to appear",
	}
}

// squareEvents show a payment's reference, but not its key. A refund has no reference, so its events settle
// known refunds only.
var squareEvents = slices.Concat(
	kinds(about(squarePaymentEvent, Same{Field: "data.object.payment.status", Is: "FAILED"}), Refused, "payment.created", "payment.updated"),
	kinds(about(squarePaymentEvent, Same{Field: "data.object.payment.status", Is: "CANCELED"}), Reversed, "payment.updated"),
	kinds(squarePaymentEvent, TookEffect, "payment.created"),
	kinds(about(squarePaymentEvent, Same{Field: "data.object.payment.status", Is: "COMPLETED"}), TookEffect, "payment.updated"),
	kinds(about(squareRefundEvent, Same{Field: "data.object.refund.status", Is: "REJECTED"}), Refused, "refund.updated"),
	kinds(about(squareRefundEvent, Same{Field: "data.object.refund.status", Is: "FAILED"}), Refused, "refund.updated"),
)

var (
	squarePaymentEvent = EventRule{
		Field:     "type",
		Endpoint:  "POST /v2/payments",
		Reference: "data.object.payment.reference_id",
		ID:        "event_id",
		Object:    "data.object.payment.id",
		Created:   "data.object.payment.created_at",
		At:        "created_at",
		Account:   "merchant_id",
		Also: []Same{
			{Field: "data.object.payment.amount_money.amount", Is: "{request.amount_money.amount}", As: AsDecimal},
			{Field: "data.object.payment.amount_money.currency", Is: "{request.amount_money.currency}"},
		},
		Source: sourceSquareSpec + " PaymentCreatedEvent, PaymentUpdatedEvent",
	}
	squareRefundEvent = EventRule{
		Field:    "type",
		Endpoint: "POST /v2/refunds",
		ID:       "event_id",
		Object:   "data.object.refund.id",
		Created:  "data.object.refund.created_at",
		At:       "created_at",
		Account:  "merchant_id",
		Source:   sourceSquareSpec + " RefundUpdatedEvent",
	}
)

// squareTransferOrders are newer than the description of the API.
func squareTransferOrders(retention time.Duration) Endpoint {
	e := squareKeyed(0, retention)
	e.Key.Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	e.Source += "; transfer orders: square-go-sdk 3f484c5 transfer_orders.go [S]"
	return e
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

// squareReads are requests that only read, and the requests for OAuth tokens.
var squareReads = []string{
	"POST /oauth2/token",
	"POST /oauth2/token/status",
	"POST /v2/bookings/availability/search",
	"POST /v2/bookings/bulk-retrieve",
	"POST /v2/bookings/team-member-booking-profiles/bulk-retrieve",
	"POST /v2/catalog/batch-retrieve",
	"POST /v2/catalog/search",
	"POST /v2/catalog/search-catalog-items",
	"POST /v2/channels/bulk-retrieve",
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
	"POST /v2/transfer-orders/search",
	"POST /v2/vendors/bulk-retrieve",
	"POST /v2/vendors/search",
}

var (
	squareRules = slices.Concat(
		[]Rule{
			{Status: 400, Through: 499, Field: "errors[].code", Equals: "IDEMPOTENCY_KEY_REUSED", Verdict: Misuse, Source: sourceSquareIdempotency + ": the answer may vary by API; 400: developer forum [C]"},
		},
		squareErrors,
		conflicts("errors[].code", sourceSquareSpec+": CONFLICT, which may or may not be a request of ours in flight [?]"),
		squareRefusals,
	)

	squareKeyless = slices.Concat(squareErrors, squareRefusals)

	squareErrors = []Rule{
		{Status: 429, Field: "errors[].category", Equals: "RATE_LIMIT_ERROR", Verdict: NotExecuted, Source: sourceSquareSpec + " ErrorCategory: resend the request"},
		{Status: 400, Through: 499, Field: "errors[].code", Equals: "TEMPORARY_ERROR", Verdict: Retry, Source: sourceSquareSpec + " ErrorCode: an internal error; retry with the same key"},
		{Status: 400, Through: 499, Field: "errors[].category", Equals: "API_ERROR", Verdict: Indeterminate, Source: "developer.squareup.com/docs/build-basics/handling-errors [D]: of several errors the first one makes the status; this one is the API's own"},
	}

	squareRefusals = refusals("errors[].code", sourceSquareSpec+": the error format; whether a decline is stored is not published [?]")
)
