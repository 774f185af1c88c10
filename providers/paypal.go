package providers

import (
	"slices"
	"time"
)

// PayPal describes PayPal's REST API, live and in its sandbox. The key travels
// in PayPal-Request-Id. Which endpoints take it and how long it is stored
// differs from API to API: 3 hours for vault tokens, 6 hours for Orders v2 (an
// account manager may grant more: set Retention then), 45 days for captures and
// refunds of Payments v2. Everything else, the void of an authorization among
// it, has an effect and no key: it is sent once and not again.
//
// A repeat is answered with the latest state of what the first request did, by
// 200 where the first answer was 201, and by nothing that marks it.
//
// PayPal says that calls with a key may be made any number of times without a
// second effect, that they may be retried after network timeouts and 5xx for as
// long as the key is stored, and that of two at once it processes the first and
// may fail the second. That makes [SuccessesCleanFailures] with a guard: a
// repeat has no second effect, whatever the first led to. It is not more than
// that, since PayPal doesn't say which failures it stores: a 4xx is the
// operation's answer on a first attempt only.
//
// A rate limit of PayPal's is known by its name, and was not executed. Orders with a
// card's number in them are secrets. The account is that of the token, which changes
// within the day, so that a new one is not taken to end the memory of keys: a service
// that acts for several accounts by tokens of their own names each by an account
// label.
//
// Not proven, and read with care: whether Orders v2 and Payments v2 compare a
// repeated request with the first (assume that the key alone decides); for how
// long Orders v1 stores keys (its page says for ever, but it is old, so nothing
// rests on it).
func PayPal() Provider {
	p := Provider{
		Name: "paypal",
		Declines: []Decline{
			{Field: "purchase_units[].payments.captures[].status", Equals: "DECLINED", Source: sourcePayPalDeclined},
			{Field: "status", Equals: "DECLINED", Source: sourcePayPalDeclined},
		},
		Hosts:          []string{"api-m.paypal.com", "api-m.sandbox.paypal.com", "api.paypal.com", "api.sandbox.paypal.com"},
		AccountHeaders: []string{"PayPal-Auth-Assertion"},
		Answers:        jsonAnswers,
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
			each(paypalKeyed(6*time.Hour, 108, "; the newest page of capture says 10000 and no time [D]"),
				"POST /v2/checkout/orders",
				"POST /v2/checkout/orders/{id}/authorize",
				"POST /v2/checkout/orders/{id}/capture"),
			each(paypalKeyed(45*24*time.Hour, 0, ""),
				"POST /v2/payments/authorizations/{id}/capture",
				"POST /v2/payments/authorizations/{id}/reauthorize",
				"POST /v2/payments/captures/{id}/refund"),
			each(paypalKeyed(72*time.Hour, 0, ""),
				"POST /v1/billing/plans",
				"POST /v1/billing/subscriptions",
				"POST /v1/billing/subscriptions/{id}/capture",
				"POST /v1/catalogs/products"),
			each(paypalKeyed(30*24*time.Hour, 1000, ""),
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
	}
	return p.Clone()
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

const sourcePayPalDeclined = sourcePayPalSpec + ": of a capture, the funds could not be captured"

// paypalCards are the fields of a raw card: its number and its code.
var paypalCards = []string{"card.number", "card.security_code", "card.cvv2", "credit_card.number", "credit_card.cvv2"}

const (
	sourcePayPalIdempotency = "developer.paypal.com/reference/guidelines/idempotency [D]"
	sourcePayPalSpec        = "paypal-rest-api-specifications ec4d8f3 [D]"
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
			{Status: 429, Field: "name", Equals: "RATE_LIMIT_REACHED", Verdict: NotExecuted, Source: "developer.paypal.com/api/rate-limiting [D]: requests are denied; that none is executed is our reading"},
		},
		refusals("name", sourcePayPalSpec+": the error format; whether a failure is stored is not published [?]"),
	)
)

const sourcePayPalDuplicate = "developer.paypal.com/api/deprecated/payments/v1/errors/duplicate_request_id [D]: the key has been used, be it by the same request; that the field is name: [M]"
