package providers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
)

// found is a valid table of a user's own. Its payments can be found again in every way.
func found() providers.Provider {
	p := own()
	same := []providers.Same{
		{Field: "ref", Is: "{reference}"},
		{Field: "amount", Is: "{request.amount}", As: providers.AsDecimal},
	}
	pages := providers.Paging{Style: providers.PageCursor, Param: "cursor", Cursor: "next"}
	payments := p.Endpoints[0]
	payments.Pattern = "POST /v1/accounts/{account}/payments"
	payments.HandlingTime = time.Minute
	payments.Object = "payment"
	payments.Reference = providers.Reference{Place: providers.KeyJSONField, Name: "meta.ref", MaxLength: 36, Fill: true}
	payments.Lookups = []providers.Lookup{
		{
			By: providers.ByKey, Path: "/v1/payments", Query: "key={key}&limit=100", Items: "data[]", ID: "id",
			Same: []providers.Same{{Field: "key", Is: "{key}"}}, Next: pages,
			Means: []providers.Meaning{
				{Field: "state", Equals: "failed", Is: providers.Refused},
				{Field: "state", Equals: "paid", Is: providers.TookEffect},
			},
			Fetch: "/v1/payments/{id}", SameShape: true,
		},
		{
			By: providers.ByReference, Method: "POST", Path: "/v1/search", Body: `{"filter": {"ref": "{reference}"}}`,
			Items: "data[]", ID: "id", Same: same, Created: "created", Next: providers.Paging{Size: 100},
			Horizon: 2 * time.Hour,
		},
		{
			By: providers.ByParent, Path: "/v1/accounts/{path.account}", Items: "payments[]", ID: "id",
			Same: same[1:], Created: "created",
		},
		{
			By: providers.ByTime, Path: "/v1/{account}/payments", Query: "from={since}&to={until}", TimeLayout: "rfc3339", Items: "[]", ID: "id",
			Same: append(same[1:], providers.Same{Field: "to", Is: "{path.account}"}), Created: "created",
			Next: providers.Paging{Style: providers.PageLastID, Param: "after", Size: 50},
		},
	}
	p.Identity = providers.Identity{Path: "/v1/me", Field: "id"}
	p.Events = []providers.EventRule{
		{Field: "type", Equals: "payment.created", Endpoint: payments.Pattern, Reference: "data.meta.ref", Object: "data.id", Created: "data.created", ID: "id", Is: providers.TookEffect},
		{Field: "type", Equals: "payment.changed", Object: "data.id", Thin: true},
	}
	p.Endpoints = append(p.Endpoints, payments, providers.Endpoint{Pattern: "POST /v1/search", NoEffect: true})
	return p.Clone()
}

func TestATableMayFindInEveryWay(t *testing.T) {
	assert.NoError(t, found().Validate())
}

// A search is known to have no effect by its action, on a path that has other operations.
func TestSearchesAreKnownByTheirAction(t *testing.T) {
	p := found()
	p.Endpoints = append(p.Endpoints, providers.Endpoint{Pattern: p.Endpoints[2].Pattern})
	search := &p.Endpoints[2]
	search.Action = providers.Action{Place: providers.ActionField, Name: "Action", Value: "Find"}
	look := &p.Endpoints[1].Lookups[1]
	for body, fine := range map[string]bool{
		"Action=Find&ref={reference}":                     true,
		"ref={reference}":                                 false,
		"Action=Pay&ref={reference}":                      false,
		"Action=Find&Action=Pay&ref={reference}":          false,
		`{"Action": "Find", "ref": "{reference}"}`:        false,
		`{"query": "query { find }", "r": "{reference}"}`: false,
	} {
		look.Body = body
		assert.Equal(t, fine, p.Validate() == nil, body)
	}
	search.Action = providers.Action{Place: providers.ActionGraphQL, Value: "query"}
	for body, fine := range map[string]bool{
		`{"query": "query Q($r: ID) { find(r: $r) { id } }", "variables": {"r": "{reference}"}}`:  true,
		`{"query": "{ find(r: \"{reference}\") { id } }"}`:                                        true,
		`{"query": "mutation { pay(r: \"{reference}\") { id } }"}`:                                false,
		`{"query": "fragment F on A { id } mutation { pay }", "variables": {"r": "{reference}"}}`: false,
		"Action=Find&ref={reference}":                                                             false,
	} {
		look.Body = body
		assert.Equal(t, fine, p.Validate() == nil, body)
	}
}

