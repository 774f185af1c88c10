package providers

import (
	"slices"
	"time"
)

// PayPal describes PayPal's REST API, live and sandbox. The key goes into PayPal-Request-Id. The endpoints that take
// the header, and the retention, differ between APIs:
//
//   - vault tokens: 3 hours;
//   - Orders v2: 6 hours (an account manager may grant more: set Retention then);
//   - captures and refunds of Payments v2: 45 days.
//
// All other requests, including the void of an authorization, have an effect and no key. They are sent once.
//
// A repeat gets the latest state of the first request's object, with 200 where the first answer was 201, and
// without a mark.
//
// PayPal makes three promises:
//
//   - calls with a key may be made any number of times without a second effect;
//   - they may be retried after network timeouts and 5xx while the key is stored;
//   - of two at once it processes the first and may fail the second.
//
// That is [SuccessesCleanFailures] with a guard. PayPal does not say which failures it stores, so a 4xx is the
// operation's answer on a first attempt only.
//
// A rate limit of PayPal's is recognised by its name, and was not executed. Orders with a card's number are
// secrets. The account belongs to the token, which changes within the day, so a new token does not end the
// memory of keys. A service that acts for several accounts with their own tokens gives each an account label.
//
// The capture or authorization of an order is read from the order, and a void from the authorization.
// Refunds, and captures of an authorization, are found in the account's transactions by their custom or
// invoice id. That needs an extra permission, and they appear up to three hours late. Their events show the
// same ids. An order can be found only by its key.
//
// Two facts are not proven and read with care. Orders v2 and Payments v2 may not compare a repeated request
// with the first: assume that the key alone decides. The retention of Orders v1 is for ever on an old page,
// so nothing rests on it.
func PayPal() Provider {
	return Provider{
		Name:         "paypal",
		SecretSource: sourcePayPalSpec + ": a card's number and security code; our reading: no other field is secret",
		Declines: []Decline{
			{Field: "purchase_units[].payments.captures[].status", Equals: "DECLINED", Source: sourcePayPalDeclined},
			{Field: "status", Equals: "DECLINED", Source: sourcePayPalDeclined},
		},
		Hosts:          []string{"api-m.paypal.com", "api-m.sandbox.paypal.com", "api.paypal.com", "api.sandbox.paypal.com"},
		AccountHeaders: []string{"PayPal-Auth-Assertion"},
		Answers:        jsonAnswers,
		Identity: Identity{
			Path:   "/v1/reporting/balances",
			Field:  "account_id",
			Needs:  "https://uri.paypal.com/services/reporting/balances/read",
			Source: sourcePayPalSpec + " reporting_transactions_v1: account_id is the payer ID of the account",
		},
		WebhookSchemes: []string{"paypal"},
		Events:         paypalEvents,
		Feed:           paypalFeed,
		Source:         sourcePayPalIdempotency + "; hosts and the account header: " + sourcePayPalSpec + ", and of older programs PayPal-Java-SDK 2a34212 base/Constants.java [S]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: paypalKeyless, SecretRequest: paypalCards, Source: sourcePayPalSpec + ": the header is not declared; " + sourcePayPalIdempotency + ": not all APIs support it"},
				"/"),
			each(Endpoint{NoEffect: true, Source: sourcePayPalSpec},
				"POST /v1/oauth2/token",
				"POST /v1/notifications/verify-webhook-signature",
				"POST /v1/invoicing/search",
				"POST /v1/invoicing/invoices/next-invoice-number",
				"POST /v2/invoicing/generate-next-invoice-number",
				"POST /v2/invoicing/invoices/{id}/generate-qr-code",
				"POST /v2/invoicing/search-invoices"),
			each(paypalOrders("order"),
				"POST /v2/checkout/orders"),
			each(paypalOrders("authorization", paypalOfOrder("authorizations",
				Meaning{"purchase_units[].payments.authorizations[].status", "CREATED", TookEffect},
				Meaning{"purchase_units[].payments.authorizations[].status", "PENDING", TookEffect},
				Meaning{"purchase_units[].payments.authorizations[].status", "CAPTURED", TookEffect},
				Meaning{"purchase_units[].payments.authorizations[].status", "PARTIALLY_CAPTURED", TookEffect},
				Meaning{"purchase_units[].payments.authorizations[].status", "DENIED", Refused},
				Meaning{"purchase_units[].payments.authorizations[].status", "VOIDED", Reversed})),
				"POST /v2/checkout/orders/{id}/authorize"),
			each(paypalOrders("capture", paypalOfOrder("captures",
				Meaning{"purchase_units[].payments.captures[].status", "COMPLETED", TookEffect},
				Meaning{"purchase_units[].payments.captures[].status", "PENDING", TookEffect},
				Meaning{"purchase_units[].payments.captures[].status", "DECLINED", Refused},
				Meaning{"purchase_units[].payments.captures[].status", "FAILED", Refused},
				Meaning{"purchase_units[].payments.captures[].status", "PARTIALLY_REFUNDED", Reversed},
				Meaning{"purchase_units[].payments.captures[].status", "REFUNDED", Reversed})),
				"POST /v2/checkout/orders/{id}/capture"),
			each(paypalPayments("capture", paypalCaptureReference, paypalCaptureSearch),
				"POST /v2/payments/authorizations/{id}/capture"),
			each(paypalPayments("authorization", Reference{}),
				"POST /v2/payments/authorizations/{id}/reauthorize"),
			each(paypalPayments("refund", paypalRefundReference, paypalRefundSearch),
				"POST /v2/payments/captures/{id}/refund"),
			each(Endpoint{
				Object: "authorization void", Lookups: []Lookup{paypalVoid},
				Rules: paypalKeyless, SecretRequest: paypalCards, Source: sourcePayPalSpec + ": the header is not declared",
			},
				"POST /v2/payments/authorizations/{id}/void"),
			each(paypalKeyed(72*time.Hour, 0, ""),
				"POST /v1/billing/plans",
				"POST /v1/billing/subscriptions",
				"POST /v1/billing/subscriptions/{id}/capture",
				"POST /v1/catalogs/products"),
			each(paypalPayouts(),
				"POST /v1/payments/payouts"),
			each(paypalKeyed(30*24*time.Hour, 78, ""),
				"POST /v1/payments/payment/{id}/execute",
				"POST /v1/payments/sale/{id}/refund",
				"POST /v1/payments/authorization/{id}/void",
				"POST /v1/payments/orders/{id}/do-void",
				"POST /v1/payments/capture/{id}/refund"),
			each(paypalKeyed(3*time.Hour, 0, ""),
				"POST /v3/vault/payment-tokens",
				"POST /v3/vault/setup-tokens",
				"POST /v1/payment-experience/web-profiles"),
			each(paypalKeyed(0, 0, ": stored for ever [D-old], which nothing rests on"),
				"POST /v1/checkout/orders/{id}/pay"),
		),
	}.Clone()
}

