package providers

import "slices"

// GoCardless describes the GoCardless API, live and in its sandbox. A creation
// takes a key in Idempotency-Key. GoCardless says that only one resource is
// created under a key however often the request is made, and that a 4xx means
// that none was.
//
// A repeat is never answered with the first answer but by 409, with the reason
// idempotent_creation_conflict and the first one's ID. That is [AlreadyDone]:
// the operation completes, and where the resource is found below the URL it was
// created at (POST /payments, GET /payments/PM123) it is fetched and becomes the
// answer. To keep the 409 and its pointer instead, set FetchPointer to false.
// GoCardless is not known to compare requests.
//
// For how long keys are kept and how long they may be is not published: a request
// that may have run is not sent again. A program that has a retention from GoCardless
// sets it on the creations, and gets the 409 instead of an unknown outcome. Whose the
// keys are is not published either, and the account is the token's: nothing is sent
// again once that has changed.
//
// Actions (POST /payments/PM123/actions/cancel) get a key because GoCardless's
// own SDKs send one, but nothing rests on it.
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
	action := Endpoint{
		Key:    creation.Key,
		Rules:  gocardlessOthers,
		Source: sourceGoCardlessSDK + ": the SDK sends a key; " + sourceGoCardlessKeys + " speaks of creations only [?]",
	}
	p := Provider{
		Name:             "gocardless",
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Hosts:            []string{"api.gocardless.com", "api-sandbox.gocardless.com"},
		Source:           sourceGoCardlessKeys + "; hosts: " + sourceGoCardlessSDK + " options.go; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: gocardlessOthers, Source: sourceGoCardlessKeys + ": creations only"}, "/"),
			each(Endpoint{NoEffect: true, Source: sourceGoCardlessSDK + " bank_details_lookup_service.go"}, "POST /bank_details_lookups"),
			each(action, "POST /"),
			each(fetched, "POST /{collection}"),
			each(creation,
				"POST /billing_requests/create_with_actions",
				"POST /blocks/block_by_ref",
				"POST /branding/logos",
				"POST /branding/payer_themes",
				"POST /outbound_payments/withdrawal"),
		),
	}
	return p.Clone()
}

const (
	sourceGoCardlessKeys = "gocardless.com/blog/idempotency-keys [D]"
	sourceGoCardlessSDK  = "gocardless-pro-go 553b873 [S]"
)

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