func TestValidateLookups(t *testing.T) {
	endpoint := func(change func(*providers.Endpoint)) func(*providers.Provider) {
		return func(p *providers.Provider) { change(&p.Endpoints[1]) }
	}
	look := func(n int, change func(*providers.Lookup)) func(*providers.Provider) {
		return func(p *providers.Provider) { change(&p.Endpoints[1].Lookups[n]) }
	}
	event := func(change func(*providers.EventRule)) func(*providers.Provider) {
		return func(p *providers.Provider) { change(&p.Events[0]) }
	}
	const (
		at        = "Endpoints[1]."
		byKey     = at + "Lookups[0]."
		reference = at + "Lookups[1]."
		parent    = at + "Lookups[2]."
		scan      = at + "Lookups[3]."
	)
	for _, tc := range []struct {
		name   string
		change func(p *providers.Provider)
		field  string
	}{
		{"a reference of an endpoint without effect", func(p *providers.Provider) {
			p.Endpoints[2].Reference = p.Endpoints[1].Reference
		}, "Endpoints[2].NoEffect"},
		{"a reference of every path", func(p *providers.Provider) { p.Endpoints[0].Reference = p.Endpoints[1].Reference }, "Endpoints[0].Pattern"},
		{"an update", func(p *providers.Provider) {
			p.Endpoints[1].Pattern, p.Events = "PATCH /v1/accounts/{account}/payments", nil
		}, at + "Pattern"},
		{"no kind of object", endpoint(func(e *providers.Endpoint) {
			e.Object = ""
		}), at + "Object"},
		{"a reference that goes nowhere", func(p *providers.Provider) {
			p.Endpoints[0].Reference = providers.Reference{Name: "ref"}
		}, "Endpoints[0].Reference.Place"},
		{"a reference in quotes", endpoint(func(e *providers.Endpoint) { e.Reference.Place = providers.KeyQuotedHeader }), at + "Reference.Place"},
		{"a place that is none", endpoint(func(e *providers.Endpoint) { e.Reference.Place = 99 }), at + "Reference.Place"},
		{"a reference in no field", endpoint(func(e *providers.Endpoint) { e.Reference.Name = "units[].ref" }), at + "Reference.Name"},
		{"a reference in no form field", endpoint(func(e *providers.Endpoint) {
			e.Reference.Place, e.Reference.Name = providers.KeyFormField, ""
		}), at + "Reference.Name"},
		{"a reference in no argument", endpoint(func(e *providers.Endpoint) {
			e.Reference.Place, e.Reference.Name = providers.KeyGraphQL, "a-b"
		}), at + "Reference.Name"},
		{"a reference in the place of the key", endpoint(func(e *providers.Endpoint) {
			e.Reference.Place, e.Reference.Name = providers.KeyRawHeader, "x-idempotency-key"
		}), at + "Reference.Name"},
		{"a reference that is left out of the comparison", endpoint(func(e *providers.Endpoint) { e.OmitFields = []string{"meta.ref"} }), at + "Reference.Name"},
		{"a reference that payers see filled in", endpoint(func(e *providers.Endpoint) { e.Reference.Visible = true }), at + "Reference.Fill"},
		{"a reference too short for ours", endpoint(func(e *providers.Endpoint) { e.Reference.MaxLength = 35 }), at + "Reference.Fill"},
		{"a reference without hyphens", endpoint(func(e *providers.Endpoint) { e.Reference.Alphabet = "0123456789abcdef" }), at + "Reference.Fill"},
		{"a negative length", endpoint(func(e *providers.Endpoint) { e.Reference.MaxLength = -1 }), at + "Reference.MaxLength"},
		{"a negative number of pairs", endpoint(func(e *providers.Endpoint) { e.Reference.MaxPairs = -1 }), at + "Reference.MaxPairs"},

		{"by nothing", look(0, func(l *providers.Lookup) { l.By = 0 }), byKey + "By"},
		{"by a key that there is none of", func(p *providers.Provider) {
			p.Endpoints = append(p.Endpoints, providers.Endpoint{Pattern: "POST /v2/x", Object: "x", Lookups: []providers.Lookup{{
				By: providers.ByKey, Path: "/x", Items: "[]", ID: "id", Same: []providers.Same{{Field: "k", Is: "{key}"}},
			}}})
		}, "Endpoints[3].Lookups[0].By"},
		{"by a reference that there is none of", func(p *providers.Provider) {
			p.Events = nil
			p.Endpoints[1].Reference = providers.Reference{}
			p.Endpoints[1].Lookups = p.Endpoints[1].Lookups[1:2]
		}, at + "Lookups[0].By"},
		{"no path", look(0, func(l *providers.Lookup) { l.Path = "" }), byKey + "Path"},
		{"another host", look(0, func(l *providers.Lookup) { l.Path = "//evil.example.com/v1" }), byKey + "Path"},
		{"a query in the path", look(0, func(l *providers.Lookup) { l.Path = "/v1/payments?all=1" }), byKey + "Path"},
		{"a wildcard that the pattern lacks", look(2, func(l *providers.Lookup) { l.Path = "/v1/accounts/{path.id}" }), parent + "Path"},
		{"a placeholder that is unknown", look(0, func(l *providers.Lookup) { l.Query = "key={secret}" }), byKey + "Query"},
		{"the id before it is known", look(0, func(l *providers.Lookup) { l.Query = "key={id}" }), byKey + "Query"},
		{"a query with its mark", look(0, func(l *providers.Lookup) { l.Query = "?key={key}" }), byKey + "Query"},
		{"a placeholder in a name", look(0, func(l *providers.Lookup) { l.Query = "{key}=1" }), byKey + "Query"},
		{"an account that no request shows", func(p *providers.Provider) { p.Identity = providers.Identity{} }, scan + "Path"},
		{"a GET with a body", look(0, func(l *providers.Lookup) { l.Body = "a=1" }), byKey + "Body"},
		{"a body that is no JSON", look(1, func(l *providers.Lookup) { l.Body = `{"ref": {reference}}` }), reference + "Body"},
		{"an answer without a body", look(0, func(l *providers.Lookup) { l.Method = "HEAD" }), byKey + "Method"},
		{"a search that has an effect", look(1, func(l *providers.Lookup) { l.Path = "/v1/other" }), reference + "Method"},
		{"a search that no endpoint describes", look(1, func(l *providers.Lookup) { l.Path = "/v2/search" }), reference + "Method"},
		{"a search distinguished by the operation's header", func(p *providers.Provider) {
			p.Endpoints[2].Action = providers.Action{Place: providers.ActionHeader, Name: "X-Action", Value: "Search"}
		}, reference + "Method"},
		{"a search without the action's field", func(p *providers.Provider) {
			p.Endpoints[2].Action = providers.Action{Place: providers.ActionField, Name: "Action", Value: "Search"}
		}, reference + "Method"},
		{"a search distinguished by a header of another pattern", func(p *providers.Provider) {
			p.Endpoints[1].Action = providers.Action{Place: providers.ActionHeader, Name: "X-Action", Value: "Pay"}
			p.Endpoints[2].Action = providers.Action{Place: providers.ActionHeader, Name: "X-Action", Value: "Search"}
		}, reference + "Method"},
		{"a mutation", func(p *providers.Provider) {
			p.Endpoints[2].Action = providers.Action{Place: providers.ActionGraphQL, Value: "query"}
			p.Endpoints[1].Lookups[1].Body = `{"query": "query A { a } mutation B { b }", "operationName": "B"}`
		}, reference + "Method"},
		{"a window in no layout", look(3, func(l *providers.Lookup) { l.TimeLayout = "" }), scan + "TimeLayout"},
		{"a layout that says no time", look(3, func(l *providers.Lookup) { l.TimeLayout = "iso" }), scan + "TimeLayout"},
		{"a layout without a window", look(0, func(l *providers.Lookup) { l.TimeLayout = "unix" }), byKey + "TimeLayout"},
		{"a scan without a bound", look(3, func(l *providers.Lookup) {
			l.Query, l.TimeLayout, l.Next = "", "", providers.Paging{Size: 10}
		}), scan + "By"},
		{"items that are none", look(0, func(l *providers.Lookup) { l.Items = "data" }), byKey + "Items"},
		{"no id", look(0, func(l *providers.Lookup) { l.ID = "" }), byKey + "ID"},
		{"no path of a time", look(0, func(l *providers.Lookup) { l.Created = "a..b" }), byKey + "Created"},

		{"a filter that is trusted", look(0, func(l *providers.Lookup) { l.Same = nil }), byKey + "Same"},
		{"a key in any case", look(0, func(l *providers.Lookup) { l.Same[0].As = providers.AnyCase }), byKey + "Same[0].As"},
		{"a part of a key", look(0, func(l *providers.Lookup) { l.Same[0].Is = "x{key}" }), byKey + "Same"},
		{"a comparison that is none", look(2, func(l *providers.Lookup) { l.Same[0].As = 99 }), parent + "Same[0].As"},
		{"a comparison with nothing", look(2, func(l *providers.Lookup) {
			l.Same = append(l.Same, providers.Same{Field: "type"})
		}), parent + "Same[1].Is"},
		{"a constant that is optional", look(2, func(l *providers.Lookup) {
			l.Same = append(l.Same, providers.Same{Field: "type", Is: "payment", Optional: true})
		}), parent + "Same[1].Optional"},
		{"a key that is optional", look(0, func(l *providers.Lookup) { l.Same[0].Optional = true }), byKey + "Same[0].Optional"},
		{"a field that may not be compared", look(3, func(l *providers.Lookup) { l.Same[0].Optional = true }), scan + "Same"},
		{"a comparison of no field", look(2, func(l *providers.Lookup) { l.Same[0].Field = "" }), parent + "Same[0].Field"},
		{"a comparison with the window", look(3, func(l *providers.Lookup) { l.Same[0].Is = "{since}" }), scan + "Same[0].Is"},
		{"a reference that is not compared", look(1, func(l *providers.Lookup) { l.Same = l.Same[1:] }), reference + "Same"},
		{"a caller's reference alone", endpoint(func(e *providers.Endpoint) {
			e.Lookups[1].Same = e.Lookups[1].Same[:1]
		}), reference + "Same"},
		{"a caller's reference at any time", endpoint(func(e *providers.Endpoint) { e.Lookups[1].Created = "" }), reference + "Same"},
		{"no parent", look(2, func(l *providers.Lookup) { l.Path, l.Same[0].Is = "/v1/payments", "5" }), parent + "Path"},
		{"any part of a parent", look(2, func(l *providers.Lookup) { l.Same = nil }), parent + "Same"},
		{"a part of any time", look(2, func(l *providers.Lookup) { l.Created = "" }), parent + "Same"},
		{"a parent in any state", look(2, func(l *providers.Lookup) { l.Items = "" }), parent + "Means"},
		{"one field of a window", look(3, func(l *providers.Lookup) { l.Same = l.Same[:1] }), scan + "Same"},
		{"a window of one item", look(3, func(l *providers.Lookup) { l.Items, l.Next = "", providers.Paging{} }), scan + "Items"},

		{"a style that is none", look(0, func(l *providers.Lookup) { l.Next.Style = 99 }), byKey + "Next.Style"},
		{"a negative size", look(2, func(l *providers.Lookup) { l.Next.Size = -1 }), parent + "Next.Size"},
		{"one page that goes on", look(0, func(l *providers.Lookup) { l.Next.Style = providers.OnePage }), byKey + "Next.Style"},
		{"pages of one object", look(0, func(l *providers.Lookup) { l.Items, l.Path = "", "/v1/payments/{key}" }), byKey + "Next.Style"},
		{"a next page by nothing", look(0, func(l *providers.Lookup) { l.Next.Param = "" }), byKey + "Next.Param"},
		{"a link with a parameter", look(0, func(l *providers.Lookup) { l.Next.Style = providers.PageLink }), byKey + "Next.Param"},
		{"a page asked for twice", look(0, func(l *providers.Lookup) { l.Query = "key={key}&cursor=1" }), byKey + "Next.Param"},
		{"no cursor", look(0, func(l *providers.Lookup) { l.Next.Cursor = "" }), byKey + "Next.Cursor"},
		{"no header", look(0, func(l *providers.Lookup) { l.Next.Style, l.Next.Cursor = providers.PageHeader, "X After" }), byKey + "Next.Cursor"},
		{"a cursor of an offset", look(0, func(l *providers.Lookup) { l.Next.Style = providers.PageOffset }), byKey + "Next.Cursor"},
		{"a last id of no path", look(3, func(l *providers.Lookup) { l.Next.Cursor = "a..b" }), scan + "Next.Cursor"},
		{"more of no path", look(0, func(l *providers.Lookup) { l.Next.More = "a..b" }), byKey + "Next.More"},
		{"a last id without an end", look(3, func(l *providers.Lookup) { l.Next.Size = 0 }), scan + "Next.More"},

		{"a meaning of no field", look(0, func(l *providers.Lookup) { l.Means[0].Field = "" }), byKey + "Means[0].Field"},
		{"a meaning that is none", look(0, func(l *providers.Lookup) { l.Means[0].Is = 0 }), byKey + "Means[0].Is"},
		{"a meaning behind a wider one", look(0, func(l *providers.Lookup) { l.Means[0].Equals = "" }), byKey + "Means[1]"},
		{"an answer in no state", look(0, func(l *providers.Lookup) { l.Means = l.Means[:1] }), byKey + "SameShape"},
		{"an answer that is a secret", endpoint(func(e *providers.Endpoint) { e.SecretResponse = true }), byKey + "SameShape"},
		{"an object that is not named", look(0, func(l *providers.Lookup) { l.Fetch = "/v1/payments" }), byKey + "Fetch"},

		{"a negative horizon", look(0, func(l *providers.Lookup) { l.Horizon = -1 }), byKey + "Horizon"},
		{"a secret that would be kept", endpoint(func(e *providers.Endpoint) {
			e.SecretRequest, e.Lookups[2].Same[0].Is = []string{"card.number"}, "{request.source[card][number]}"
		}), parent + "Same[0].Is"},

		{"an event of no type", event(func(r *providers.EventRule) { r.Equals = "" }), "Events[0].Equals"},
		{"an event's type nowhere", event(func(r *providers.EventRule) { r.Field = "" }), "Events[0].Field"},
		{"an event's path that is none", event(func(r *providers.EventRule) { r.At = "a..b" }), "Events[0].At"},
		{"events that are none", event(func(r *providers.EventRule) { r.Items = "events" }), "Events[0].Items"},
		{"an event of no endpoint", event(func(r *providers.EventRule) { r.Endpoint = "POST /v3/" }), "Events[0].Endpoint"},
		{"an event of an endpoint without effect", event(func(r *providers.EventRule) { r.Endpoint, r.Reference = "POST /v1/search", "" }), "Events[0].Endpoint"},
		{"a reference that its requests lack", event(func(r *providers.EventRule) { r.Endpoint = "POST /v1/" }), "Events[0].Reference"},
		{"an event of no operation", event(func(r *providers.EventRule) {
			r.Reference, r.Object, r.Is, r.Thin = "", "", 0, true
		}), "Events[0].Key"},
		{"an event without a meaning", event(func(r *providers.EventRule) { r.Is = 0 }), "Events[0].Is"},
		{"a thin event with a meaning", event(func(r *providers.EventRule) { r.Thin = true }), "Events[0].Is"},
		{"an event of no object", event(func(r *providers.EventRule) { r.Object = "" }), "Events[0].Object"},
		{"an event like the next", event(func(r *providers.EventRule) { r.ID = "" }), "Events[0].ID"},
		{"a caller's reference on an old object", event(func(r *providers.EventRule) { r.Created = "" }), "Events[0].Created"},
		{"a comparison of an event with nothing", event(func(r *providers.EventRule) { r.Also = []providers.Same{{Field: "a"}} }), "Events[0].Also[0].Is"},
		{"a comparison of no field of an event", event(func(r *providers.EventRule) { r.Also = []providers.Same{{Is: "a"}} }), "Events[0].Also[0].Field"},
		{"a comparison of an event that is none", event(func(r *providers.EventRule) { r.Also = []providers.Same{{Field: "a", Is: "a", As: 99}} }), "Events[0].Also[0].As"},
		{"a comparison of an event with an unknown value", event(func(r *providers.EventRule) { r.Also = []providers.Same{{Field: "a", Is: "{id}"}} }), "Events[0].Also[0].Is"},
		{"an event behind the same one", func(p *providers.Provider) { p.Events = append(p.Events, p.Events[0]) }, "Events[2].Equals"},

		{"an object's id at no path", func(p *providers.Provider) { p.Endpoints[0].ObjectID = "a b" }, "Endpoints[0].ObjectID"},
		{"an identity with a placeholder", func(p *providers.Provider) { p.Identity.Path = "/v1/{id}" }, "Identity.Path"},
		{"an identity elsewhere", func(p *providers.Provider) { p.Identity.Path = "https://evil.example.com/" }, "Identity.Path"},
		{"an identity in no field", func(p *providers.Provider) { p.Identity.Field = "data.*.id" }, "Identity.Field"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := found()
			tc.change(&p)
			err := p.Validate()
			var invalid *providers.ValidationError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, tc.field, invalid.Field, err)
			assert.NotEmpty(t, invalid.Problem)
		})
	}
}

