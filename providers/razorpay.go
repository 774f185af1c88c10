package providers

import (
	"slices"
	"time"
)

// Razorpay describes Razorpay's API. Three kinds of request take a key, each in its own header: payouts
// (X-Payout-Idempotency, 4 to 36 characters), refunds (X-Refund-Idempotency, at least 10) and direct
// transfers (X-Transfer-Idempotency, 4 to 36). All other requests, including orders and captures, have an
// effect and no key.
//
// Razorpay does not publish the retention of keys. Pass a retention that Razorpay gave you, for all three
// kinds, or 0 for none. With 0, nothing is sent again once it may have run. (An old copy of the payouts page
// said 7 days.)
//
// For refunds and direct transfers Razorpay says that a call without an answer may be repeated with the same key
// without a second effect. A second request during the first gets 409. With a retention they are sent again. For
// payouts it says the first only. A payout that may have run is not sent again, unless you know more and set
// InFlightGuard there.
//
// 409 also answers a key that was used with another request. Razorpay's page shows a distinguishing description for the
// case. Any other 409 is Retry, which is safe for both. A failed payout stays failed for its key. A new try is a new
// operation.
//
// Partners act for a sub-merchant by the header X-Razorpay-Account, which is a part of the operation. Only
// BAD_REQUEST_ERROR is a refusal. An error from the gateway, or from Razorpay itself, proves nothing, whatever its
// status.
//
// It is not published whether a key belongs to the account or to the API key. After a change of the API key
// nothing is sent again.
//
// Look-ups find these objects, and events report payouts and refunds by the same names:
//
//   - an order by its receipt;
//   - a payout by the reference_id among the fund account's payouts;
//   - a refund by the payment, the amount, and the receipt if there is one, but not a full refund without an amount.
//
// Orders take no key. With unique_receipt (India) a repeat with the same receipt gets the first order. Neither a
// request's handling time nor the result of two at once is published, so no order is sent again.
func Razorpay(retention time.Duration) Provider {
	payout := Endpoint{
		Key:           Key{Place: KeyRawHeader, Name: "X-Payout-Idempotency", MinLength: 4, MaxLength: 36, Alphabet: razorpayAlphabet + " "},
		Retention:     retention,
		Remembers:     SuccessesCleanFailures,
		Rules:         razorpayPayouts,
		SecretRequest: razorpayCards,
		Source:        sourceRazorpayPayouts + ": processed once, whatever the number of attempts; retention: the caller's, 7 days in an old copy [D-old]; guard: [?]",
	}
	refund := Endpoint{
		Key:           Key{Place: KeyRawHeader, Name: "X-Refund-Idempotency", MinLength: 10, Alphabet: razorpayAlphabet},
		Retention:     retention,
		Remembers:     SuccessesCleanFailures,
		InFlightGuard: true,
		Rules:         razorpayRefunds,
		Source:        sourceRazorpayRefunds + ": may be retried without a second refund; 409 while the first is processed; retention: the caller's",
	}
	payout.Object, payout.Reference, payout.Lookups = "payout", razorpayPayoutReference, []Lookup{razorpayPayoutList}
	transfer := refund
	refund.Object, refund.Reference, refund.Lookups = "refund", razorpayRefundReference, []Lookup{razorpayRefundList}
	transfer.Key = Key{Place: KeyRawHeader, Name: "X-Transfer-Idempotency", MinLength: 4, MaxLength: 36, Alphabet: razorpayAlphabet + " "}
	transfer.Source = "razorpay.com/docs/api/payments/route/direct-transfers-idempotent-request [D]: may be retried without a second payout; 409 while the first is processed; retention: the caller's"
	return Provider{
		Name:             "razorpay",
		SecretSource:     "razorpay.com/docs/payments/payment-gateway/s2s-integration [D]: a card's number and code; of a composite payout, its card's number; our reading: no other field is secret",
		Hosts:            []string{"api.razorpay.com"},
		AccountHeaders:   []string{"X-Razorpay-Account"},
		CredentialScoped: true,
		WebhookSchemes:   []string{"razorpay"},
		Events:           razorpayEvents,
		Answers:          jsonAnswers,
		Source:           sourceRazorpayPayouts + " and " + sourceRazorpayRefunds + ", their examples for the host; the account header: razorpay.com/docs/partners/aggregators/partner-auth [D]; scope: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: razorpayRefusals, SecretRequest: razorpayCards, Source: sourceRazorpayPayouts + ": only payouts and composite payouts; no other keys are known of [?]"}, "/"),
			each(Endpoint{
				Object: "order", Reference: razorpayOrderReference, Lookups: []Lookup{razorpayOrders},
				Rules: razorpayRefusals, Source: sourceRazorpayPayouts + ": only payouts and composite payouts",
			}, "POST /v1/orders"),
			each(payout, "POST /v1/payouts"),
			each(refund, "POST /v1/payments/{id}/refund"),
			each(transfer, "POST /v1/transfers"),
		),
	}.Clone()
}

