package feed_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/providers"
)

var (
	noon   = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	isJSON = http.Header{"Content-Type": {"application/json"}}
	hour   = feed.Window{Since: noon, Until: noon.Add(time.Hour)}
)

// pay is a table whose provider lists its events.
func pay() *providers.Provider {
	return &providers.Provider{
		Name: "pay", Hosts: []string{"api.example.com"}, AccountHeaders: []string{"X-Account", "X-Other"},
		Endpoints: []providers.Endpoint{{Pattern: "POST /"}, {Pattern: "POST /search", NoEffect: true}},
		Events:    []providers.EventRule{{Field: "type", Equals: "paid", Object: "object", ID: "id", Is: providers.TookEffect}},
		Feed: providers.Feed{
			Host: "api.example.com", Path: "/events", Query: "from={since}&to={until}", TimeLayout: "unix", Items: "data[]",
			Next:  providers.Paging{Style: providers.PageLastID, Param: "after", More: "more", Size: 100},
			Types: "types[]", Limit: "limit", TypesAtOnce: 2, Undelivered: "delivered=false",
			ID: "id", At: "created", Type: "type", Account: "account",
		},
	}
}

func compiled(t *testing.T, p *providers.Provider) *feed.Plan {
	t.Helper()
	require.NoError(t, p.Validate())
	plan, err := feed.Compile(p)
	require.NoError(t, err)
	return plan
}

func event(id, kind string, at time.Time) string {
	return fmt.Sprintf(`{"id":%q,"type":%q,"created":%d}`, id, kind, at.Unix())
}

func page(more bool, events ...string) []byte {
	return fmt.Appendf(nil, `{"data":[%s],"more":%t}`, strings.Join(events, ","), more)
}

func next(t *testing.T, g *feed.Pages) *http.Request {
	t.Helper()
	r, err := g.Next()
	require.NoError(t, err)
	require.NotNil(t, r)
	return r
}

func ends(t *testing.T, g *feed.Pages) {
	t.Helper()
	r, err := g.Next()
	require.NoError(t, err)
	assert.Nil(t, r)
}

func ids(items []feed.Item) (ids []string) {
	for _, item := range items {
		ids = append(ids, item.ID)
	}
	return ids
}

func TestTheRequestsForAWindow(t *testing.T) {
	plan := compiled(t, pay())
	assert.Equal(t, 100, plan.Limit())
	assert.Equal(t, [][]string{{"a", "b"}, {"c"}}, plan.Batches([]string{"a", "b", "c"}))
	assert.Equal(t, [][]string{nil}, plan.Batches(nil))

	w := hour
	w.Types, w.Limit, w.Undelivered = []string{"paid", "a&b"}, 50, true
	g := plan.Pages(w)
	r := next(t, g)
	assert.Equal(t, "GET", r.Method)
	assert.Equal(t, "https://api.example.com/events?from=1795348799&to=1795352401&types%5B%5D=paid&types%5B%5D=a%26b&limit=50&delivered=false", r.URL.String())
	assert.Equal(t, http.Header{"Accept": {"application/json"}}, r.Header)

	items, err := g.Read(200, isJSON, page(true, event("1", "paid", noon), event("2", "paid", noon.Add(time.Minute))))
	require.NoError(t, err)
	assert.Equal(t, []string{"1", "2"}, ids(items))
	assert.Equal(t, noon, items[0].At)
	assert.JSONEq(t, event("1", "paid", noon), string(items[0].Body))
	assert.Equal(t, "2", next(t, g).URL.Query().Get("after"))
	_, err = g.Read(200, isJSON, page(false))
	require.NoError(t, err)
	ends(t, g)
}

func TestTheRequestsOfASearch(t *testing.T) {
	p := pay()
	p.Feed.Method, p.Feed.Path, p.Feed.Query, p.Feed.Undelivered = "POST", "/search", "", ""
	p.Feed.Body = `{"filter":{"from":"{since}","to":"{until}"}}`
	p.Feed.Types, p.Feed.TimeLayout = "filter.types", "rfc3339"
	p.Feed.Next = providers.Paging{Style: providers.PageCursor, Param: "cursor", Cursor: "next", Size: 10}
	w := hour
	w.Types = []string{"paid", "b"}
	g := compiled(t, p).Pages(w)
	sent := func() string {
		r := next(t, g)
		assert.Equal(t, "POST", r.Method)
		body, _ := io.ReadAll(r.Body)
		return string(body)
	}
	assert.JSONEq(t, `{"filter":{"from":"2026-11-22T11:59:59Z","to":"2026-11-22T13:00:01Z","types":["paid","b"]},"limit":10}`, sent())
	_, err := g.Read(200, isJSON, []byte(`{"data":[`+event("1", "paid", noon)+`],"next":"c"}`))
	require.NoError(t, err)
	assert.JSONEq(t, `{"filter":{"from":"2026-11-22T11:59:59Z","to":"2026-11-22T13:00:01Z","types":["paid","b"]},"limit":10,"cursor":"c"}`, sent())
}