func paypalKeyed(retention time.Duration, maxLength int, remark string) Endpoint {
	return Endpoint{
		Key:           Key{Place: KeyRawHeader, Name: "PayPal-Request-Id", MaxLength: maxLength},
		Retention:     retention,
		Remembers:     SuccessesCleanFailures,
		InFlightGuard: true,
		SecretRequest: paypalCards,
		Rules:         paypalRules,
		Source:        sourcePayPalIdempotency + "; time and length: " + sourcePayPalSpec + remark,
	}
}

// paypalOrders are the requests of Orders v2.
func paypalOrders(object string, lookups ...Lookup) Endpoint {
	e := paypalKeyed(6*time.Hour, 108, "; the newest page of capture says 10000 and no time [D]")
	e.Object, e.Lookups = object, lookups
	if len(lookups) > 0 { // it is answered with the order
		e.ObjectID = lookups[0].ID
	}
	return e
}

// paypalPayments are those of Payments v2.
func paypalPayments(object string, reference Reference, lookups ...Lookup) Endpoint {
	e := paypalKeyed(45*24*time.Hour, 0, "")
	e.Object, e.Reference, e.Lookups = object, reference, lookups
	return e
}

// paypalPayouts finds a payout by its batch id. PayPal does not publish whether payees see the id, so a client
// makes none unless the program allows one (Reference.Visible).
func paypalPayouts() Endpoint {
	e := paypalKeyed(30*24*time.Hour, 1000, "")
	e.Object, e.ObjectID = "payout", "batch_header.payout_batch_id"
	e.Reference = Reference{
		Place: KeyJSONField, Name: "sender_batch_header.sender_batch_id", MaxLength: 256, Visible: true,
		Source: sourcePayPalPayouts + ": tracks the payout in an accounting system; visibility to others: [?]",
	}
	return e
}

