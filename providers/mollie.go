package providers

import (
	"slices"
	"time"
)

// Mollie describes Mollie's API. POST, PATCH and DELETE take a key in Idempotency-Key, a UUID. Mollie asks for version
// 4, and does not say that other keys are refused. Derived keys are of version 8. For derived keys with version 4, set
// UUIDVersion on a copy before the first use, because it changes the keys for names.
//
// Integrators quote one hour as the keys' retention, the shortest among all providers. Mollie does not publish the
// answer to a second request during the first, how long a request takes, or whether failures are stored. No guard is
// claimed, so a request that may have run is not sent again. Mollie names recurring payments, subscriptions and partial
// refunds as harmed by a second request, and the list endpoints as the way to check. 400 is said to answer a key that
// was used with another request, but has other meanings too, so 400 is never Misuse. 409 answers a second refund like
// the first, which on a retry may be the operation's own. A rate limit of Mollie's was not executed.
//
// Look-ups find a payment among the newest by a metadata field, onceward, and by its amount. They find a refund or a
// capture among the payment's, by the amount and by the same field if there is one. To use a field of your own, change
// its name in Reference, in the look-ups and in the events, and clear Reference.Fill. Events come from webhooks
// subscribed with a full payload.
//
// The account belongs to the token. OAuth tokens expire within the hour, so a new token does not end the
// memory of keys. A service that acts for several organizations gives each an account label, or sets
// CredentialScoped.
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
	payment.Amount = Amount{Value: "amount.value", Currency: "amount.currency", Decimal: true, Source: sourceMollieSpec + " payment-request"}
	refund.Object, refund.Reference, refund.Lookups = "refund", molliePartReference, mollieParts("refund", mollieRefundStates)
	refund.Amount = payment.Amount
	refund.Amount.Source = sourceMollieSpec + " refund-request"
	capture.Object, capture.Reference, capture.Lookups = "capture", molliePartReference, mollieParts("capture", mollieCaptureStates)
	return Provider{
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
	}.Clone()
}

const (
	sourceMollieIdempotency = "docs.mollie.com/reference/api-idempotency [D]"
	sourceMollieSpec        = "mollie/openapi cfbba47 [D]"
)

// mollieEvents come from webhooks subscribed with a full payload. Calls to a payment's webhookUrl are not
// signed, and prove nothing.
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

// mollieReference is a field in a payment's metadata, if the metadata is an object. Mollie saves the metadata with the
// payment and shows it to API clients that fetch the payment.
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

// molliePayments reads the payments from the newest on. The list filters by neither time nor metadata. An
// organization's token must name the profile and the test mode, as at the payment's creation. An API key must not.
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
			ID:        "id",
			Created:   "createdAt",
			Next:      Paging{Style: PageLink, Cursor: "_links.next.href"},
			Means:     states("status", TookEffect.of("open", "pending", "authorized", "paid"), Refused.of("failed", "expired"), Reversed.of("canceled")),
			SameShape: true,
			Needs:     "payments.read",
			Source:    sourceMollieSpec + " list-payments",
		})
	}
	return lookups
}()

var (
	mollieRefundStates  = states("status", TookEffect.of("queued", "pending", "processing", "refunded"), Refused.of("failed"), Reversed.of("canceled"))
	mollieCaptureStates = states("status", TookEffect.of("pending", "succeeded"), Refused.of("failed"))
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
