package providers

import (
	"slices"
	"time"
)

// Klarna describes Klarna's API in its three regions, live and in the
// playground. POST and PATCH take a key in Klarna-Idempotency-Key, honoured for
// 24 hours; a repeat gets the initial result. Klarna advises UUIDs of version 5
// and does not say that it refuses others; those made here are of version 4 or,
// derived, 8.
//
// For Order Management Klarna says that a retry with the key is safe after a
// call that failed midway, since it is executed once. What it does not publish,
// there or elsewhere, is how it answers a second request while the first is
// worked on, or how long it works: no guard is claimed, so that a request that
// may have run is not sent again. A program that knows better sets
// InFlightGuard or HandlingTime on the endpoints under /ordermanagement/. Nor is
// it published how another request under the same key is answered: 409 is
// Indeterminate.
//
// The other methods have an effect and no key. Each region is a host of its own,
// and an operation stays with the host that it was first sent to.
func Klarna() Provider {
	keyed := Endpoint{
		Key:       Key{Place: KeyRawHeader, Name: "Klarna-Idempotency-Key"},
		Retention: 24 * time.Hour,
		Remembers: Successes,
		Rules:     klarnaRules,
		Source:    sourceKlarnaResilience + "; whether failures are stored, and guard: [?]",
	}
	orders := keyed
	orders.Remembers = SuccessesCleanFailures
	orders.Source = sourceKlarnaRetries + ": a retry after a call that failed midway is safe; guard: [?]"
	p := Provider{
		Name: "klarna",
		Hosts: []string{
			"api.klarna.com", "api-na.klarna.com", "api-oc.klarna.com",
			"api.playground.klarna.com", "api-na.playground.klarna.com", "api-oc.playground.klarna.com",
		},
		Source: sourceKlarnaResilience + "; hosts: docs.klarna.com/api/api-urls [D]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: klarnaRules, Source: sourceKlarnaResilience + ": POST and PATCH only"}, "/"),
			each(keyed, "POST /", "PATCH /"),
			each(orders, "POST /ordermanagement/", "PATCH /ordermanagement/"),
		),
	}
	return *p.clone()
}

const (
	sourceKlarnaResilience = "docs.klarna.com/api/integration-resilience [D]"
	sourceKlarnaRetries    = "docs.klarna.com/api/escalation-and-retry-policy [D]"
	sourceKlarnaErrors     = "docs.klarna.com/resources/developer-tools/error-handling/error-codes-and-messages-for-order-management [D]"
)

var klarnaRules = slices.Concat(
	[]Rule{
		{Status: 409, Verdict: Indeterminate, Source: sourceKlarnaErrors + ": it conflicts with the state of the resource; whether it also says in flight or misuse is not published [?]"},
	},
	refusals("error_code", sourceKlarnaErrors),
)
