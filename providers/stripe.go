package providers

import (
	"slices"
	"strings"
	"time"
)

// Stripe describes Stripe's API v1 and v2 on api.stripe.com and files.stripe.com. Other Stripe hosts
// (connect.stripe.com, meter-events.stripe.com) are not described: a named operation there is sent once and
// not again.
//
// In v1 every POST takes a key, kept for at least 24 hours. Stripe stores any result once the endpoint began
// to execute. A stored 500 never changes and may have had effects, so it is Indeterminate. A DELETE has an
// effect and no key. Errors that name a parameter as missing, unknown or malformed are Rejected. Stripe does
// not say whether other client errors were executed. They are the operation's answer on a first attempt, and
// on a later one only with the replay mark.
//
// In v2 POST and DELETE take a key, kept for 30 days. A repeat executes a failure again, without a second
// side effect. Stripe does not publish how v2 answers a second request during the first, nor how long a
// request takes. The table therefore claims no guard and no handling time, and 409 is Retry. If you know
// more, set InFlightGuard on those endpoints.
//
// Look-ups read the events of the last 30 days, which show the key. They find a charge, a payment intent, a refund, a
// transfer, a payout, a top-up, a subscription, an invoice or a customer. Objects that move an amount are also found by
// metadata[onceward], which a client fills in. To use a metadata field of your own, change its name in Reference and in
// the look-up, and clear Reference.Fill. Accounts and persons in v2 are found by v2's thin events, which also show the
// key.
//
// Stripe-Should-Retry is obeyed. A request for a token or a payment method holds a card's number and moves nothing, so
// it is passed through and not journaled. Any other request with a card's number is a secret. So are answers that give
// access: sessions, links, ephemeral keys. Stripe says not to store the client_secret in a payment or setup intent, but
// programs need more from the answer, so the answer is kept. Restrict access to the journal.
func Stripe() Provider {
	key := Key{Place: KeyRawHeader, Name: "Idempotency-Key", MaxLength: 255}
	v2 := Endpoint{
		Key:       key,
		Retention: 30 * 24 * time.Hour,
		Remembers: SuccessesCleanFailures,

		SecretRequest: stripeCards,

		Rules:  stripeV2,
		Source: "docs.stripe.com/api-v2-overview [D]; length: stripe-go a1e3932 stripe.go [S]; guard: [?]",
	}
	v1 := Endpoint{
		Key:                   key,
		Retention:             24 * time.Hour,
		Remembers:             Everything,
		InFlightGuard:         true,
		RefusalsRegisterNoKey: true,
		SecretRequest:         stripeCards,
		Rules:                 stripeV1,
		Source:                sourceStripeIdempotency + ": nothing is stored of a request that failed validation or met another one",
	}
	p := Provider{
		Name:           "stripe",
		SecretSource:   "docs.stripe.com/api/payment_methods/create [D]: a card's number and code; our reading: no other field is secret",
		Identity:       Identity{Path: "/v1/account", Field: "id", Source: "stripe-go a1e3932 account/client.go [S]"},
		Hosts:          []string{"api.stripe.com", "files.stripe.com"},
		AccountHeaders: []string{"Stripe-Account", "Stripe-Context"},
		CredentialModes: []CredentialMode{
			{"sk_test_", "test"}, {"sk_live_", "live"},
			{"rk_test_", "test"}, {"rk_live_", "live"},
		},
		WebhookSchemes: []string{"stripe"},
		Events:         stripeEvents,
		Feed:           stripeFeed,
		Listings:       []Listing{stripeListing},
		Answers:        jsonAnswers,
		ReplayHeader:   "Idempotent-Replayed", ReplayValue: "true",
		Endpoints: slices.Concat(
			each(v1, "POST /v1/"),
			each(Endpoint{NoEffect: true, Source: "docs.stripe.com/api/tokens [D]: the request holds card or bank details; our reading: a token moves nothing"}, "POST /v1/tokens"),
			each(Endpoint{
				NoEffect: true,
				Source:   "docs.stripe.com/api/payment_methods/create [D]: the request holds card or bank details; our reading: a payment method moves nothing",
			}, "POST /v1/payment_methods"),
			each(Endpoint{
				Idempotent: true, Rules: stripeV1Delete,
				Source: sourceStripeIdempotency + ": the header has no effect on DELETE, which is idempotent by definition",
			}, "DELETE /v1/"),
			each(v2, "POST /v2/", "DELETE /v2/"),
			each(stripeV2Found(v2, "v2.core.account"), "POST /v2/core/accounts"),
			each(stripeV2Found(v2, "v2.core.account_person"), "POST /v2/core/accounts/{account}/persons"),
			each(secretly(v2, ""), "POST /v2/core/event_destinations"),
			each(secretly(v2, "; the answer holds a token: stripe-go a1e3932 v2billing_metereventsession.go [S]"), "POST /v2/billing/meter_event_session"),
		),
		Source: sourceStripeIdempotency + "; hosts and account headers: stripe-go a1e3932 stripe.go [S]; modes: docs.stripe.com/keys [D]",
	}
	for _, o := range stripeObjects {
		found := v1
		found.Pattern, found.Object, found.Lookups = "POST "+o.path(), o.kind, o.lookups()
		if len(found.Lookups) > 1 {
			found.Reference = stripeReference
		}
		switch {
		case o.kind == "refund":
			found.Amount = Amount{Value: "amount", Source: "stripe-go a1e3932 refund.go [S]: in the smallest unit of the charge's currency; without an amount the whole charge"}
		case len(o.same) > 0:
			found.Amount = Amount{
				Value: "amount", Currency: "currency",
				Source: "stripe-go a1e3932 " + o.kind + ".go [S]: the amount to move in the smallest unit; a capture or tip may move another one",
			}
		}
		p.Endpoints = append(p.Endpoints, found)
	}
	p.Endpoints = append(p.Endpoints, each(secretly(v1, "; the answer holds a secret, or a URL that is one: stripe-go v85.0.0 [S]"), posts("/v1/",
		"account_links",
		"account_sessions",
		"accounts/{id}/login_links",
		"billing_portal/sessions",
		"customer_sessions",
		"ephemeral_keys",
		"financial_connections/sessions",
		"identity/verification_sessions",
		"identity/verification_sessions/{id}",
		"terminal/connection_tokens",
		"webhook_endpoints")...)...)
	return p.Clone()
}