// paypalOfOrder reads the captures or authorizations of an order, which the answer to
// making one shows too. An order with several of them does not tell which one is whose.
func paypalOfOrder(payments string, means ...Meaning) Lookup {
	return Lookup{
		By:        ByParent,
		Path:      "/v2/checkout/orders/{path.id}",
		Same:      []Same{{Field: "id", Is: "{path.id}"}, {Field: "status", Is: "COMPLETED"}},
		ID:        "purchase_units[].payments." + payments + "[].id",
		Created:   "purchase_units[].payments." + payments + "[].create_time",
		Means:     means,
		SameShape: true,
		Source:    sourcePayPalSpec + " checkout_orders_v2: COMPLETED: a payments resource was created for the order; check its status; payment_collection",
	}
}

// paypalEvents are about an authorization's captures and about refunds, which show their request's invoice and custom
// id. An order's capture shows the order's ids, so only a look-up for the order settles it.
var paypalEvents = slices.Concat(
	kinds(paypalCaptured, TookEffect, "PAYMENT.CAPTURE.COMPLETED", "PAYMENT.CAPTURE.PENDING"),
	kinds(paypalCaptured, Refused, "PAYMENT.CAPTURE.DECLINED", "PAYMENT.CAPTURE.DENIED"),
	kinds(about(paypalEvent("POST /v2/payments/captures/{id}/refund", "custom_id"),
		Same{Field: "resource_type", Is: "refund"},
		Same{Field: "resource.amount.value", Is: "{request.amount.value}", As: AsDecimal, Optional: true},
		Same{Field: "resource.amount.currency_code", Is: "{request.amount.currency_code}", Optional: true},
	), TookEffect, "PAYMENT.CAPTURE.REFUNDED"),
)

var paypalCaptured = about(paypalEvent("POST /v2/payments/authorizations/{id}/capture", "invoice_id"),
	Same{Field: "resource_type", Is: "capture"},
	Same{Field: "resource.supplementary_data.related_ids.authorization_id", Is: "{path.id}"},
)

func paypalEvent(endpoint, reference string) EventRule {
	return EventRule{
		Field:     "event_type",
		Endpoint:  endpoint,
		Reference: "resource." + reference,
		ID:        "id",
		Object:    "resource.id",
		Created:   "resource.create_time",
		At:        "create_time",
		Source:    "developer.paypal.com/api/rest/webhooks/event-names [D]; fields: " + sourcePayPalSpec + " notifications_webhooks_v1 and payments_payment_v2",
	}
}

// paypalVoid reads the authorization. A void leaves behind only the state and the time of the last change.
var paypalVoid = Lookup{
	By:        ByParent,
	Path:      "/v2/payments/authorizations/{path.id}",
	Same:      []Same{{Field: "id", Is: "{path.id}"}, {Field: "status", Is: "VOIDED"}},
	ID:        "id",
	Created:   "update_time",
	Means:     states("status", TookEffect.of("VOIDED")),
	SameShape: true,
	Source:    sourcePayPalSpec + " payments_payment_v2: authorization_status, update_time; the answer to a void is the authorization, or none",
}

// paypalSearch reads the account's transactions, up to 500 and 31 days. A transaction of the last three hours
// may be missing.
func paypalSearch(source string, means []Meaning, same ...Same) Lookup {
	return Lookup{
		By:         ByReference,
		Path:       "/v1/reporting/transactions",
		Query:      "start_date={since}&end_date={until}&fields=transaction_info&page_size=500",
		TimeLayout: "rfc3339",
		Items:      "transaction_details[]",
		Same:       same,
		ID:         "transaction_info.transaction_id",
		Created:    "transaction_info.transaction_initiation_date",
		Next:       Paging{Size: 500},
		Means:      means,
		Needs:      "https://uri.paypal.com/services/reporting/search/read",
		Source:     sourcePayPalSpec + " reporting_transactions_v1: at most 31 days at once; up to three hours late; " + source,
	}
}