// A provider may ignore the window and the types.
func TestNoFilterIsTrusted(t *testing.T) {
	w := hour
	w.Types = []string{"paid"}
	g := compiled(t, pay()).Pages(w)
	items, err := g.Read(200, isJSON, page(false,
		event("early", "paid", noon.Add(-time.Second)), event("first", "paid", noon), event("other", "made", noon), event("late", "paid", noon.Add(time.Hour))))
	require.NoError(t, err)
	assert.Equal(t, []string{"first"}, ids(items))
}

func TestAnEventInItsWebhooksBody(t *testing.T) {
	p := pay()
	p.Feed.As, p.Events[0].Items = `{"events":[{item}]}`, "events[]"
	items, err := compiled(t, p).Pages(hour).Read(200, isJSON, page(false, event("1", "paid", noon)))
	require.NoError(t, err)
	assert.Equal(t, `{"events":[`+event("1", "paid", noon)+`]}`, string(items[0].Body))
	heard, problem := lookup.ReadEvents(p, isJSON, items[0].Body)
	assert.Empty(t, problem)
	require.Len(t, heard, 1)
	assert.Equal(t, "1", heard[0].ID)
}

// A list without a filter of time is read until it has left the window.
func TestListsWithoutAWindow(t *testing.T) {
	for bound, tc := range map[providers.FeedBound]struct{ in, out time.Time }{
		providers.ByPages:  {noon.Add(time.Minute), noon.Add(-time.Minute)},
		providers.ByCursor: {noon.Add(time.Minute), noon.Add(2 * time.Hour)},
	} {
		p := pay()
		p.Feed.Bound, p.Feed.Query, p.Feed.TimeLayout = bound, "", ""
		w := hour
		w.After = "0"
		g := compiled(t, p).Pages(w)
		want := map[providers.FeedBound]string{providers.ByCursor: "0"}[bound]
		assert.Equal(t, want, next(t, g).URL.Query().Get("after"), bound)
		items, err := g.Read(200, isJSON, page(true, event("1", "paid", tc.in)))
		require.NoError(t, err)
		assert.Equal(t, []string{"1"}, ids(items), bound)
		assert.Equal(t, "1", next(t, g).URL.Query().Get("after"), bound)
		items, err = g.Read(200, isJSON, page(true, event("2", "paid", tc.out), event("3", "paid", tc.in)))
		require.NoError(t, err)
		assert.Equal(t, []string{"3"}, ids(items), "%v: the order within a page is not trusted", bound)
		ends(t, g)
	}
}

// A missing fact of an event is said, and the event is not left out: it would be missed.
func TestAnEventWithoutAFact(t *testing.T) {
	for body, want := range map[string]string{
		`{"type":"paid","created":1795348800}`:                                         "a listed event shows no id at id",
		`{"id":"1","created":1795348800}`:                                              "a listed event shows no type at type: 1",
		`{"id":"1","type":"paid"}`:                                                     "a listed event shows no time at created: 1",
		`{"id":"1","type":"paid","created":"soon"}`:                                    "a listed event shows no time at created: 1",
		`{"id":["1"],"id":"2","type":"x","created":1795348800}`:                        "a listed event shows no id at id",
		`{"id":"` + strings.Repeat("1", 501) + `","type":"paid","created":1795348800}`: "a listed event shows no id at id",
		`7`: "a listed event shows no id at id",
	} {
		g := compiled(t, pay()).Pages(hour)
		items, err := g.Read(200, isJSON, page(true, event("0", "paid", noon), body))
		require.NoError(t, err)
		require.Len(t, items, 2)
		assert.Equal(t, want, items[1].Unread)
		assert.Regexp(t, `^unreadable-[0-9a-f]{16}$`, items[1].ID)
		assert.False(t, items[1].At.Before(hour.Since))
		assert.NotNil(t, next(t, g), "the list goes on")
	}
	p := pay()
	p.Feed.Owner = providers.OfApplication
	items, err := compiled(t, p).Pages(hour).Read(200, isJSON, page(false, event("0", "paid", noon)))
	require.NoError(t, err)
	assert.Equal(t, "a listed event shows no account at account: 0", items[0].Unread)
	w := hour
	w.Types = []string{"made"}
	items, err = compiled(t, p).Pages(w).Read(200, isJSON, page(false, event("0", "paid", noon)))
	require.NoError(t, err)
	assert.Empty(t, items, "an unwanted event may be of no account")
}