// These are the states in the lists. By Razorpay's documentation a listed payout's state is not the newest,
// so deliver its webhooks too.
var (
	razorpayOrderReference = Reference{
		Place: KeyJSONField, Name: "receipt", Visible: true,
		Source: "razorpay.com/docs/api/orders/create [D]; its length and visibility: [?]",
	}
	razorpayOrders = Lookup{
		By:         ByReference,
		Path:       "/v1/orders",
		Query:      "receipt={reference}&from={since}&to={until}&count=100",
		TimeLayout: "unix",
		Items:      "items[]",
		Same: []Same{
			{Field: "receipt", Is: "{reference}"},
			{Field: "amount", Is: "{request.amount}", As: AsDecimal},
			{Field: "currency", Is: "{request.currency}", As: AnyCase},
		},
		ID:        "id",
		Created:   "created_at",
		Next:      Paging{Style: PageOffset, Param: "skip", Size: 100},
		Means:     states("status", TookEffect.of("created")),
		SameShape: true,
		Source:    "razorpay.com/docs/api/orders/fetch-all [D]: orders with the provided value for receipt",
	}

	razorpayRefundReference = Reference{
		Place: KeyJSONField, Name: "receipt", Visible: true,
		Source: "razorpay.com/docs/api/refunds/entity [D]: an identifier for one's internal reference; its length and visibility: [?]",
	}
	razorpayRefundList = Lookup{
		By:         ByParent,
		Path:       "/v1/payments/{path.id}/refunds",
		Query:      "from={since}&to={until}&count=100",
		TimeLayout: "unix",
		Items:      "items[]",
		Same: []Same{
			{Field: "receipt", Is: "{reference}", Optional: true},
			{Field: "payment_id", Is: "{path.id}"},
			{Field: "amount", Is: "{request.amount}", As: AsDecimal},
		},
		ID:        "id",
		Created:   "created_at",
		Next:      Paging{Style: PageOffset, Param: "skip", Size: 100},
		Means:     states("status", TookEffect.of("pending", "processed"), Refused.of("failed")),
		SameShape: true,
		Source:    "razorpay.com/docs/api/refunds/fetch-multiple-refund-payment [D]",
	}

	razorpayPayoutReference = Reference{
		Place: KeyJSONField, Name: "reference_id", Visible: true,
		Source: "razorpay.com/docs/razorpayx/best-practices [D]: one's transaction id; its length and visibility: [?]",
	}
	razorpayPayoutList = Lookup{
		By:    ByReference,
		Path:  "/v1/payouts",
		Query: "account_number={request.account_number}&fund_account_id={request.fund_account_id}&count=100",
		Items: "items[]",
		Same: []Same{
			{Field: "reference_id", Is: "{reference}"},
			{Field: "fund_account_id", Is: "{request.fund_account_id}"},
			{Field: "amount", Is: "{request.amount}", As: AsDecimal},
			{Field: "currency", Is: "{request.currency}", As: AnyCase},
		},
		ID:      "id",
		Created: "created_at",
		Next:    Paging{Style: PageOffset, Param: "skip", Size: 100},
		Means: states("status",
			TookEffect.of("pending", "queued", "scheduled", "processing", "processed"),
			Refused.of("rejected", "failed"),
			Reversed.of("cancelled", "reversed")),
		SameShape: true,
		Source:    "razorpay.com/docs/api/x/payouts/fetch-all and /docs/x/payouts/states-life-cycle [D]; for states, webhooks are recommended instead",
	}
)

