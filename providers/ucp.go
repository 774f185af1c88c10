package providers

import (
	"slices"
	"strings"
	"time"
)

// UCP describes a business that implements the Universal Commerce Protocol's REST binding. path is rest.endpoint's path
// in the business's profile, such as "/ucp/v1", or empty. Name the business's hosts.
//
// Every request that changes a cart or a checkout takes a key in Idempotency-Key, remembered for 24 hours at least. A
// repeat with the same bytes gets the cached result. A key with other bytes gets 409. The protocol says nothing about a
// repeat during the first request, nor about a failure's record. So after a lost answer Onceward sends nothing. The
// checkout itself shows whether the request to complete or cancel it took effect. The protocol asks for this order:
// look first, then the same key, which Client.Resolve with SendAgain sends.
//
// A business outcome is a 200, also if nothing took effect: read the checkout's status. A request to complete a checkout
// that is ready once more is a new operation under another name.
//
// Sign in Config.Authorize, which sees each attempt with its key. The signature covers the key and the body's digest.
func UCP(path string, hosts ...string) Provider {
	path = strings.TrimSuffix(path, "/")
	keyed := ucpKeyed("", "")
	sessions, carts := path+"/checkout-sessions", path+"/carts"
	return Provider{
		Name:             "ucp",
		Hosts:            hosts,
		CredentialScoped: true,
		Answers:          jsonAnswers,
		Declines:         []Decline{{Field: "ucp.status", Equals: "error", Source: sourceUCP + "shopping/checkout/rest.md, Business Outcomes: a 200 with ucp.status error has no checkout"}},
		SecretSource:     sourceUCP + "shopping/checkout: a payment instrument's credential is a token of its handler; our reading: no other field is secret",
		Source:           sourceUCP + "signatures.md, Replay Protection: keys are unique per client and type of operation",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: ucpErrors, Source: sourceUCP + "shopping/checkout/rest.md: keys are for operations that change state"}, "/"),
			each(Endpoint{NoEffect: true, Source: "source/services/shopping/rest.openapi.json fdcf893 [S]: searches and look-ups"},
				"POST "+path+"/catalog/search", "POST "+path+"/catalog/lookup", "POST "+path+"/catalog/product"),
			each(keyed, "POST "+sessions, "PUT "+sessions+"/{id}", "POST "+carts, "PUT "+carts+"/{id}", "POST "+carts+"/{id}/cancel"),
			each(ucpKeyed("completed checkout", sessions, TookEffect.of("completed"), InProgress.of("complete_in_progress")), "POST "+sessions+"/{id}/complete"),
			each(ucpKeyed("canceled checkout", sessions, TookEffect.of("canceled")), "POST "+sessions+"/{id}/cancel"),
		),
	}.Clone()
}

// ucpKeyed takes a key. The look-up reads the checkout that the request names.
func ucpKeyed(object, sessions string, means ...[]Meaning) Endpoint {
	e := Endpoint{
		Key:       Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
		Retention: 24 * time.Hour,
		Remembers: Successes,
		Object:    object,
		Rules: slices.Concat(
			[]Rule{
				{Status: 409, Field: "code", On: FirstAttemptOwnKey, Verdict: Final, Source: sourceUCP + "shopping/checkout/rest.md, Status Codes: a conflict, which a new key did not cause"},
				{Status: 409, Verdict: Misuse, Source: sourceUCP + "signatures.md, Replay Protection: the key was used with other bytes, and nothing is executed"},
			},
			ucpErrors,
		),
		Source: sourceUCP + "signatures.md, Replay Protection: at least 24 hours; a repeat with the same bytes gets the cached response; a concurrent repeat and a failure's record: [?]",
	}
	if object != "" {
		e.Lookups = []Lookup{{
			By:     ByParent,
			Path:   sessions + "/{path.id}",
			Same:   []Same{{Field: "id", Is: "{path.id}"}},
			ID:     "id",
			Means:  states("status", means...),
			Needs:  "nothing; after the end of a checkout a business may answer \"not found\"",
			Source: sourceUCP + "shopping/checkout, Complete Checkout and Status Values: Get Checkout shows whether the request was processed",
		}}
	}
	return e
}

const sourceUCP = "Universal-Commerce-Protocol/ucp fdcf893 docs/specification/ [S] "

var ucpErrors = refusalsUnlimited("code", sourceUCP+"overview, Protocol Errors: an error has a code and content")
