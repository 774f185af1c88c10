package providers

import (
	"slices"
	"time"
)

// Dwolla describes Dwolla's API, live and sandbox.
//
// Every POST takes a key in the header Idempotency-Key, kept for 24 hours, together with the exactly equal
// body. Several POSTs with both do not create several resources, and a repeat gets 201 with the original. A
// changed body under the same key may create a second resource instead of an error. The bytes of an operation
// therefore never change: they are frozen at its first attempt.
//
// 409 answers a second request under a key that is in use. An incident of February 2025 shows that a 500 can
// leave the key locked. 409 then stays until the 24 hours have passed, and the operation becomes unknown.
// Look the transfer up first: a new key before that would be a second operation.
//
// The length and the scope of keys are not published. Keys outlive access tokens, which expire within the hour. A new
// token for the same account therefore does not end the memory for keys.
//
// A transfer or a mass payment of the main account is found by its correlationId, if there is one.
func Dwolla() Provider {
	keyed := Endpoint{
		Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
		Retention:     24 * time.Hour,
		Remembers:     SuccessesCleanFailures,
		InFlightGuard: true,
		Rules: slices.Concat(
			[]Rule{
				{Status: 409, On: LaterAttempt, Verdict: InFlight, Source: sourceDwolla + ": the original request is still being processed; status.dwolla.com/incidents/bkl5393wxlhf [D]: or failed, and the key is locked"},
				{Status: 409, On: FirstAttempt, Verdict: Retry, Source: sourceDwolla + ": proves an earlier request only where one was sent; no code in the body is documented"},
			},
			refusals("code", sourceDwollaErrors),
		),
		Source: sourceDwolla + ": POSTs with the same key and the same body don't create several resources",
	}
	transfer := keyed
	transfer.Pattern, transfer.Object = "POST /transfers", "transfer"
	transfer.Reference, transfer.Lookups = dwollaReference, []Lookup{dwollaTransfers}
	transfer.Amount = Amount{Value: "amount.value", Currency: "amount.currency", Decimal: true, Source: sourceDwollaSpec + " initiateTransfer"}
	mass := keyed
	mass.Pattern, mass.Object = "POST /mass-payments", "mass-payment"
	mass.Reference, mass.Lookups = dwollaMassReference, []Lookup{dwollaMassPayments}
	return Provider{
		Name:           "dwolla",
		Hosts:          []string{"api.dwolla.com", "api-sandbox.dwolla.com"},
		WebhookSchemes: []string{"dwolla"},
		Events:         dwollaEvents,
		Answers:        []string{"application/json", "201"}, // a created resource is in Location
		Endpoints: slices.Concat(
			each(keyed, "POST /"),
			[]Endpoint{transfer, mass},
			each(Endpoint{NoEffect: true, Source: "developers.dwolla.com/docs/api-reference/api-fundamentals/authorization [D]: the OAuth token endpoint"}, "POST /token"),
			each(Endpoint{Rules: refusals("code", sourceDwollaErrors), Source: sourceDwolla + ": speaks of POST only"}, "/"),
			each(secretly(keyed, "; the answer is a token: developers.dwolla.com/api-reference/drop-in-components/create-client-token [D]"), "POST /client-tokens"),
			each(secretly(keyed, "; the answer is a token: developers.dwolla.com/api-reference/funding-sources/create-a-funding-sources-token-for-dwolla-js [D]"),
				"POST /customers/{id}/funding-sources-token"),
		),
		Identity: Identity{Path: "/", Field: "_links.account.href", Last: true, Source: sourceDwollaSpec + " getRoot"},
		Source:   sourceDwolla + "; hosts: its examples; a 201 has no body: " + sourceDwollaSpec + " initiateTransfer",
	}.Clone()
}

var (
	dwollaReference = Reference{
		Place: KeyJSONField, Name: "correlationId", MaxLength: 255, Mutable: true,
		Source: sourceDwollaSpec + " initiateTransfer, InvalidCorrelationIdError; our reading: it is shown to no payer; whether it can be changed: [?]",
	}

	dwollaTransfers = Lookup{
		By:    ByReference,
		Path:  "/accounts/{account}/transfers",
		Query: "correlationId={reference}",
		Items: "_embedded.transfers[]",
		Same: []Same{
			{Field: "correlationId", Is: "{reference}"},
			{Field: "amount.value", Is: "{request.amount.value}", As: AsDecimal},
			{Field: "amount.currency", Is: "{request.amount.currency}", As: AnyCase},
		},
		ID:      "id",
		Created: "created",
		Next:    Paging{Style: PageOffset, Param: "offset"},
		Means:   states("status", TookEffect.of("pending", "processed"), Reversed.of("cancelled", "failed")),
		Source:  sourceDwollaSpec + " listAndSearchTransfers: those of the main account; at most 10,000; when one is listed: [?]",
	}

	dwollaMassReference = func() Reference {
		r := dwollaReference
		r.Source = sourceDwollaSpec + " initiateMassPayment: for traceability; its bounds are those of a transfer's; whether it can be changed: [?]"
		return r
	}()

	// A mass payment has a total, which no request says, and a source.
	dwollaMassPayments = Lookup{
		By:    ByReference,
		Path:  "/accounts/{account}/mass-payments",
		Query: "correlationId={reference}",
		Items: "_embedded.mass-payments[]",
		Same: []Same{
			{Field: "correlationId", Is: "{reference}"},
			{Field: "_links.source.href", Is: "{request._links.source.href}"},
		},
		ID:      "id",
		Created: "created",
		Next:    Paging{Style: PageOffset, Param: "offset"},
		Means:   states("status", TookEffect.of("deferred", "pending", "processing", "complete"), Reversed.of("cancelled")),
		Source:  sourceDwollaSpec + " listMassPayments, getMassPayment, updateMassPayment, MassPayment: those of the main account, with a link to their source; when one is listed: [?]",
	}
)

const (
	sourceDwollaSpec   = "dwolla-openapi d4901e4 [D]"
	sourceDwolla       = "developers.dwolla.com/docs/api-reference/api-fundamentals/idempotency-key [D]"
	sourceDwollaErrors = "developers.dwolla.com/docs/balance/api-reference/api-fundamentals/errors [D]: errors carry a code"
)