// stripeV2Found has the objects of a kind that v2 reports by an event at their creation.
func stripeV2Found(v2 Endpoint, kind string) Endpoint {
	v2.Object = kind
	v2.Lookups = []Lookup{{
		By:    ByKey,
		Path:  "/v2/core/events",
		Query: "types[0]=" + kind + ".created&limit=100",
		Items: "data[]",
		Same: []Same{
			{Field: "reason.request.idempotency_key", Is: "{key}"},
			{Field: "type", Is: kind + ".created"},
		},
		ID:      "related_object.id",
		Created: "created",
		Next:    Paging{Style: PageLink, Cursor: "next_page_url", Size: 100},
		Means:   []Meaning{{Field: "related_object.id", Is: TookEffect}},
		Horizon: 30 * 24 * time.Hour,
		Source: "stripe-go a1e3932 v2core_event.go, v2core_event_params.go, v2_events.go, example/generated_examples_test.go [S]: going back up to 30 days; " +
			"the event shows the request's key; when one is listed: [?]",
	}}
	return v2
}

// stripeReference is a field of the metadata.
var stripeReference = Reference{
	Place: KeyFormField, Name: "metadata[onceward]", MaxLength: 500, MaxPairs: 50, Fill: true, Mutable: true,
	Source: "docs.stripe.com/metadata [D]: 50 pairs, values of 500 characters, not visible to customers, changed by updates",
}

// stripeObject is a kind of object that v1 creates.
type stripeObject struct {
	kind   string
	events []string  // of its creation
	same   []Same    // as the request has it, beside a reference
	parent []string  // the fields that name its parent
	means  []Meaning // its states
}

var stripeObjects = []stripeObject{
	{
		kind:   "charge",
		events: []string{"charge.succeeded", "charge.pending", "charge.failed"},
		same:   stripeMoney,
		means: slices.Concat(
			states("refunded", Reversed.of("true")),
			states("status", TookEffect.of("succeeded", "pending"), Refused.of("failed")),
		),
	},
	{
		kind:   "payment_intent",
		events: []string{"payment_intent.created"},
		same:   stripeMoney,
		means: states("status",
			TookEffect.of("succeeded", "processing", "requires_action", "requires_capture"),
			InProgress.of("requires_payment_method", "requires_confirmation"),
			Reversed.of("canceled")),
	},
	{
		kind:   "refund",
		events: []string{"refund.created"},
		parent: []string{"charge", "payment_intent"},
		means:  states("status", TookEffect.of("succeeded", "pending", "requires_action"), Reversed.of("failed", "canceled")),
	},
	{
		kind:   "transfer",
		events: []string{"transfer.created"},
		same:   append([]Same{{Field: "destination", Is: "{request.destination}"}}, stripeMoney...),
		means:  states("reversed", Reversed.of("true"), TookEffect.of("false")),
	},
	{
		kind:   "payout",
		events: []string{"payout.created"},
		same:   stripeMoney,
		means:  states("status", TookEffect.of("paid", "pending", "in_transit"), Reversed.of("failed", "canceled")),
	},
	{
		kind:   "topup",
		events: []string{"topup.created"},
		same:   stripeMoney,
		means:  states("status", TookEffect.of("succeeded", "pending"), Reversed.of("failed", "canceled", "reversed")),
	},
	{
		kind:   "subscription",
		events: []string{"customer.subscription.created"},
		means:  states("status", TookEffect.of("active", "trialing", "incomplete"), Reversed.of("incomplete_expired", "canceled")),
	},
	{
		kind:   "invoice",
		events: []string{"invoice.created"},
		means:  states("status", TookEffect.of("draft"), Reversed.of("void")),
	},
	{
		kind:   "customer",
		events: []string{"customer.created"},
		means: slices.Concat(
			states("deleted", Reversed.of("true")),
			states("object", TookEffect.of("customer")),
		),
	},
}

