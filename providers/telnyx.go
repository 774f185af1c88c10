package providers

import "slices"

// Telnyx describes Telnyx's API.
//
// A POST may take a key in Idempotency-Key: 1 to 255 letters, digits, hyphens, underscores and colons. Which endpoints
// do, and with which contract, their own reference says, so nothing rests on the key here. In general only a success is
// replayed, for up to 24 hours: that is no lower bound, and none is claimed. Keys belong to organization, method and
// path. Another body or query gets 422, as other invalid requests do, and bodies are compared byte by byte.
//
// If your endpoint's reference promises a retention and a guard, set Retention and InFlightGuard.
//
// An order of one number is found by its customer_reference. Messages and calls show no mark of their request.
func Telnyx() Provider {
	return Provider{
		Name:    "telnyx",
		Hosts:   []string{"api.telnyx.com"},
		Answers: jsonAnswers,
		Source:  sourceTelnyx + "; scope of keys: the organization, whatever its API key",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: telnyxRules, Source: sourceTelnyx + ": where the endpoint's reference says so"}, "/"),
			each(telnyxKeyed(Endpoint{}), "POST /v2/"),
			each(telnyxKeyed(Endpoint{Object: "number order", ObjectID: "data.id", Reference: telnyxReference, Lookups: []Lookup{telnyxOrders}}), "POST /v2/number_orders"),
		),
	}.Clone()
}

// telnyxKeyed takes a key.
func telnyxKeyed(e Endpoint) Endpoint {
	e.Key = Key{Place: KeyRawHeader, Name: "Idempotency-Key", MinLength: 1, MaxLength: 255, Alphabet: alphanumeric + "_:-"}
	e.Remembers = Successes
	e.Rules = telnyxRules
	e.Source = sourceTelnyx + ": only successes are replayed, for up to 24 hours; endpoints may differ; guard: [?]"
	return e
}

const (
	sourceTelnyx    = "developers.telnyx.com/docs/development/api-fundamentals/idempotency [D]"
	sourceTelnyxSDK = "telnyx-go 3972505 numberorder.go [S]"
)

var (
	telnyxReference = Reference{
		Place: KeyJSONField, Name: "customer_reference", Visible: true, Mutable: true,
		Source: sourceTelnyxSDK + ": a reference for customer look ups; an update may change it; length, and whether others see it: [?]",
	}

	// telnyxOrders finds an order of one number. The numbers of a larger one could not be compared.
	telnyxOrders = Lookup{
		By:         ByReference,
		Path:       "/v2/number_orders",
		Query:      "filter[customer_reference]={reference}&filter[created_at][gt]={since}&filter[created_at][lt]={until}&page[size]=100",
		TimeLayout: "rfc3339",
		Items:      "data[]",
		Same: []Same{
			{Field: "customer_reference", Is: "{reference}"},
			{Field: "phone_numbers[].phone_number", Is: "{request.phone_numbers[].phone_number}"},
			{Field: "connection_id", Is: "{request.connection_id}", Optional: true},
			{Field: "messaging_profile_id", Is: "{request.messaging_profile_id}", Optional: true},
		},
		ID:      "id",
		Created: "created_at",
		Next:    Paging{Style: PageNumber, Param: "page[number]"},
		Means:   states("status", TookEffect.of("pending", "success"), Reversed.of("failure")),
		Source:  sourceTelnyxSDK + ": filters, fields and states; when one is listed: [?]",
	}
)

var telnyxRules = slices.Concat(
	conflicts("errors[].code", "what a conflict means for a key is said per endpoint [?]"),
	refusalsUnlimited("errors[].code", "developers.telnyx.com [M]: errors have a code"),
)
