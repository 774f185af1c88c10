package providers

import (
	"net/url"
	"slices"
	"time"
)

// Wise describes the Wise Platform API, live and in its sandbox, with and
// without mutual TLS. A transfer (POST /v1/transfers) takes a key in the field
// customerTransactionId of its JSON body, a UUID; Wise says that a call which
// failed may be repeated with it and creates no second transfer. One transfer
// per quote is a second guard of Wise's own.
//
// Wise does not publish for how long it knows a customerTransactionId: say a
// retention that you have from Wise, or 0, and then none is claimed. Nor does it
// publish how it answers a second request while the first is worked on, so that,
// even with a retention, a request that may have run is not sent again. A program
// that knows better sets InFlightGuard on that endpoint. Whether another
// transfer under the same ID is refused, and how, is not published.
//
// Wise dates its versions by the URL now (/2026Q4/transfers, where /v1/transfers
// was): every version's transfers take the ID, and those of a batch group. A transfer
// for a third party has originalTransferId instead, the sender's own name for it, of
// which Wise says that a retry creates no duplicate. It is no key here: it has to be
// the sender's own in Wise's records, so that none may be made up, and its path is not
// confirmed.
//
// Everything else, the funding of a transfer among it, has an effect and no key.
// The account is the token's. Tokens expire within the day, so that a new one is not
// taken to end the memory of keys: a service that acts for several users names each
// by an account label, or sets CredentialScoped.
// (Some balance operations may take a header X-idempotence-uuid; that is
// unconfirmed, and none is sent.) OAuth tokens and the check of a transfer's
// requirements are passed through.
//
// A transfer shows its ID, and is looked for among those of a profile since it was first sent:
// of the profiles that are named by their ids, or of the personal one of the token's user,
// which is Wise's default, if none is. A transfer of another profile is not found. That of a batch is
// looked for in the profile of its path.
func Wise(retention time.Duration, profiles ...string) Provider {
	p := Provider{
		Name:           "wise",
		WebhookSchemes: []string{"wise"},
		Events:         wiseEvents,
		Answers:        jsonAnswers,
		Hosts: []string{
			"api.wise.com", "api-mtls.transferwise.com",
			"api.wise-sandbox.com", "api.sandbox.transferwise.tech", "api-mtls.sandbox.transferwise.tech",
		},
		Identity: Identity{Path: "/v1/me", Field: "id", Source: "docs.wise.com/api-docs/api-reference/user [D]: the token's user"},
		Source:   sourceWiseTransfers + "; hosts: docs.wise.com/guides/developer/environments [D]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: wiseKeyless, Source: sourceWiseTransfers + ": transfers only"},
				"/"),
			each(Endpoint{NoEffect: true, Source: "docs.wise.com/guides/developer/errors/transfers [D]: it returns what a transfer needs; the path: [M]"},
				"POST /{version}/transfer-requirements"),
			each(Endpoint{NoEffect: true, Source: "docs.wise.com/guides/developer/auth-and-security/user-access-token [D]; under a dated version: [M]"},
				"POST /oauth/token",
				"POST /{version}/oauth/token"),
			each(wiseTransfers(retention, wiseProfiles(profiles)),
				"POST /{version}/transfers"),
			each(wiseTransfers(retention, []string{"&profile={path.profile}"}),
				"POST /{version}/profiles/{profile}/batch-groups/{group}/transfers"),
		),
	}
	return p.Clone()
}

// wiseTransfers are looked for by what the queries add to ask for a profile's.
func wiseTransfers(retention time.Duration, queries []string) Endpoint {
	return Endpoint{
		Object:    "transfer",
		Lookups:   wiseLookups(queries),
		Key:       Key{Place: KeyJSONField, Name: "customerTransactionId", MinLength: 36, MaxLength: 36, Alphabet: "0123456789abcdefABCDEF-"},
		Retention: retention,
		Remembers: SuccessesCleanFailures,
		Rules:     wiseRules,
		Source:    sourceWiseTransfers + ": a UUID; a repeat creates no second transfer; retention: the caller's; versions: docs.wise.com/guides/developer/global-versioning [D]; batch groups: docs.wise.com/api-reference/batch-group/batchgrouptransfercreate [D]; guard: [?]",
	}
}

// wiseProfiles ask for the profiles, or for the one that Wise takes where none is named.
func wiseProfiles(profiles []string) (queries []string) {
	if len(profiles) == 0 {
		return []string{""}
	}
	for _, profile := range profiles {
		queries = append(queries, "&profile="+url.QueryEscape(profile))
	}
	return queries
}

func wiseLookups(queries []string) (lookups []Lookup) {
	for _, query := range queries {
		lookups = append(lookups, Lookup{
			By:         ByKey,
			Path:       "/v1/transfers",
			Query:      "limit=100&createdDateStart={since}&createdDateEnd={until}" + query,
			TimeLayout: "2006-01-02T15:04:05.000Z",
			Items:      "[]",
			Same:       []Same{{Field: "customerTransactionId", Is: "{key}"}},
			ID:         "id",
			Created:    "created",
			Next:       Paging{Style: PageOffset, Param: "offset", Size: 100},
			Means: slices.Concat(
				meanings("status", TookEffect, "incoming_payment_waiting", "incoming_payment_initiated", "processing", "funds_converted", "outgoing_payment_sent"),
				meanings("status", Reversed, "bounced_back", "cancelled", "charged_back", "funds_refunded"),
			),
			SameShape: true,
			Source:    "docs.wise.com/api-reference/transfer/transferlist, docs.wise.com/api-docs/api-reference/transfer [D]: no filter by the ID, which a transfer shows; when one is listed: [?]",
		})
	}
	return lookups
}

const sourceWiseTransfers = "docs.wise.com/guides/product/send-money/standard-api-transfers [D]"

var (
	wiseRules = slices.Concat(
		conflicts("errors[].code", "docs.wise.com/guides/developer/errors [D]: a value that is in use; whether it also says in flight is not published [?]"),
		wiseKeyless,
	)

	wiseKeyless = refusalsUnlimited("errors[].code", "docs.wise.com/guides/developer/errors [D]: client errors")
)