func TestACloneSharesNothing(t *testing.T) {
	p := found()
	p.Events[0].Also = []providers.Same{{Field: "mode", Is: "live"}}
	c := p.Clone()
	require.Equal(t, p, c)
	c.Endpoints[1].Lookups[0].Same[0].Field = "changed"
	c.Endpoints[1].Lookups[0].Means[0].Field = "changed"
	c.Endpoints[1].Lookups[1].Path = "changed"
	c.Events[0].Also[0].Field = "changed"
	c.Events[1].Object = "changed"
	assert.Equal(t, "key", p.Endpoints[1].Lookups[0].Same[0].Field)
	assert.Equal(t, "state", p.Endpoints[1].Lookups[0].Means[0].Field)
	assert.Equal(t, "/v1/search", p.Endpoints[1].Lookups[1].Path)
	assert.Equal(t, "mode", p.Events[0].Also[0].Field)
	assert.Equal(t, "data.id", p.Events[1].Object)
}

func TestReconcilingWords(t *testing.T) {
	assert.Equal(t, "reference", providers.ByReference.String())
	assert.Equal(t, "lookup by(9)", providers.LookupBy(9).String())
	assert.Equal(t, "any case", providers.AnyCase.String())
	assert.Equal(t, "comparison(9)", providers.Comparison(9).String())
	assert.Equal(t, "last id", providers.PageLastID.String())
	assert.Equal(t, "page style(9)", providers.PageStyle(9).String())
	assert.Equal(t, "took effect", providers.TookEffect.String())
	assert.Equal(t, "outcome(0)", providers.Outcome(0).String())
}