var stripeMoney = []Same{
	{Field: "amount", Is: "{request.amount}"},
	{Field: "currency", Is: "{request.currency}", As: AnyCase},
}

func (o stripeObject) path() string { return "/v1/" + o.kind + "s" }

// lookups are by key, by reference and by parent, the surest first.
func (o stripeObject) lookups() []Lookup {
	lookups := []Lookup{{
		By:         ByKey,
		Path:       "/v1/events",
		Query:      "types[]=" + strings.Join(o.events, "&types[]=") + "&" + stripeWindow,
		TimeLayout: "unix",
		Items:      "data[]",
		Same: []Same{
			{Field: "request.idempotency_key", Is: "{key}"},
			{Field: "data.object.object", Is: o.kind},
		},
		ID:        "data.object.id",
		Created:   "data.object.created",
		Next:      Paging{Style: PageLastID, Param: "starting_after", Cursor: "id", More: "has_more", Size: 100},
		Means:     o.means,
		Fetch:     o.path() + "/{id}",
		SameShape: true,
		Horizon:   30 * 24 * time.Hour,
		Needs:     "Events: Read",
		Source:    "stripe-go a1e3932 event.go, " + o.kind + ".go [S]; events of 30 days, which show the key: docs.stripe.com/api/events [D]; when one is listed: [?]",
	}}
	reference := Same{Field: "metadata.onceward", Is: "{reference}"}
	list := func(by LookupBy, query string, same ...Same) {
		lookups = append(lookups, Lookup{
			By:         by,
			Path:       o.path(),
			Query:      query + stripeWindow,
			TimeLayout: "unix",
			Items:      "data[]",
			Same:       same,
			ID:         "id",
			Created:    "created",
			Next:       Paging{Style: PageLastID, Param: "starting_after", More: "has_more", Size: 100},
			Means:      o.means,
			SameShape:  true,
			Source:     "stripe-go a1e3932 " + o.kind + ".go [S]; a list is not behind as a search is: docs.stripe.com/search [D]",
		})
	}
	if len(o.same) > 0 {
		list(ByReference, "", append([]Same{reference}, o.same...)...)
	}
	for _, parent := range o.parent {
		named, amount := Same{Field: parent, Is: "{request." + parent + "}"}, Same{Field: "amount", Is: "{request.amount}"}
		amountToo, referenceToo := amount, reference
		amountToo.Optional, referenceToo.Optional = true, true
		list(ByReference, parent+"={request."+parent+"}&", reference, named, amountToo)
		list(ByParent, parent+"={request."+parent+"}&", named, amount, referenceToo)
	}
	return lookups
}

const stripeWindow = "created[gte]={since}&created[lte]={until}&limit=100"

// stripeCards are the fields of a raw card: the number and the code.
var stripeCards = []string{"card.number", "card.cvc", "source.number", "source.cvc", "external_account.number", "external_account.cvc"}

const (
	sourceStripeIdempotency = "docs.stripe.com/api/idempotent_requests [D]"
	sourceStripeErrors      = "docs.stripe.com/error-low-level [D]"
	sourceStripeCodes       = "stripe-go a1e3932 error.go [S]"
)

