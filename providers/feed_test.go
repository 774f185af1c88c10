package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
)

// listing is a valid table of a user's own with a list of events.
func listing() providers.Provider {
	p := own()
	p.AccountHeaders, p.WebhookSchemes = []string{"X-Account"}, []string{"ledger"}
	p.Events = []providers.EventRule{{Field: "type", Equals: "paid", Items: "events[]", ID: "id", Object: "object", Is: providers.TookEffect}}
	p.Feed = providers.Feed{
		Host: "ledger.example.com", Path: "/v1/events", Query: "from={since}&to={until}", TimeLayout: "rfc3339", Items: "data[]",
		Next:  providers.Paging{Style: providers.PageLastID, Param: "after", Size: 100},
		Types: "type", Limit: "limit", TypesAtOnce: 1, Undelivered: "delivered=false",
		ID: "id", At: "at", Type: "type", Account: "account", As: `{"events":[{item}]}`, SameID: true,
	}
	return p
}

func TestAFeedMayBeDeclared(t *testing.T) {
	p := listing()
	assert.NoError(t, p.Validate())

	p.Feed.Host = ""
	assert.NoError(t, p.Validate())
	assert.Equal(t, "ledger.example.com", p.FeedHost())

	p.Feed.Query, p.Feed.TimeLayout = "", ""
	for _, p.Feed.Bound = range []providers.FeedBound{providers.ByPages, providers.ByCursor} {
		assert.NoError(t, p.Validate(), p.Feed.Bound)
	}

	p = listing()
	p.Endpoints = append(p.Endpoints, providers.Endpoint{Pattern: "POST /v1/events/search", NoEffect: true})
	p.Feed.Method, p.Feed.Path, p.Feed.Query, p.Feed.Undelivered = "POST", "/v1/events/search", "", ""
	p.Feed.Body = `{"query":{"from":"{since}","to":"{until}"}}`
	p.Feed.Types = "query.types"
	assert.NoError(t, p.Validate())

	p = listing()
	p.Events[0].Items, p.Events[0].Field, p.Events[0].ID, p.Feed.As = "", "event.type", "event.id", `{"event":{item},"v":2}`
	assert.NoError(t, p.Validate())
	p.Events[0].Items, p.Events[0].Field, p.Events[0].ID, p.Feed.As = "[]", "type", "id", `[{item}]`
	assert.NoError(t, p.Validate())
}

