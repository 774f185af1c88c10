package providers

import (
	"slices"
	"time"
)

// ModernTreasury describes Modern Treasury's API on app.moderntreasury.com, the
// same host for live and sandbox.
//
// Every POST takes a key in the header Idempotency-Key, kept for 24 hours; other
// methods ignore it, although the Go SDK sends one on PUT too. Keys are looked up
// by API key: an operation whose credential has changed is not sent again.
//
// Only successes are kept; after a connection interruption or an error that prevented
// the request from completing the next one with the key is executed. Modern Treasury
// guarantees that what a request created which failed by a network issue is created
// only once if it is repeated with its key, and says that every critical operation is
// one transaction of its database: it is sent again. PATCH and DELETE are idempotent
// by definition. A rate limit in the API's own form was not executed.
//
// Requests are not compared, not even their paths: a key that was used before is
// answered with the first request's answer, whatever that was. Only a key that is
// new for all paths is safe.
//
// 409 answers a second request while the first one is being worked on. It is also
// the status of any conflict, without a code that would tell, so that on a first
// attempt it proves nothing.
func ModernTreasury() Provider {
	keyed := Endpoint{
		Pattern:       "POST /api/",
		Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
		Retention:     24 * time.Hour,
		Remembers:     SuccessesCleanFailures,
		InFlightGuard: true,
		Rules: slices.Concat(
			[]Rule{
				{Status: 409, On: LaterAttempt, Verdict: InFlight, Source: sourceModernTreasury + ": another request with the same key is being stored"},
				{Status: 409, On: FirstAttempt, Verdict: Retry, Source: "docs.moderntreasury.com/reference/status-codes [D]: a conflict with another request, of whatever kind"},
			},
			modernTreasuryKeyless,
		),
		Source: sourceModernTreasury + ": a repeat after a network issue creates nothing twice; errors are those that prevented it from completing; moderntreasury.com/journal/why-idempotency-matters-in-payments [D]: one transaction",
	}
	flow, payment, order := keyed, keyed, keyed
	order.Pattern, order.Object = "POST /api/payment_orders", "payment_order"
	order.Reference, order.Lookups = modernTreasuryReference, []Lookup{modernTreasuryOrders}
	flow.Pattern, flow.SecretResponse = "POST /api/account_collection_flows", true
	flow.Source += "; client_token: modern-treasury-go bddd610 accountcollectionflow.go [S]"
	payment.Pattern, payment.SecretResponse = "POST /api/payment_flows", true
	payment.Source += "; client_token: modern-treasury-go bddd610 paymentflow.go [S]"
	p := Provider{
		Name:             "moderntreasury",
		Hosts:            []string{"app.moderntreasury.com"},
		CredentialScoped: true,
		Events:           modernTreasuryEvents,
		Answers:          jsonAnswers,
		Endpoints: []Endpoint{
			keyed,
			order,
			flow,
			payment,
			{
				Pattern: "/",
				Rules:   modernTreasuryKeyless,
				Source:  sourceModernTreasury + ": PATCH and DELETE ignore the key; of PUT nothing is said",
			},
			{
				Pattern:    "PATCH /",
				Idempotent: true,
				Rules:      modernTreasuryKeyless,
				Source:     sourceModernTreasury + ": PATCH and DELETE are idempotent by definition",
			},
			{
				Pattern:    "DELETE /",
				Idempotent: true,
				Rules:      modernTreasuryKeyless,
				Source:     sourceModernTreasury + ": PATCH and DELETE are idempotent by definition",
			},
		},
		Source: sourceModernTreasury + "; host: modern-treasury-go bddd610 option/requestoption.go [S]",
	}
	return p.Clone()
}

var (
	modernTreasuryReference = Reference{
		Place: KeyJSONField, Name: "external_id", MaxLength: 180, Mutable: true,
		Source: sourceModernTreasurySDK + " paymentorder.go: an optional, user-defined, unique identifier, which an update can change; " +
			"what a receiver sees is statement_descriptor; whether a second one is refused: [?]",
	}

	modernTreasuryOrders = Lookup{
		By:    ByReference,
		Path:  "/api/payment_orders",
		Query: "external_id={reference}",
		Items: "[]",
		Same: []Same{
			{Field: "external_id", Is: "{reference}"},
			{Field: "amount", Is: "{request.amount}"},
			{Field: "direction", Is: "{request.direction}"},
			{Field: "originating_account_id", Is: "{request.originating_account_id}"},
		},
		ID:      "id",
		Created: "created_at",
		Next:    Paging{Style: PageHeader, Cursor: "X-After-Cursor", Param: "after_cursor"},
		Means: slices.Concat(
			meanings("status", TookEffect, "needs_approval", "approved", "pending", "processing", "sent", "completed"),
			meanings("status", Reversed, "cancelled", "denied", "failed", "returned", "reversed", "stopped"),
		),
		SameShape: true,
		Source:    sourceModernTreasurySDK + " paymentorder.go, packages/pagination; when an order is listed: [?]",
	}
)

var modernTreasuryKeyless = slices.Concat(
	[]Rule{
		{Status: 429, Field: "errors.code", Verdict: NotExecuted, Source: "docs.moderntreasury.com/reference/rate-limits [D]: the limit is hit; that it comes before execution is our reading"},
	},
	refusals("errors.code", sourceModernTreasuryErrors),
)

const (
	sourceModernTreasury       = "docs.moderntreasury.com/reference/idempotent-requests [D]"
	sourceModernTreasurySDK    = "modern-treasury-go bddd610 [S]"
	sourceModernTreasuryErrors = "docs.moderntreasury.com/reference/errors [D]: an error in the data that was provided; the API's own errors have errors.code"
)
