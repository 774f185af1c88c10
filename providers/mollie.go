package providers

import (
	"slices"
	"time"
)

// Mollie describes Mollie's API. POST, PATCH and DELETE take a key in
// Idempotency-Key, a UUID; Mollie asks for version 4, and does not say that it
// refuses others. Derived keys are of version 8: who wants them of version 4 sets
// UUIDVersion on a copy, before the first use, since it changes the keys that names
// get.
//
// Integrators quote one hour as the time for which keys are kept, the shortest
// of all. What Mollie doesn't publish is how it answers a second request while
// the first is worked on, how long it works, and whether it stores failures: no
// guard is claimed, so that a request that may have run is not sent again.
// Mollie names recurring payments, subscriptions and partial refunds as those
// where a second request does harm, and the list endpoints as the way to find
// out. 400 is said to be the answer to a key that was used with another request,
// but it is not that alone, so that it is never Misuse; 409 is the answer to a
// second refund that looks like the first, which on a retry may have been our
// own. A rate limit of Mollie's was not executed.
//
// What may have run is looked for: a payment among the newest by a field of its metadata,
// onceward, and by its amount, a refund or a capture among those of its payment, by its
// amount and the same field if it has that. To look for a field of your own, change its name
// in Reference, in the look-ups and in the events, and clear Reference.Fill. Events are those of the webhooks that are
// subscribed to with a full payload.
//
// The account is the token's. Tokens of OAuth expire within the hour, so that a new
// one is not taken to end the memory of keys: a service that acts for several
// organizations names each by an account label, or sets CredentialScoped.
//
// The answer to a created webhook holds its secret and is not kept.
func Mollie() Provider {
	keyed := Endpoint{
		Key:       Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
		Retention: time.Hour,
		Remembers: Successes,
		Rules:     mollieRules,
		Source:    sourceMollieIdempotency + "; methods: " + sourceMollieSpec + "; one hour: integrators [C]; stored failures and guard: [?]",
	}
	webhook := keyed
	webhook.SecretResponse = true
	webhook.Source += "; webhookSecret: " + sourceMollieSpec
	payment, refund, capture := keyed, keyed, keyed
	payment.Object, payment.Reference, payment.Lookups = "payment", mollieReference, molliePayments
	refund.Object, refund.Reference, refund.Lookups = "refund", molliePartReference, mollieParts("refund", mollieRefundStates)
	capture.Object, capture.Reference, capture.Lookups = "capture", molliePartReference, mollieParts("capture", mollieCaptureStates)
	p := Provider{
		Name:           "mollie",
		SecretSource:   sourceMollieSpec + ": none, since a card is named by a token (cardToken); our reading: no other field is secret",
		Answers:        jsonAnswers,
		WebhookSchemes: []string{"mollie", "mollie classic"},
		Events:         mollieEvents,
		CredentialModes: []CredentialMode{
			{"test_", "test"}, {"live_", "live"},
		},
		Hosts: []string{"api.mollie.com"},
		Identity: Identity{
			Path: "/v2/profiles/me", Field: "id",
			Source: sourceMollieSpec + ": the profile of an API key; a token of an organization has /v2/organizations/me instead",
		},
		ReplayHeader: "Idempotent-Replayed", ReplayValue: "true",
		Source: sourceMollieIdempotency + "; host: " + sourceMollieSpec + "; the mark: mollie-api-python issue 299 [C]; modes: the examples of " + sourceMollieSpec,
		Endpoints: slices.Concat(
			each(Endpoint{Rules: mollieKeyless, Source: sourceMollieSpec + ": POST, PATCH and DELETE only"}, "/"),
			each(Endpoint{NoEffect: true, Source: sourceMollieSpec}, "POST /oauth2/tokens"),
			each(keyed, "POST /v2/", "PATCH /v2/", "DELETE /v2/", "DELETE /oauth2/tokens"),
			each(webhook, "POST /v2/webhooks"),
			each(payment, "POST /v2/payments"),
			each(refund, "POST /v2/payments/{id}/refunds"),
			each(capture, "POST /v2/payments/{id}/captures"),
		),
	}
	return p.Clone()
}

const (
	sourceMollieIdempotency = "docs.mollie.com/reference/api-idempotency [D]"
	sourceMollieSpec        = "mollie/openapi cfbba47 [D]"
)

// mollieEvents are those of the webhooks that are subscribed to, with a full payload. What is
// sent to the webhookUrl of a payment is not signed, and proves nothing.
var mollieEvents = slices.Concat(
	kinds(molliePaymentEvent, TookEffect, "payment.pending", "payment.authorized", "payment.paid"),
	kinds(molliePaymentEvent, Refused, "payment.failed", "payment.expired"),
	kinds(molliePaymentEvent, Reversed, "payment.canceled"),
)

