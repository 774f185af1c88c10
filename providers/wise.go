package providers

import (
	"net/url"
	"slices"
	"time"
)

// Wise describes the Wise Platform API, live and sandbox, with and without mutual TLS. A transfer (POST /v1/transfers)
// takes a key in the field customerTransactionId of its JSON body, a UUID. Wise says that a failed call may be repeated
// with the key and creates no second transfer. One transfer per quote is Wise's second guard.
//
// Wise does not publish how long it knows a customerTransactionId. Pass a retention that Wise gave you, or 0 for none.
// Wise also does not publish the answer to a second request during the first. Even with a retention, a request that may
// have run is therefore not sent again. If you know more, set InFlightGuard on that endpoint. It is not published
// whether, and how, another transfer under the same ID is refused.
//
// Wise now puts dated versions into the URL (/2026Q4/transfers instead of /v1/transfers). The transfers in every
// version take the ID, and so do those in a batch group. A third-party transfer has originalTransferId instead, the
// sender's own name for it. Wise says that a retry with the field creates no duplicate. The field is no key here,
// because the value must be the sender's own in Wise's records, and the transfer's path is not confirmed.
//
// All other requests, including the funding of a transfer, have an effect and no key. The account belongs to
// the token. Tokens expire within the day, so a new token does not end the memory of keys. A service that
// acts for several users gives each an account label, or sets CredentialScoped. (Some balance operations may
// take a header X-idempotence-uuid. That is unconfirmed, and none is sent.) OAuth tokens and the check of a
// transfer's requirements pass through.
//
// A transfer shows the ID, and is found among a profile's transfers since the first send. profiles are the ids of the
// profiles to search. Without any, the personal profile of the token's user is searched, Wise's default. A transfer of
// another profile is not found. A batch's transfer is searched in the profile of its path.
func Wise(retention time.Duration, profiles ...string) Provider {
	return Provider{
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
	}.Clone()
}

// wiseTransfers are found by a list with each of the queries, which select a profile.
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

// wiseProfiles returns queries that select the profiles, or Wise's default profile if none is given.
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
			Means: states("status",
				TookEffect.of("incoming_payment_waiting", "incoming_payment_initiated", "processing", "funds_converted", "outgoing_payment_sent"),
				Reversed.of("bounced_back", "cancelled", "charged_back", "funds_refunded")),
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
