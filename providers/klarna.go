package providers

import (
	"slices"
	"time"
)

// Klarna describes Klarna's API in its three regions, live and in the
// playground, and the Klarna Network API, live and in its test environment. POST and PATCH take a key in Klarna-Idempotency-Key, honoured for
// 24 hours; a repeat gets the initial result. Klarna advises UUIDs of version 5
// and does not say that it refuses others; those made here are of version 4 or,
// derived, 8.
//
// For Order Management Klarna says that a retry with the key is safe after a
// call that failed midway, since it is executed only once per key, and that both
// requests get the same response: it is sent again. For the other APIs it says that
// a repeat is recognized and gets the initial result, but neither what it stores nor
// how it answers a second request while the first is worked on: what may have run
// there is not sent again. A program that knows better sets InFlightGuard or
// HandlingTime on those endpoints. How another request under the same key is
// answered is not published: 409 is Indeterminate. A rate limit is known by Klarna's
// own header, and was not executed.
//
// The Klarna Network API has a host of its own for all regions. That it takes the same
// header for 24 hours is published, but neither what it stores nor what becomes of two
// requests at once: what may have run there is not sent again.
//
// Who wants derived keys of version 5 sets UUIDVersion on a copy, before the first use:
// it changes the keys that names get.
//
// The other methods have an effect and no key. Each region is a host of its own,
// and an operation stays with the host that it was first sent to.
func Klarna() Provider {
	keyed := Endpoint{
		Key:       Key{Place: KeyRawHeader, Name: "Klarna-Idempotency-Key"},
		Retention: 24 * time.Hour,
		Remembers: SuccessesLostAnswers,
		Rules:     klarnaRules,
		Source:    sourceKlarnaResilience + ": a repeat is recognized and gets the initial result; whether failures are stored, and guard: [?]",
	}
	orders := keyed
	orders.Remembers, orders.InFlightGuard = SuccessesCleanFailures, true
	orders.Source = sourceKlarnaRetries + ": a retry after a call that failed midway is safe, since it is executed only once per key; both get the same response"
	p := Provider{
		Name:             "klarna",
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Hosts: []string{
			"api.klarna.com", "api-na.klarna.com", "api-oc.klarna.com",
			"api.playground.klarna.com", "api-na.playground.klarna.com", "api-oc.playground.klarna.com",
			"api-global.klarna.com", "api-global.test.klarna.com",
		},
		Source: sourceKlarnaResilience + "; hosts: docs.klarna.com/api/api-urls [D] and docs.klarna.com/api/kn/klarna-notifications-api [D]; the test host: Klarna's modules for Magento and PrestaShop [S]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: klarnaKeyless, Source: sourceKlarnaResilience + ": POST and PATCH only"}, "/"),
			each(keyed, "POST /", "PATCH /"),
			each(orders, "POST /ordermanagement/", "PATCH /ordermanagement/"),
		),
	}
	return p.Clone()
}

const (
	sourceKlarnaResilience = "docs.klarna.com/api/integration-resilience [D]"
	sourceKlarnaRetries    = "docs.klarna.com/api/escalation-and-retry-policy [D]"
	sourceKlarnaErrors     = "docs.klarna.com/resources/developer-tools/error-handling/error-codes-and-messages-for-order-management [D]"
)

var (
	klarnaRules = slices.Concat(
		conflicts("error_code", sourceKlarnaErrors+": it conflicts with the state of the resource; whether it also says in flight or misuse is not published [?]"),
		klarnaKeyless,
	)

	klarnaKeyless = slices.Concat(
		[]Rule{
			{Status: 429, Header: "X-Ratelimit-Limit", Verdict: NotExecuted, Source: "docs.klarna.com/api-reference/rate-limit [D]: every request is answered so until the limit resets; our reading: none is executed"},
		},
		refusals("error_code", sourceKlarnaErrors),
	)
)
