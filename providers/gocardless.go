package providers

import "slices"

// GoCardless describes the GoCardless API, live and sandbox. A creation takes a key in Idempotency-Key. GoCardless says
// that one key creates only one resource, however often the request is made, and that a 4xx means no resource.
//
// A repeat never gets the first answer. It gets 409 with the reason idempotent_creation_conflict and the first
// resource's ID, which is [AlreadyDone]: the operation completes. If the resource is below the URL of the creation
// (POST /payments, GET /payments/PM123), the client fetches the resource as the answer. To keep the 409 and its pointer
// instead, set FetchPointer to false. GoCardless is not known to compare requests.
//
// The retention and the length of keys are not published, so a request that may have run is not sent again.
// If GoCardless gave you a retention, set it on the creations. The repeat then gets the 409 instead of an
// unknown outcome. The scope of keys is not published either, and the account belongs to the token. Nothing
// is sent again once that has changed.
//
// Look-ups find a payment among the mandate's payments by a metadata field, onceward, and a refund among the payment's
// refunds. Events of payments trigger a look-up. To use a metadata field of your own, change its name in Reference, in
// the look-up and in the event, and clear Reference.Fill.
//
// Actions (POST /payments/PM123/actions/cancel) get a key because GoCardless's own SDKs send one, but nothing
// rests on it.
func GoCardless() Provider {
	creation := Endpoint{
		Key:       Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
		Remembers: SuccessesCleanFailures,

		InFlightGuard: true,

		Rules:  gocardlessRules,
		Source: sourceGoCardlessKeys + ": only one resource per key, regardless of how many times a request is sent; retention and length: [?]",
	}
	fetched := creation
	fetched.FetchPointer = true
	payment, refund := fetched, fetched
	payment.Object, payment.ObjectID, payment.Reference, payment.Lookups = "payment", "payments.id", gocardlessReference("payment"), []Lookup{gocardlessPayments}
	payment.Amount = Amount{Value: "payments.amount", Currency: "payments.currency", Source: sourceGoCardlessSDK + " payment_service.go: in the smallest unit"}
	refund.Object, refund.ObjectID, refund.Reference, refund.Lookups = "refund", "refunds.id", gocardlessReference("refund"), gocardlessRefunds
	refund.Amount = Amount{Value: "refunds.amount", Source: sourceGoCardlessSDK + " refund_service.go: in the smallest unit; our reading: in the payment's currency"}
	action := Endpoint{
		Key:    creation.Key,
		Rules:  gocardlessOthers,
		Source: sourceGoCardlessSDK + ": the SDK sends a key; " + sourceGoCardlessKeys + " speaks of creations only [?]",
	}
	return Provider{
		Name:             "gocardless",
		SecretSource:     sourceGoCardlessSDK + ": none, since no request takes a card; our reading: no other field is secret",
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Identity: Identity{
			Path: "/creditors", Field: "creditors[].id",
			Source: sourceGoCardlessSDK + " creditor_service.go; it does not identify a token of an organisation with several creditors",
		},
		WebhookSchemes: []string{"gocardless"},
		Events:         gocardlessEvents,
		Feed:           gocardlessFeed,
		Listings:       gocardlessListings,
		Hosts:          []string{"api.gocardless.com", "api-sandbox.gocardless.com"},
		Source:         sourceGoCardlessKeys + "; hosts: " + sourceGoCardlessSDK + " options.go; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: gocardlessOthers, Source: sourceGoCardlessKeys + ": creations only"}, "/"),
			each(Endpoint{NoEffect: true, Source: sourceGoCardlessSDK + " bank_details_lookup_service.go"}, "POST /bank_details_lookups"),
			each(action, "POST /"),
			each(fetched, "POST /{collection}"),
			each(payment, "POST /payments"),
			each(refund, "POST /refunds"),
			each(creation,
				"POST /billing_requests/create_with_actions",
				"POST /blocks/block_by_ref",
				"POST /branding/logos",
				"POST /branding/payer_themes",
				"POST /outbound_payments/withdrawal"),
		),
	}.Clone()
}

const (
	sourceGoCardlessKeys = "gocardless.com/blog/idempotency-keys [D]"
	sourceGoCardlessSDK  = "gocardless-pro-go 553b873 [S]"
)

// gocardlessReference is one of the three fields that a payment's or refund's metadata has room for.
func gocardlessReference(object string) Reference {
	return Reference{
		Place: KeyJSONField, Name: object + "s.metadata.onceward", MaxLength: 500, MaxPairs: 3, Fill: true, Mutable: true,
		Source: sourceGoCardlessSDK + " " + object + "_service.go: the integrator's own, on create and update; its bounds: gocardless-dotnet e902187 Resources [S]",
	}
}