// razorpayEvents are the events for payouts, and for refunds with a receipt in the request.
var razorpayEvents = slices.Concat(
	kinds(razorpayPayoutEvent, TookEffect, "payout.pending", "payout.queued", "payout.initiated", "payout.processed"),
	kinds(razorpayPayoutEvent, Refused, "payout.rejected", "payout.failed"),
	kinds(razorpayPayoutEvent, Reversed, "payout.reversed"),
	kinds(razorpayRefundEvent, TookEffect, "refund.created", "refund.processed"),
	kinds(razorpayRefundEvent, Refused, "refund.failed"),
)

var razorpayRefundEvent = EventRule{
	Field:     "event",
	Endpoint:  "POST /v1/payments/{id}/refund",
	Reference: "payload.refund.entity.receipt",
	Object:    "payload.refund.entity.id",
	Created:   "payload.refund.entity.created_at",
	At:        "payload.refund.entity.created_at",
	Account:   "account_id",
	Also: []Same{
		{Field: "payload.refund.entity.payment_id", Is: "{path.id}"},
		{Field: "payload.refund.entity.amount", Is: "{request.amount}", As: AsDecimal, Optional: true},
	},
	Source: "razorpay.com/docs/webhooks/refunds [D]; the event's own id is in a header",
}

var razorpayPayoutEvent = EventRule{
	Field:     "event",
	Endpoint:  "POST /v1/payouts",
	Reference: "payload.payout.entity.reference_id",
	Object:    "payload.payout.entity.id",
	Created:   "payload.payout.entity.created_at",
	At:        "created_at",
	Account:   "account_id",
	Also: []Same{
		{Field: "payload.payout.entity.amount", Is: "{request.amount}", As: AsDecimal},
		{Field: "payload.payout.entity.currency", Is: "{request.currency}", As: AnyCase},
	},
	Source: "razorpay.com/docs/webhooks/payouts [D]; the event's own id is in a header",
}

// razorpayCards are the fields of a raw card: the number, also in a composite payout, and the code.
var razorpayCards = []string{"card.number", "card.cvv"}

const (
	razorpayAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

	sourceRazorpayPayouts = "razorpay.com/docs/api/x/payout-idempotency [D]"
	sourceRazorpayRefunds = "razorpay.com/docs/api/refunds/normal-refunds-idempotent [D]"
)

var (
	razorpayMisuse = Rule{
		Status: 400, Through: 499,
		Field: "error.description", Equals: "Different request with the same idempotency key has already been processed.",
		Verdict: Misuse, Source: sourceRazorpayRefunds + ": the example of a failure; the status is 400 in the prose and 409 in the table",
	}

	razorpayRefunds = slices.Concat(
		[]Rule{
			razorpayMisuse,
			{Status: 409, Verdict: Retry, Source: sourceRazorpayRefunds + ": an earlier request is being processed, may be retried; or another request under the key, which a repeat does not execute"},
		},
		razorpayRefusals,
	)

	razorpayPayouts = slices.Concat(
		[]Rule{
			razorpayMisuse,
			{Status: 409, Verdict: Indeterminate, Source: "what a conflict means for the key of a payout is not published [?]"},
		},
		razorpayRefusals,
	)

	razorpayRefusals = slices.Concat(refused, passing, []Rule{
		{Status: 400, Through: 499, Field: "error.code", Equals: "BAD_REQUEST_ERROR", On: FirstAttempt, Verdict: Final, Source: sourceRazorpayPayouts + ": the error format; the other codes say nothing of the money [C]; whether a failure is stored is not published [?]"},
	})
)