func TestTheAccountHeader(t *testing.T) {
	w := hour
	w.Account = "acct_1"
	p := pay()
	assert.Empty(t, next(t, compiled(t, p).Pages(w)).Header.Get("X-Account"), "the account of the credential")
	p.Feed.Owner = providers.OfAccountHeader
	assert.Equal(t, "acct_1", next(t, compiled(t, p).Pages(w)).Header.Get("X-Account"))
	assert.Empty(t, next(t, compiled(t, p).Pages(hour)).Header.Get("X-Account"))
}

func TestPagesThatAreTooLargeOrTooMany(t *testing.T) {
	plan := compiled(t, pay())
	g := plan.Pages(hour)
	_, err := g.Read(200, isJSON, make([]byte, lookup.MaxBody+1))
	assert.ErrorIs(t, err, feed.ErrPageTooLarge)

	g = plan.Pages(hour)
	for i := range lookup.MaxPages {
		next(t, g)
		_, err = g.Read(200, isJSON, page(true, event(fmt.Sprint(i), "paid", noon)))
	}
	assert.ErrorIs(t, err, feed.ErrWindowTooLong)
	_, err = g.Next()
	assert.ErrorIs(t, err, feed.ErrWindowTooLong)

	p := pay()
	p.Feed.Bound, p.Feed.Query, p.Feed.TimeLayout = providers.ByPages, "", ""
	g = compiled(t, p).Pages(hour)
	for i := range 2 * lookup.MaxPages { // the newest: halves of a window would begin with them, too
		next(t, g)
		_, err = g.Read(200, isJSON, page(true, event(fmt.Sprint(i), "paid", noon.Add(2*time.Hour))))
		require.NoError(t, err)
	}

	p = pay()
	p.Feed.Next = providers.Paging{Size: 1}
	_, err = compiled(t, p).Pages(hour).Read(200, isJSON, page(true, event("1", "paid", noon)))
	assert.ErrorIs(t, err, feed.ErrWindowTooLong, "a full page that has no next one")
}

// A page with a link to a next page may have been cut.
func TestAPageThatLinksToAnother(t *testing.T) {
	p := pay()
	p.Feed.Next = providers.Paging{More: "links[]", Size: 10}
	for links, want := range map[string]error{
		`[]`:                                nil,
		`[{"rel":"self","href":"/events"}]`: nil,
		`[{"rel":"self","href":"/events"},{"rel":"next","href":"/events"}]`: feed.ErrWindowTooLong,
	} {
		g := compiled(t, p).Pages(hour)
		items, err := g.Read(200, isJSON, []byte(`{"data":[`+event("1", "paid", noon)+`],"links":`+links+`}`))
		assert.Equal(t, want, err, links)
		assert.Equal(t, []string{"1"}, ids(items))
	}
	_, err := compiled(t, p).Pages(hour).Read(200, isJSON, []byte(`{"data":[]}`))
	assert.ErrorContains(t, err, "does not have the list links[]")
}

func TestAnswersWithoutEvents(t *testing.T) {
	p := pay()
	p.Feed.Needs = "Events: Read"
	for _, tc := range []struct {
		status int
		body   string
		why    string
	}{
		{403, `{}`, "Events: Read"},
		{429, `{}`, "asked too often"},
		{400, `{"error":"aged out"}`, "answered 400"},
		{200, `{"error":{"message":"x"},"data":[],"more":false}`, "lists errors"},
		{200, `{"items":[]}`, "does not have the list"},
		{200, `{"data":[]}`, "does not say in more"},
		{200, ``, "not JSON"},
	} {
		_, err := compiled(t, p).Pages(hour).Read(tc.status, isJSON, []byte(tc.body))
		var refused *feed.Error
		require.ErrorAs(t, err, &refused, tc.body)
		assert.Equal(t, tc.status, refused.Status)
		assert.Contains(t, refused.Why, tc.why)
	}
	g := compiled(t, p).Pages(hour)
	for range 2 {
		_, err := g.Read(200, isJSON, page(true, event("1", "paid", noon)))
		if err != nil {
			assert.ErrorContains(t, err, "in circles")
		}
	}
	_, err := g.Next()
	assert.ErrorContains(t, err, "in circles")
}

func TestAProviderWithoutAFeed(t *testing.T) {
	plan, err := feed.Compile(&providers.Provider{Name: "pay"})
	assert.NoError(t, err)
	assert.Nil(t, plan)
}