// gocardlessEvents report a change of a payment, which triggers a look-up. A payment that failed may be tried
// again.
var gocardlessEvents = []EventRule{{
	Field:     "resource_type",
	Equals:    "payments",
	Endpoint:  "POST /payments",
	Items:     "events[]",
	Reference: "resource_metadata.onceward",
	ID:        "id",
	Object:    "links.payment",
	At:        "created_at",
	Thin:      true,
	Source:    sourceGoCardlessSDK + " event_service.go; several in one request: developer.gocardless.com/partners/webhooks-for-partners [D]",
}}

// These are the meanings of a listed payment or refund for its request. A payment that failed may be tried
// again.
var (
	gocardlessPayments = Lookup{
		By:         ByReference,
		Path:       "/payments",
		Query:      "mandate={request.payments.links.mandate}&created_at[gte]={since}&created_at[lte]={until}",
		TimeLayout: "rfc3339",
		Items:      "payments[]",
		Same: []Same{
			{Field: "metadata.onceward", Is: "{reference}"},
			{Field: "links.mandate", Is: "{request.payments.links.mandate}"},
			{Field: "amount", Is: "{request.payments.amount}", As: AsDecimal},
			{Field: "currency", Is: "{request.payments.currency}"},
		},
		ID:      "id",
		Created: "created_at",
		Next:    Paging{Style: PageCursor, Param: "after", Cursor: "meta.cursors.after"},
		Fetch:   "/payments/{id}",
		Means: states("payments.status",
			TookEffect.of("pending_customer_approval", "pending_submission"),
			InProgress.of("failed"),
			Refused.of("customer_approval_denied"),
			Reversed.of("cancelled", "charged_back")),
		SameShape: true,
		Source:    sourceGoCardlessSDK + " payment_service.go; states: gocardless-dotnet e902187 Resources/Payment.cs [S]",
	}
)

// gocardlessRefunds read the refunds of a payment, by their reference if they have one.
var gocardlessRefunds = func() (lookups []Lookup) {
	for _, by := range []LookupBy{ByReference, ByParent} {
		lookups = append(lookups, Lookup{
			By:         by,
			Path:       "/refunds",
			Query:      "payment={request.refunds.links.payment}&created_at[gte]={since}&created_at[lte]={until}",
			TimeLayout: "rfc3339",
			Items:      "refunds[]",
			Same: []Same{
				{Field: "metadata.onceward", Is: "{reference}", Optional: by == ByParent},
				{Field: "links.payment", Is: "{request.refunds.links.payment}"},
				{Field: "amount", Is: "{request.refunds.amount}", As: AsDecimal},
			},
			ID:        "id",
			Created:   "created_at",
			Next:      Paging{Style: PageCursor, Param: "after", Cursor: "meta.cursors.after"},
			Fetch:     "/refunds/{id}",
			Means:     states("refunds.status", TookEffect.of("created", "pending_submission"), Reversed.of("cancelled", "bounced", "funds_returned")),
			SameShape: true,
			Source:    sourceGoCardlessSDK + " refund_service.go; states: gocardless-dotnet e902187 Resources/Refund.cs [S]",
		})
	}
	return lookups
}()

var (
	gocardlessRules = slices.Concat(
		[]Rule{
			{Status: 409, Field: "error.errors[].reason", Equals: "idempotent_creation_conflict", Verdict: AlreadyDone, Pointer: "error.errors[].links.conflicting_resource_id", Source: sourceGoCardlessKeys + "; fields: " + sourceGoCardlessSDK + " gc.go"},
			{Status: 409, Field: "error.errors[].reason", Equals: "idempotent_creation_conflict", Verdict: Indeterminate, Source: sourceGoCardlessKeys + ": it was created, but the answer does not say which one it is"},
		},
		conflicts("error.type", sourceGoCardlessKeys+": another conflict, which may be one in flight [?]"),
		gocardlessOthers,
	)

	gocardlessOthers = slices.Concat(
		[]Rule{
			{Status: 429, Field: "error.type", Verdict: NotExecuted, Source: sourceGoCardlessKeys + ": a 4xx says that nothing was created; field: " + sourceGoCardlessSDK + " gc.go"},
		},
		refusals("error.type", sourceGoCardlessKeys+": a 4xx says that nothing was created; field: "+sourceGoCardlessSDK+" gc.go"),
	)
)
