package providers

import "slices"

// Flutterwave describes version 4 of Flutterwave's API, live and sandbox.
//
// Every POST takes a key in X-Idempotency-Key. A repeat gets the original response, marked X-Idempotency-Cache-Hit:
// true. Flutterwave does not publish how long a key is remembered, which failures are kept, or how a second request
// during the first is answered. So nothing is sent again.
//
// A charge is found by its reference, which must be unique. No look-up finds a transfer: Flutterwave's transfer list
// has no reference filter, and a published shape was not found. On some hosts, the path begins with the environment.
func Flutterwave() Provider {
	return Provider{
		Name:         "flutterwave",
		Hosts:        []string{"api.flutterwave.cloud", "f4bexperience.flutterwave.com", "developersandbox-api.flutterwave.com"},
		Answers:      jsonAnswers,
		ReplayHeader: "X-Idempotency-Cache-Hit", ReplayValue: "true",
		Source: sourceFlutterwave + "; live hosts: [M]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: flutterwaveRules, Source: sourceFlutterwave + ": POST only"}, "/"),
			each(flutterwaveKeyed, "POST /"),
			flutterwaveCharges(""),
			flutterwaveCharges("/developersandbox"),
			flutterwaveCharges("/f4b/production"),
		),
	}.Clone()
}

const (
	sourceFlutterwave       = "developer.flutterwave.com/docs/idempotency [D]"
	sourceFlutterwaveCharge = "developer.flutterwave.com/reference/charges_post [D]"
)

var flutterwaveKeyed = Endpoint{
	Key:       Key{Place: KeyRawHeader, Name: "X-Idempotency-Key", MinLength: 12, MaxLength: 255},
	Remembers: Successes,
	Rules:     flutterwaveRules,
	Source:    sourceFlutterwave + ": all POST endpoints, the original response; length: " + sourceFlutterwaveCharge + "; retention, failures and guard: [?]",
}

// flutterwaveCharges are the requests below a path that make a charge. Only the list's filter is not Flutterwave's own
// word, and no filter is trusted.
func flutterwaveCharges(below string) []Endpoint {
	charge := flutterwaveKeyed
	charge.Object, charge.ObjectID = "charge", "data.id"
	charge.Reference = Reference{
		Place: KeyJSONField, Name: "reference", MaxLength: 42, Visible: true,
		Source: sourceFlutterwaveCharge + ": 6 to 42 characters, unique across transactions; visibility to payers: [?]",
	}
	charge.Lookups = []Lookup{{
		By:         ByReference,
		Path:       below + "/charges",
		Query:      "reference={reference}&from={since}&to={until}&size=50",
		TimeLayout: "rfc3339",
		Items:      "data[]",
		Same: []Same{
			{Field: "reference", Is: "{reference}"},
			{Field: "amount", Is: "{request.amount}", As: AsDecimal},
			{Field: "currency", Is: "{request.currency}"},
		},
		ID:        "id",
		Created:   "created_datetime",
		Next:      Paging{Style: PageNumber, Param: "page"},
		Fetch:     below + "/charges/{id}",
		Means:     states("data.status", TookEffect.of("pending", "succeeded"), Reversed.of("failed", "voided")),
		SameShape: true,
		Source: "flutterwaveinc.mintlify.app/v4-api-reference/charges/list-charges, retrieve-a-charge [D]: the pages' shape; filters and states: toneflix/flutterwave-4-nodejs-sdk 9e59b5e " +
			"src/Contracts/Api/ChargesApi.ts [C]; when one is listed: [?]",
	}}
	return each(charge, "POST "+below+"/charges", "POST "+below+"/orchestration/direct-charges")
}

var flutterwaveRules = slices.Concat(
	conflicts("status", "what a conflict means for a key is not published [?]"),
	refusalsUnlimited("status", "developer.flutterwave.com [M]: errors have a status"),
)
