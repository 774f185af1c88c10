package providers

import (
	"slices"
	"time"
)

// Klarna describes Klarna's API in its three regions, live and playground, and the Klarna Network API, live and test.
// POST and PATCH take a key in Klarna-Idempotency-Key, honored for 24 hours. A repeat gets the initial result. Klarna
// advises UUIDs of version 5 and does not say that other keys are refused. Onceward's keys are of version 4 or,
// derived, 8.
//
// For Order Management Klarna says that a retry with the key is safe after a call that failed midway: the call is
// executed only once per key, and both requests get the same response. It is sent again. For the other APIs Klarna says
// that a repeat is recognized and gets the initial result. Klarna does not say which results are stored, nor how a
// second request during the first is answered. A request that may have run there is not sent again. If you know more,
// set InFlightGuard or HandlingTime on those endpoints. The answer to another request under the same key is not
// published, so 409 is Indeterminate. A rate limit is recognised by Klarna's own header, and was not executed.
//
// The Klarna Network API has one host for all regions. Klarna publishes that the API takes the same header for 24
// hours, but not which results are stored, nor the outcome of two requests at once. A request that may have run there
// is not sent again.
//
// For derived keys of version 5, set UUIDVersion on a copy before the first use. It changes the keys of
// names.
//
// The other methods have an effect and no key. Each region has a separate host, and an operation stays with the first
// host.
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
	return Provider{
		Name:             "klarna",
		CredentialScoped: true,
		Answers:          []string{"application/json", "201"}, // a capture
		Hosts: []string{
			"api.klarna.com", "api-na.klarna.com", "api-oc.klarna.com",
			"api.playground.klarna.com", "api-na.playground.klarna.com", "api-oc.playground.klarna.com",
			"api-global.klarna.com", "api-global.test.klarna.com",
		},
		Source: sourceKlarnaResilience + "; hosts: docs.klarna.com/api/api-urls [D] and docs.klarna.com/api/kn/klarna-notifications-api [D]; the test host: Klarna's modules for Magento and PrestaShop [S]; scope of keys: [?]; a capture's success has no body: php-klarna-ordermanagement 153e705 docs/Api/CapturesApi.md [S]; that its status is 201: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: klarnaKeyless, Source: sourceKlarnaResilience + ": POST and PATCH only"}, "/"),
			each(keyed, "POST /", "PATCH /"),
			each(orders, "POST /ordermanagement/", "PATCH /ordermanagement/"),
		),
	}.Clone()
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
