package providers

import (
	"slices"
	"time"
)

// Mangopay describes Mangopay's API, live and sandbox.
//
// Every POST takes a key in Idempotency-Key: 16 to 36 letters, digits and hyphens. For 24 hours Mangopay blocks all but
// the first request with a key, whatever its result. A request that may have run is therefore sent again. If the first
// never arrived, the repeat is executed. If it did arrive, the answer is 409 with the type
// idempotent_creation_conflict. It does not show the first result, so the operation is unknown. The first answer can be
// read by its key for 24 hours. Such a read finds the shown payments, transfers, refunds, payouts, wallets and users.
//
// A failed first request also keeps the key, so a repeat after a received failure is blocked too. The other
// methods take no key. OAuth tokens pass through.
func Mangopay() Provider {
	keyed := Endpoint{
		Pattern:       "POST /",
		Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key", MinLength: 16, MaxLength: 36, Alphabet: alphanumeric + "-"},
		Retention:     24 * time.Hour,
		Remembers:     Everything,
		InFlightGuard: true,
		Rules: slices.Concat(
			[]Rule{
				{Status: 409, Field: "Type", Equals: "idempotent_creation_conflict", Verdict: Indeterminate, Source: sourceMangopay + ": all but the first request are blocked, whatever its answer was"},
				{Status: 409, Verdict: Indeterminate, Source: "docs.mangopay.com/errors/http-response-codes [D]: not processed, since there is one with the key"},
			},
			mangopayKeyless,
		),
		Source: sourceMangopay + ": all but the first within 24 hours are blocked; a request is only processed once",
	}
	p := Provider{
		Name:    "mangopay",
		Hosts:   []string{"api.mangopay.com", "api.sandbox.mangopay.com"},
		Answers: jsonAnswers,
		Source:  sourceMangopay + "; the sandbox's host: [M]; keys are looked up by client: docs.mangopay.com/api-reference/api-responses/view-api-response [D]",
		Endpoints: []Endpoint{
			{Pattern: "/", Rules: mangopayKeyless, Source: sourceMangopay + ": POST only"},
			{Pattern: "POST /{version}/oauth/token", NoEffect: true, Source: "docs.mangopay.com [D]: the OAuth token endpoint"},
			keyed,
		},
	}
	// A caller's own key may have been another request's: its answer then belongs to this request by the key alone.
	amount := Same{Field: "Resource.DebitedFunds.Amount", Is: "{request.DebitedFunds.Amount}", Optional: true}
	parent := Same{Field: "Resource.InitialTransactionId", Is: "{path.id}"}
	for _, made := range []struct {
		object, at string
		means      []Meaning
		paths      []string
		same       []Same
	}{
		{"transfer", "transfers", mangopayStates, []string{"transfers"}, []Same{amount}},
		{"refund", "refunds", mangopayStates, []string{"transfers/{id}/refunds", "payins/{id}/refunds"}, []Same{parent}},
		{"payout", "payouts", mangopayStates, slashed("payouts/bankwire"), []Same{amount}},
		{"payin", "payins", mangopayStates, slashed("payins/card/direct", "payins/card/web", "payins/bankwire/direct", "payins/preauthorized/direct"), []Same{amount}},
		{"wallet", "wallets", mangopayExists, []string{"wallets"}, nil},
		{"user", "users/natural", mangopayExists, []string{"users/natural"}, nil},
		{"user", "users/legal", mangopayExists, []string{"users/legal"}, nil},
	} {
		for _, path := range made.paths {
			found := keyed
			found.Pattern, found.Object, found.ObjectID = "POST /{version}/{client}/"+path, made.object, "Id"
			found.Lookups = []Lookup{{
				By:   ByKey,
				Path: "/{path.version}/{path.client}/responses/{key}",
				// Errors are kept, too, and have an Id of their own.
				Same:      slices.Concat([]Same{{Field: "StatusCode", Is: "200"}}, made.same),
				ID:        "Resource.Id",
				Created:   "Resource.CreationDate",
				Means:     made.means,
				Fetch:     "/{path.version}/{path.client}/" + made.at + "/{id}",
				SameShape: true,
				Horizon:   24 * time.Hour,
				Source: "docs.mangopay.com/api-reference/api-responses/view-api-response and /api-response-object [D]: the answer to the request with the key, within 24 hours; " +
					"the fetched object, with the amount and the refunded transaction: mangopay2-nodejs-sdk 3366fba lib/apiMethods.js, typings/models [S]",
			}}
			p.Endpoints = append(p.Endpoints, found)
		}
	}
	return p.Clone()
}

// slashed are paths that the SDKs end with a slash, and the documentation does not.
func slashed(paths ...string) (both []string) {
	for _, path := range paths {
		both = append(both, path, path+"/{$}")
	}
	return both
}

var (
	mangopayStates = states("Status", TookEffect.of("CREATED", "SUCCEEDED"), Reversed.of("FAILED"))
	mangopayExists = []Meaning{{Field: "Id", Is: TookEffect}}
)

const sourceMangopay = "docs.mangopay.com/api-reference/overview/idempotency [D]"

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

var mangopayKeyless = refusals("Type", sourceMangopay+": its errors have a Type")