func TestValidateFindsContradictionsInFeeds(t *testing.T) {
	feed := func(change func(f *providers.Feed)) func(*providers.Provider) {
		return func(p *providers.Provider) { change(&p.Feed) }
	}
	for _, tc := range []struct {
		name   string
		change func(p *providers.Provider)
		field  string
	}{
		{"a host that no operation has", feed(func(f *providers.Feed) { f.Host = "events.example.com" }), "Host"},
		{"any host", func(p *providers.Provider) { p.Hosts, p.Feed.Host = nil, "" }, "Host"},
		{"a wildcard first", func(p *providers.Provider) { p.Hosts, p.Feed.Host = []string{"*.example.com"}, "" }, "Host"},
		{"any host of several", func(p *providers.Provider) {
			p.Hosts = []string{"*.example.com"}
			p.Feed.Host = p.Hosts[0]
		}, "Host"},
		{"a host below a wildcard", func(p *providers.Provider) { p.Hosts = []string{"*.example.com"} }, "Host"},
		{"no path", feed(func(f *providers.Feed) { f.Path = "" }), "Path"},
		{"a path with a query", feed(func(f *providers.Feed) { f.Path = "/v1/events?a=1" }), "Path"},
		{"a key in a path", feed(func(f *providers.Feed) { f.Path = "/v1/{key}" }), "Path"},
		{"an unknown placeholder", feed(func(f *providers.Feed) { f.Query += "&types={types}" }), "Query"},
		{"a field of a request", feed(func(f *providers.Feed) { f.Query += "&c={request.c}" }), "Query"},
		{"a query with its mark", feed(func(f *providers.Feed) { f.Query = "?" + f.Query }), "Query"},
		{"a body of a GET", feed(func(f *providers.Feed) { f.Body = "a=b" }), "Body"},
		{"a request with an effect", feed(func(f *providers.Feed) { f.Method = "POST" }), "Method"},

		{"a bound that is none", feed(func(f *providers.Feed) { f.Bound = 99 }), "Bound"},
		{"a window without an end", feed(func(f *providers.Feed) { f.Query = "from={since}" }), "Bound"},
		{"a window without a beginning", feed(func(f *providers.Feed) { f.Query = "to={until}" }), "Bound"},
		{"pages with a window", feed(func(f *providers.Feed) { f.Bound, f.TimeLayout = providers.ByPages, "" }), "Bound"},
		{"a window without a layout", feed(func(f *providers.Feed) { f.TimeLayout = "" }), "TimeLayout"},
		{"a layout without a window", feed(func(f *providers.Feed) { f.Bound, f.Query = providers.ByCursor, "" }), "TimeLayout"},
		{"one page without a window", feed(func(f *providers.Feed) {
			f.Bound, f.Query, f.TimeLayout, f.Next = providers.ByPages, "", "", providers.Paging{Size: 100}
		}), "Next.Style"},
		{"a cursor that is no id", feed(func(f *providers.Feed) {
			f.Bound, f.Query, f.TimeLayout, f.Next.Style = providers.ByCursor, "", "", providers.PageNumber
		}), "Next.Style"},
		{"no list", feed(func(f *providers.Feed) { f.Items = "" }), "Items"},
		{"a list at no path", feed(func(f *providers.Feed) { f.Items = "data" }), "Items"},
		{"a next page by nothing", feed(func(f *providers.Feed) { f.Next.Param = "" }), "Next.Param"},

		{"no id", feed(func(f *providers.Feed) { f.ID, f.SameID = "", false }), "ID"},
		{"no time", feed(func(f *providers.Feed) { f.At = "" }), "At"},
		{"an account at no path", feed(func(f *providers.Feed) { f.Account = "a..b" }), "Account"},
		{"an application's events without accounts", feed(func(f *providers.Feed) { f.Account, f.Owner = "", providers.OfApplication }), "Account"},
		{"an owner that is none", feed(func(f *providers.Feed) { f.Owner = 99 }), "Owner"},
		{"an account header that the provider lacks", func(p *providers.Provider) {
			p.AccountHeaders, p.Feed.Owner = nil, providers.OfAccountHeader
		}, "Owner"},

		{"a limit without a size", feed(func(f *providers.Feed) { f.Next.Size, f.Next.More = 0, "more" }), "Limit"},
		{"a limit that is in the query", feed(func(f *providers.Feed) { f.Query += "&limit=1" }), "Limit"},
		{"a limit that is the cursor", feed(func(f *providers.Feed) { f.Limit = "after" }), "Limit"},
		{"a limit that is the types", feed(func(f *providers.Feed) { f.Limit = "type" }), "Limit"},
		{"types that are in the query", feed(func(f *providers.Feed) { f.Query += "&type=paid" }), "Types"},
		{"a number of types that can't be said", feed(func(f *providers.Feed) { f.Types = "" }), "TypesAtOnce"},
		{"a negative number of types", feed(func(f *providers.Feed) { f.TypesAtOnce = -1 }), "TypesAtOnce"},
		{"a placeholder among the undelivered", feed(func(f *providers.Feed) { f.Undelivered = "since={since}" }), "Undelivered"},

		{"a body without the event", feed(func(f *providers.Feed) { f.As = `{"events":[]}` }), "As"},
		{"a body with the event twice", feed(func(f *providers.Feed) { f.As = `{"events":[{item},{item}]}` }), "As"},
		{"a body that is not JSON", feed(func(f *providers.Feed) { f.As = `events={item}` }), "As"},
		{"an event within a text", feed(func(f *providers.Feed) { f.As = `{"events":"{item}"}` }), "As"},
		{"a body that no rule reads", feed(func(f *providers.Feed) { f.As, f.SameID = "", false }), "Type"},
		{"a type that no rule reads", feed(func(f *providers.Feed) { f.Type, f.SameID = "kind", false }), "Type"},
		{"no rules", func(p *providers.Provider) { p.Events, p.Feed.SameID = nil, false }, "Type"},
		{"the same id as another", feed(func(f *providers.Feed) { f.ID = "number" }), "SameID"},

		{"a negative horizon", feed(func(f *providers.Feed) { f.Horizon = -1 }), "Horizon"},
		{"a negative time until it is listed", feed(func(f *providers.Feed) { f.VisibleAfter = -1 }), "VisibleAfter"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := listing()
			tc.change(&p)
			err := p.Validate()
			var invalid *providers.ValidationError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, "Feed."+tc.field, invalid.Field, err)
			assert.NotEmpty(t, invalid.Problem)
		})
	}
}
