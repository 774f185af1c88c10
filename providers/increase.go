package providers

import (
	"slices"
	"time"
)

// Increase describes Increase's API, live and sandbox.
//
// A POST that creates an object takes a key of at most 200 characters in the header Idempotency-Key. One key
// creates at most one object. A second request with the same arguments gets that object, marked
// Idempotent-Replayed: true. Other arguments get 409 and the type idempotency_key_already_used_error. The key
// is bound to the object for its lifetime, without a stated end. Retention is 90 days, as long as a journal
// keeps answers: true, and more than any automatic repeat needs.
//
// The guarantee has no exception, so a request that may have run is sent again. The POSTs that act on an object
// (approve, cancel, …) also take the key, but create no object to hold the key. Nothing rests on the key there. PATCH
// and DELETE are idempotent by Increase's documentation.
//
// Objects carry their key, and every list filters by idempotency_key. That finds an unknown operation's
// object for certain.
func Increase() Provider {
	key := Key{Place: KeyRawHeader, Name: "Idempotency-Key", MaxLength: 200}
	rules := slices.Concat(
		[]Rule{
			{Status: 409, Field: "type", Equals: "idempotency_key_already_used_error", Verdict: Misuse, Source: sourceIncrease + ": a second, different object; resource_id names the first"},
		},
		conflicts("type", sourceIncrease+": says nothing of a request that is being worked on; it is the everyday refusal too"),
		increaseKeyless,
	)
	create := Endpoint{
		Key:       key,
		Retention: 90 * 24 * time.Hour,
		Remembers: SuccessesCleanFailures,

		InFlightGuard: true,

		Rules:  rules,
		Source: sourceIncrease + ": guarantees that at most one object is created per key",
	}
	listed := create
	listed.Object, listed.Lookups = "object", []Lookup{increaseByKey}
	var transfers []Endpoint
	for _, t := range increaseTransfers {
		e, look := create, increaseByKey
		look.Path = "/" + t.kind + "s"
		look.Same = append(slices.Clone(look.Same), Same{Field: t.amount, Is: "{request." + t.amount + "}", As: AsDecimal, Optional: true})
		e.Pattern, e.Object, e.Lookups = "POST "+look.Path, t.kind, []Lookup{look}
		e.Amount = Amount{Value: t.amount, Decimal: t.decimal, Source: sourceIncreaseTransfers}
		if t.currency != "currency" { // which no request names
			e.Amount.Currency = t.currency
		}
		transfers = append(transfers, e)
	}
	return Provider{
		Name:             "increase",
		CredentialScoped: true,
		WebhookSchemes:   []string{"increase"},
		Events:           increaseEvents,
		Feed:             increaseFeed,
		Listings:         increaseListings,
		Answers:          jsonAnswers,
		Hosts:            []string{"api.increase.com", "sandbox.increase.com"},
		ReplayHeader:     "Idempotent-Replayed", ReplayValue: "true",
		Endpoints: slices.Concat(
			each(Endpoint{Key: key, Rules: rules, Source: sourceIncrease + ": recommended on every POST; requests that create no object: [?]"}, "POST /"),
			each(Endpoint{
				Key: key, SecretResponse: true, Rules: rules,
				Source: "increase-go ca1c95b card.go [S]: the answer is a URL that shows a card's number",
			}, "POST /cards/{id}/create_details_iframe"),
			each(Endpoint{NoEffect: true, Source: "increase-go ca1c95b oauthtoken.go [S]: the OAuth token endpoint"}, "POST /oauth/tokens"),
			each(Endpoint{Rules: increaseKeyless, Source: sourceIncrease + ": keys are for POST only"}, "/"),
			each(Endpoint{Idempotent: true, Rules: increaseKeyless, Source: sourceIncrease + ": PATCH, GET and DELETE are inherently idempotent"}, "PATCH /", "DELETE /"),
			each(listed, "POST /{objects}"),
			transfers,
			each(secretly(create, "; the answer is a URL that needs no credential: increase-go ca1c95b filelink.go [S]"), "POST /file_links"),
		),
		Identity: Identity{Path: "/groups/current", Field: "id", Source: "increase-go ca1c95b group.go [S]: the currently authenticated group"},
		Source:   sourceIncrease + "; hosts: increase-go ca1c95b option/requestoption.go [S]; scope of keys: [?]",
	}.Clone()
}

// increaseTransfers are the kinds of transfers. amount and currency are their paths in a transfer, and in the request.
var increaseTransfers = []struct {
	kind, amount, currency string
	decimal                bool
}{
	{"account_transfer", "amount", "currency", false},
	{"ach_transfer", "amount", "currency", false},
	{"card_push_transfer", "presentment_amount.value", "presentment_amount.currency", true},
	{"check_transfer", "amount", "currency", false},
	{"fednow_transfer", "amount", "currency", false},
	{"real_time_payments_transfer", "amount", "currency", false},
	{"swift_transfer", "instructed_amount", "instructed_currency", false},
	{"wire_transfer", "amount", "currency", false},
}

// increaseByKey finds the one object with the key in its list.
var increaseByKey = Lookup{
	By:      ByKey,
	Path:    "/{path.objects}",
	Query:   "idempotency_key={key}&limit=100",
	Items:   "data[]",
	Same:    []Same{{Field: "idempotency_key", Is: "{key}"}},
	ID:      "id",
	Created: "created_at",
	Next:    Paging{Style: PageCursor, Param: "cursor", Cursor: "next_cursor", Size: 100},
	Means: states("status",
		Reversed.of("canceled", "declined", "failed", "refused", "rejected", "returned", "reversed", "stopped"),
		TookEffect.of(
			"pending", "pending_approval", "pending_transfer_session_confirmation", "pending_creating", "pending_reviewing", "pending_submission", "pending_submitting",
			"pending_initiating", "pending_enrolling", "pending_mailing", "submitted", "mailed", "complete", "open", "active")),
	SameShape: true,
	Source: sourceIncrease + ": every object has its key and every list filters by it; lists and states: " +
		"increase-go ca1c95b achtransfer.go, wiretransfer.go, checktransfer.go, fednowtransfer.go, swifttransfer.go, cardpushtransfer.go, cardvalidation.go, " +
		"wiredrawdownrequest.go, export.go, account.go, card.go [S]; when an object is listed: [?]",
}

var increaseKeyless = slices.Concat(
	[]Rule{
		{Status: 429, Field: "type", Equals: "rate_limited_error", Verdict: NotExecuted, Source: "increase.com/documentation/errors [D]: rate limited, and when to retry; our reading: it was not executed"},
	},
	refusals("type", sourceIncreaseErrors),
)

const (
	sourceIncrease          = "increase.com/documentation/idempotency-keys [D]"
	sourceIncreaseTransfers = "increase-go ca1c95b, a file for each kind, such as achtransfer.go [S]"
	sourceIncreaseErrors    = "increase-go ca1c95b internal/apierror [S]: errors carry a type"
)
