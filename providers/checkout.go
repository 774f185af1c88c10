package providers

import (
	"slices"
	"strings"
	"time"
)

// Checkout describes Checkout.com's API, live and sandbox, with or without a subdomain of your own
// (PREFIX.api.checkout.com). The eight documented endpoints take a key in Cko-Idempotency-Key. The others
// have an effect and no key.
//
// Only a 2xx is remembered. After a 4xx or 5xx the same key is processed anew. A repeat after a received 5xx
// may pay twice if the first had an effect, so look the payment up by its reference. After a network error or
// a timeout, Checkout.com allows a repeat without the risk of a duplicate, and the client sends it.
//
// The retention is 24 hours. The current page says 72, the page of January 2026 said 24, and an account may differ. A
// second request during the first gets 409. It means so only on a later attempt, when an earlier one may be in flight.
// 429 had that meaning before, and is now a rate limit only. 422 is said to answer a key that was used with another
// request, but every invalid request gets 422 too, so 422 is never Misuse.
//
// A card token (POST /tokens) is short-lived, makes no charge, and is made from card data. Such requests pass
// through and are not journaled. A payment with a card's number is a secret.
func Checkout() Provider {
	keyed := Endpoint{
		Key:           Key{Place: KeyRawHeader, Name: "Cko-Idempotency-Key"},
		Retention:     24 * time.Hour,
		Remembers:     SuccessesLostAnswers,
		InFlightGuard: true,
		SecretRequest: checkoutCards,
		Rules:         checkoutRules,
		Source:        sourceCheckoutIdempotency + ": 72 h, 24 h in January 2026 [D-old]; only a 2xx is stored; after a network error or timeout a repeat is no duplicate; of concurrent requests one is processed",

		RefusalsRegisterNoKey: true,
	}
	payment := keyed
	payment.Object, payment.Reference, payment.Lookups = "payment", checkoutReference, []Lookup{checkoutPayments}
	return Provider{
		Name:             "checkout.com",
		SecretSource:     sourceCheckoutSDK + " payments: the number and the code of a card as source or destination; our reading: no other field is secret",
		CredentialScoped: true,
		WebhookSchemes:   []string{"checkout"},
		Events:           checkoutEvents,
		Answers:          jsonAnswers,
		Hosts: []string{
			"api.checkout.com", "*.api.checkout.com", "api.sandbox.checkout.com", "*.api.sandbox.checkout.com",
			"access.checkout.com", "*.access.checkout.com", "access.sandbox.checkout.com", "*.access.sandbox.checkout.com",
			"transfers.checkout.com", "transfers.sandbox.checkout.com",
			"balances.checkout.com", "balances.sandbox.checkout.com",
			"files.checkout.com", "files.sandbox.checkout.com",
		},
		Declines: []Decline{
			{Field: "status", Equals: "Declined", Source: "checkout.com/docs/developer-resources/codes/api-response-codes [D]: a 2xx with 20xxx or 30xxx is a decline"},
		},
		Source: sourceCheckoutIdempotency + "; hosts: " + sourceCheckoutSDK + " configuration/environment.go; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: checkoutKeyless, SecretRequest: checkoutCards, Source: sourceCheckoutIdempotency + ": the header is not listed"},
				"/"),
			each(Endpoint{NoEffect: true, Source: sourceCheckoutSDK + " configuration/oauth_keys_credentials.go"},
				"POST /connect/token"),
			each(Endpoint{NoEffect: true, Source: sourceCheckoutSDK + " tokens: a card token, which makes no charge"},
				"POST /tokens"),
			each(keyed,
				"POST /payment-contexts",
				"POST /payments/{id}/authorizations",
				"POST /payments/{id}/cancellations",
				"POST /payments/{id}/voids",
				"POST /transfers"),
			each(payment, "POST /payments"),
			each(checkoutPart(keyed, "Capture"), "POST /payments/{id}/captures"),
			each(checkoutPart(keyed, "Refund"), "POST /payments/{id}/refunds"),
		),
	}.Clone()
}

// checkoutPart has the captures or the refunds of a payment, which its actions show.
func checkoutPart(keyed Endpoint, action string) Endpoint {
	keyed.Object, keyed.ObjectID = strings.ToLower(action), "action_id"
	keyed.Lookups = []Lookup{{
		By:    ByParent,
		Path:  "/payments/{path.id}/actions",
		Items: "[]",
		Same: []Same{
			{Field: "type", Is: action},
			{Field: "amount", Is: "{request.amount}"},
			{Field: "reference", Is: "{request.reference}", Optional: true},
		},
		ID:      "id",
		Created: "processed_on",
		Means:   states("approved", TookEffect.of("true"), Refused.of("false")),
		Source:  sourceCheckoutSDK + " payments/nas/payments.go: a payment's actions are an array; when one is listed: [?]",
	}}
	return keyed
}

var (
	// checkoutReference may be of 30 characters only for some cards, and is not said to be
	// hidden from payers: none is made up.
	checkoutReference = Reference{
		Place: KeyJSONField, Name: "reference", Visible: true, Mutable: true,
		Source: sourceCheckoutSDK + " payments/nas/payments.go; its visibility, length and mutability: [?]",
	}

	checkoutPayments = Lookup{
		By:    ByReference,
		Path:  "/payments",
		Query: "reference={reference}",
		Items: "data[]",
		Same: []Same{
			{Field: "reference", Is: "{reference}"},
			{Field: "amount", Is: "{request.amount}"},
			{Field: "currency", Is: "{request.currency}", As: AnyCase},
		},
		ID:      "id",
		Created: "requested_on",
		Next:    Paging{Style: PageOffset, Param: "skip"},
		Means:   states("status", Refused.of("Declined"), Reversed.of("Canceled", "Expired", "Refunded", "Voided"), InProgress.of("Requested")),
		Source:  "checkout.com/docs/payments/manage-payments/get-a-list-of-payments [D-old]; " + sourceCheckoutSDK + " payments/payments.go; whether one that failed is listed, and when: [?]",
	}
)

// checkoutCards are the fields of a raw card: the number and the code.
var checkoutCards = []string{"source.number", "source.cvv", "destination.number", "destination.cvv", "card.number", "card.cvv"}

const (
	sourceCheckoutIdempotency = "checkout.com/docs/developer-resources/api/idempotency [D]"
	sourceCheckoutSDK         = "checkout-sdk-go 30688ab [S]"
)

var (
	checkoutRules = slices.Concat(
		[]Rule{
			{Status: 409, On: LaterAttempt, Verdict: InFlight, Source: sourceCheckoutIdempotency + "; support.checkout.com 26763450855186 [C]: the original is being processed"},
			{Status: 409, Verdict: Indeterminate, Source: "what a conflict means where nothing of ours is out is not published [?]"},
		},
		checkoutKeyless,
	)

	checkoutKeyless = slices.Concat(
		[]Rule{
			{Status: 429, Field: "error_type", Verdict: NotExecuted, Source: "support.checkout.com 24570669653010 [D]: it now only refers to rate limits; our reading: one comes before execution; the field: " + sourceCheckoutSDK + " errors/error.go"},
		},
		refusals("error_type", sourceCheckoutIdempotency+": a 4xx stores nothing; the field: "+sourceCheckoutSDK+" errors/error.go"),
	)
)