var molliePaymentEvent = EventRule{
	Field:     "type",
	Endpoint:  "POST /v2/payments",
	Reference: "_embedded.entity.metadata.onceward",
	ID:        "id",
	Object:    "entityId",
	Created:   "_embedded.entity.createdAt",
	At:        "createdAt",
	Also: []Same{
		{Field: "_embedded.entity.amount.value", Is: "{request.amount.value}", As: AsDecimal},
		{Field: "_embedded.entity.amount.currency", Is: "{request.amount.currency}"},
	},
	Source: sourceMollieSpec + " entity-webhook-event, webhook-event-types; sent as such: docs.mollie.com/reference/webhooks-new [D]",
}

// mollieReference is a field in a payment's metadata, if that is an object. Mollie saves
// it alongside the payment and shows it to who fetches that by the API.
var mollieReference = Reference{
	Place: KeyJSONField, Name: "metadata.onceward", MaxLength: 500, Fill: true, Mutable: true,
	Source: sourceMollieSpec + " payment-request: about 1 kB for all metadata; an update can change it",
}

// molliePartReference is the same of a refund or a capture, which nothing updates.
var molliePartReference = func() Reference {
	r := mollieReference
	r.Mutable, r.Source = false, sourceMollieSpec+" refund-request, capture-response: about 1 kB for all metadata; there is no update"
	return r
}()

// molliePayments read the payments from the newest on. The list knows no time and no
// metadata. A token of an organization has to name the profile, and the test mode, as it
// did when it created the payment; an API key must not.
var molliePayments = func() (lookups []Lookup) {
	for _, account := range []string{"&profileId={request.profileId}&testmode={request.testmode}", "&profileId={request.profileId}", ""} {
		lookups = append(lookups, Lookup{
			By:    ByReference,
			Path:  "/v2/payments",
			Query: "limit=250&sort=desc" + account,
			Items: "_embedded.payments[]",
			Same: []Same{
				{Field: "metadata.onceward", Is: "{reference}"},
				{Field: "amount.value", Is: "{request.amount.value}", As: AsDecimal},
				{Field: "amount.currency", Is: "{request.amount.currency}"},
			},
			ID:      "id",
			Created: "createdAt",
			Next:    Paging{Style: PageLink, Cursor: "_links.next.href"},
			Means: []Meaning{
				{"status", "open", TookEffect},
				{"status", "pending", TookEffect},
				{"status", "authorized", TookEffect},
				{"status", "paid", TookEffect},
				{"status", "failed", Refused},
				{"status", "expired", Refused},
				{"status", "canceled", Reversed},
			},
			SameShape: true,
			Needs:     "payments.read",
			Source:    sourceMollieSpec + " list-payments",
		})
	}
	return lookups
}()

var (
	mollieRefundStates = []Meaning{
		{"status", "queued", TookEffect},
		{"status", "pending", TookEffect},
		{"status", "processing", TookEffect},
		{"status", "refunded", TookEffect},
		{"status", "failed", Refused},
		{"status", "canceled", Reversed},
	}
	mollieCaptureStates = []Meaning{
		{"status", "pending", TookEffect},
		{"status", "succeeded", TookEffect},
		{"status", "failed", Refused},
	}
)

// mollieParts read the refunds or the captures of a payment, by their reference if they
// have one.
func mollieParts(object string, means []Meaning) (lookups []Lookup) {
	needs := map[string]string{"refund": "refunds.read", "capture": "payments.read"}
	for _, by := range []LookupBy{ByReference, ByParent} {
		for _, mode := range []string{"&testmode={request.testmode}", ""} {
			lookups = append(lookups, Lookup{
				By:    by,
				Path:  "/v2/payments/{path.id}/" + object + "s",
				Query: "limit=250" + mode,
				Items: "_embedded." + object + "s[]",
				Same: []Same{
					{Field: "metadata.onceward", Is: "{reference}", Optional: by == ByParent},
					{Field: "paymentId", Is: "{path.id}"},
					{Field: "amount.value", Is: "{request.amount.value}", As: AsDecimal},
					{Field: "amount.currency", Is: "{request.amount.currency}"},
				},
				ID:        "id",
				Created:   "createdAt",
				Next:      Paging{Style: PageLink, Cursor: "_links.next.href"},
				Means:     means,
				SameShape: true,
				Needs:     needs[object],
				Source:    sourceMollieSpec + " list-" + object + "s",
			})
		}
	}
	return lookups
}

var (
	mollieRules = slices.Concat(
		conflicts("title", sourceMollieSpec+": a refund like one shortly before; whether it also says in flight is not published [?]"),
		mollieKeyless,
	)

	mollieKeyless = slices.Concat(
		[]Rule{
			{Status: 429, Field: "title", Verdict: NotExecuted, Source: sourceMollieSpec + " 429-rate-limit, on every operation; our reading: it comes before execution"},
		},
		refusals("title", sourceMollieSpec+" error-response"),
	)
)