var stripeV1 = slices.Concat(
	[]Rule{
		{Status: 409, Field: "error.code", Equals: "idempotency_key_in_use", Verdict: InFlight, Source: sourceStripeIdempotency + "; code: " + sourceStripeCodes},
		{Status: 400, Field: "error.type", Equals: "idempotency_error", Verdict: Misuse, Source: sourceStripeCodes + "; status: [C]"},
	},
	stripeNotExecuted,
	stripeShouldRetry,
	[]Rule{
		{Status: 424, Verdict: Indeterminate, Source: sourceStripeErrors + ": executed, an external dependency failed; our reading: the outcome is open"},
		{Status: 500, Through: 599, Header: "Idempotent-Replayed", Value: "true", Verdict: Indeterminate, Source: sourceStripeErrors + ": a stored 500 stays as it is and may have had effects"},
		{Status: 400, Through: 499, Header: "Idempotent-Replayed", Value: "true", Field: "error.type", Verdict: Final, Source: sourceStripeIdempotency + ": the stored result of the first request"},
		{Status: 409, Verdict: Retry, Source: sourceStripeErrors + ": a conflict is not stored and the same key may be sent again"},
	},
	stripeParameterErrors,
	passing[:2],
	[]Rule{
		{Status: 402, Field: "error.type", Verdict: Final, Source: sourceStripeIdempotency + ": results are stored whatever they are; a decline is executed [C]"},
		{Status: 400, Through: 499, Field: "error.type", On: FirstAttempt, Verdict: Final, Source: sourceStripeErrors + ": a corrected request takes a new key"},
		{Status: 400, Through: 499, Field: "error.type", On: LaterAttempt, Header: "Stripe-Should-Retry", Value: "false", Verdict: Indeterminate, Source: sourceStripeErrors + ": not proven to come from past the idempotency layer"},
		{Status: 400, Through: 499, Field: "error.type", On: LaterAttempt, Verdict: Retry, Source: sourceStripeErrors + ": if it was executed, the next answer carries the mark"},
	},
)

var stripeV1Delete = slices.Concat(
	stripeNotExecuted,
	stripeShouldRetry,
	[]Rule{
		{Status: 424, Verdict: Indeterminate, Source: sourceStripeErrors + ": executed, an external dependency failed; our reading: the outcome is open"},
		{Status: 409, Verdict: Retry, Source: sourceStripeErrors + ": a conflict with another request"},
	},
	passing[:2],
	[]Rule{
		{Status: 400, Through: 499, Field: "error.type", On: FirstAttempt, Verdict: Final, Source: sourceStripeErrors},
	},
)

var stripeV2 = slices.Concat(
	[]Rule{
		{Status: 409, Verdict: Retry, Source: "docs.stripe.com/api-v2-overview does not say what a conflict means [?]"},
		{Status: 400, Through: 499, Field: "error.type", Equals: "idempotency_error", Verdict: Misuse, Source: "as in v1; for v2 neither status nor type is published [?]"},
	},
	refused,
	[]Rule{
		{Status: 429, Field: "error.type", Equals: "rate_limit", Verdict: NotExecuted, Source: sourceStripeErrors + ": the limiter runs before the idempotency layer; type: " + sourceStripeCodes},
	},
	stripeShouldRetry,
	passing,
	[]Rule{
		{Status: 400, Through: 499, Field: "error.type", On: FirstAttempt, Verdict: Final, Source: "docs.stripe.com/api-v2-overview [D]: a failure is the answer until a repeat gives another"},
	},
)

// stripeNotExecuted are the answers that Stripe gives before executing, and does not store.
var stripeNotExecuted = slices.Concat(refused, []Rule{
	{Status: 429, Header: "Stripe-Should-Retry", Value: "false", Verdict: Rejected, Source: sourceStripeErrors + ": not executed, and a retry changes nothing"},
	{Status: 429, Field: "error.code", Equals: "lock_timeout", Verdict: NotExecuted, Source: sourceStripeCodes + ": an object is locked; safe to retry"},
	{Status: 429, Verdict: NotExecuted, Source: sourceStripeErrors + ": the limiter runs before the idempotency layer"},
})

var stripeShouldRetry = []Rule{
	{Status: 400, Through: 599, Header: "Stripe-Should-Retry", Value: "true", Verdict: Retry, Source: sourceStripeErrors},
	{Status: 500, Through: 599, Header: "Stripe-Should-Retry", Value: "false", Verdict: Indeterminate, Source: sourceStripeErrors + ": a retry changes nothing, and a 500 may have had effects"},
}

// stripeParameterErrors are refusals by the validation of parameters, which
// comes before execution and is not stored.
var stripeParameterErrors = func() (rules []Rule) {
	for _, code := range []string{
		"parameter_invalid_empty",
		"parameter_invalid_integer",
		"parameter_invalid_string_blank",
		"parameter_invalid_string_empty",
		"parameter_missing",
		"parameter_unknown",
		"parameters_exclusive",
	} {
		rules = append(rules, Rule{Status: 400, Field: "error.code", Equals: code, Verdict: Rejected, Source: sourceStripeIdempotency + ": validation failures are not stored; code: " + sourceStripeCodes})
	}
	return rules
}()