var (
	paypalCaptureReference = Reference{
		Place: KeyJSONField, Name: "invoice_id", MaxLength: 127, Visible: true,
		Source: sourcePayPalSpec + " payments_payment_v2 capture_request; payers see it",
	}
	paypalRefundReference = Reference{
		Place: KeyJSONField, Name: "custom_id", MaxLength: 127, Visible: true,
		Source: sourcePayPalSpec + " payments_payment_v2 refund_request: appears in transaction and settlement reports; whether payers see it: [?]",
	}

	// A capture without an invoice id has the authorization's, so the amount must also be the same.
	paypalCaptureSearch = paypalSearch("invoice_id is the one of the capture request",
		states("transaction_info.transaction_status", TookEffect.of("S", "P"), Refused.of("D"), Reversed.of("V")),
		Same{Field: "transaction_info.invoice_id", Is: "{reference}"},
		Same{Field: "transaction_info.transaction_amount.value", Is: "{request.amount.value}", As: AsDecimal},
		Same{Field: "transaction_info.transaction_amount.currency_code", Is: "{request.amount.currency_code}"},
	)
	paypalRefundSearch = paypalSearch("paypal_reference_id is the related transaction that was there before",
		states("transaction_info.transaction_status", TookEffect.of("S", "P"), Refused.of("D")),
		Same{Field: "transaction_info.custom_field", Is: "{reference}"},
		Same{Field: "transaction_info.paypal_reference_id", Is: "{path.id}"},
	)
)

const sourcePayPalDeclined = sourcePayPalSpec + ": of a capture, the funds could not be captured"

// paypalCards are the fields of a raw card: the number and the code.
var paypalCards = []string{"card.number", "card.security_code", "card.cvv2", "credit_card.number", "credit_card.cvv2"}

const (
	sourcePayPalIdempotency = "developer.paypal.com/reference/guidelines/idempotency [D]"
	sourcePayPalSpec        = "paypal-rest-api-specifications ec4d8f3 [D]"
	sourcePayPalPayouts     = sourcePayPalSpec + " payments_payouts_batch_v1 sender_batch_header"
	sourcePayPalConflict    = sourcePayPalSpec + " payments_payment_v2: another request on the resource is in progress; wait and try again"
)

var (
	paypalRules = slices.Concat(
		[]Rule{
			{Status: 409, Field: "details[].issue", Equals: "PREVIOUS_REQUEST_IN_PROGRESS", On: LaterAttempt, Verdict: InFlight, Source: sourcePayPalConflict},
			{Status: 409, Field: "details[].issue", Equals: "PREVIOUS_REQUEST_IN_PROGRESS", On: FirstAttempt, Verdict: Retry, Source: sourcePayPalConflict + "; it may be one under this key"},
			{Status: 400, Through: 499, Field: "details[].issue", Equals: "PAYPAL_REQUEST_ID_PREVIOUSLY_USED", Verdict: Misuse, Source: "developer.paypal.com/api/payment-tokens/v3/errors/paypal_request_id_previously_used [D]: used for another request"},
			{Status: 400, Through: 499, Field: "name", Equals: "DUPLICATE_REQUEST_ID", Verdict: Indeterminate, Source: sourcePayPalDuplicate},
			{Status: 400, Through: 499, Field: "details[].issue", Equals: "PAYPAL_REQUEST_ID_REQUIRED", Verdict: Rejected, Source: sourcePayPalSpec + " checkout_orders_v2: the key is missing; the status is 400 [D] or 422 [C]"},
		},
		conflicts("name", "what other conflicts mean is not published [?]"),
		paypalOthers,
	)

	paypalKeyless = slices.Concat(
		[]Rule{
			{Status: 409, Field: "details[].issue", Equals: "PREVIOUS_REQUEST_IN_PROGRESS", On: FirstAttempt, Verdict: NotExecuted, Source: sourcePayPalConflict},
		},
		paypalOthers,
	)

	paypalOthers = slices.Concat(
		[]Rule{
			{Status: 429, Field: "name", Equals: "RATE_LIMIT_REACHED", Verdict: NotExecuted, Source: "developer.paypal.com/api/rate-limiting [D]: requests are denied; our reading: none is executed"},
		},
		refusals("name", sourcePayPalSpec+": the error format; whether a failure is stored is not published [?]"),
	)
)

const sourcePayPalDuplicate = "developer.paypal.com/api/deprecated/payments/v1/errors/duplicate_request_id [D]: the key has been used, perhaps by the same request; that the field is name: [M]"
