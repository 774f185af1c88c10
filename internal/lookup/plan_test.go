package lookup_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// A look-up goes to the host of the operation. It leaves out the headers that concern only the operation's own
// request.
func TestRequestOfALookup(t *testing.T) {
	p, e := pay()
	e.Key = providers.Key{Place: providers.KeyRawHeader, Name: "X-Key"}
	about := sent(t, p, e, "c", "a&b", "10")
	about.URL.RawQuery, about.URL.Fragment, about.URL.User = "expand=x", "f", url.UserPassword("u", "s3cret")
	for name, value := range map[string]string{
		"X-Key": "k", "Content-Length": "3", "If-Match": "x", "Accept-Encoding": "br", "Authorization": "s3cret", "Api-Version": "7", "User-Agent": "shop",
		"X-Amz-Content-Sha256": "of the body",
	} {
		about.Header.Set(name, value)
	}
	s, err := lookup.Plan(p, e, &e.Lookups[0], about, lookup.Window{Since: noon, Until: noon.Add(time.Hour)})
	require.NoError(t, err)
	r := s.Next()
	assert.Equal(t, "https://api.example.com/v1/payments?customer=c&reference=a%26b&from=1795348800&to=1795352400", r.URL.String())
	assert.Equal(t, http.MethodGet, r.Method)
	assert.Equal(t, http.NoBody, r.Body)
	assert.Equal(t, http.Header{"Account": {"a"}, "Api-Version": {"7"}, "User-Agent": {"shop"}, "Accept": {"application/json"}}, r.Header)
	assert.Equal(t, 1, s.Requests())
}

// A value is one segment of the look-up's path, and its text is unchanged.
func TestPathOfALookup(t *testing.T) {
	p, e := pay()
	e.Reference.Place, e.Reference.Name = providers.KeyRawHeader, "X-Reference"
	e.Lookups[0].Path = "/v1/customers/{path.customer}/payments/{reference}"
	about := sent(t, p, e, "c", "r;1,%2e@é", "10")
	about.Header.Set("X-Reference", "r")
	s, err := lookup.Plan(p, e, &e.Lookups[0], about, about.Window(noon))
	require.NoError(t, err)
	r := s.Next()
	assert.Equal(t, "/v1/customers/c/payments/r%3B1%2C%252e@%C3%A9", r.URL.EscapedPath())
	assert.Equal(t, "/v1/customers/c/payments/r;1,%2e@é", r.URL.Path)
	assert.Empty(t, r.Header.Get("X-Reference"))
}

// A look-up is exact only if each item of the list shows a key or a reference of ours. An answer that is the one
// object under it is exact, too. It is not enough to ask for the key.
func TestExactLookups(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*providers.Lookup, *lookup.Subject)
		want   bool
		alike  bool
	}{
		{"the caller's reference", func(*providers.Lookup, *lookup.Subject) {}, false, false},
		{"ours", func(_ *providers.Lookup, o *lookup.Subject) { o.ReferenceOurs = true }, true, false},
		{"ours, that is asked for only", func(l *providers.Lookup, o *lookup.Subject) {
			o.ReferenceOurs = true
			l.Same = l.Same[1:]
		}, false, true},
		{"ours, that is in the path of a list", func(l *providers.Lookup, o *lookup.Subject) {
			o.ReferenceOurs = true
			l.Same, l.Path = l.Same[1:], "/v1/payments/{reference}"
		}, false, true},
		{"a key", func(l *providers.Lookup, o *lookup.Subject) {
			o.Key = "r"
			l.By, l.Same[0].Is = providers.ByKey, "{key}"
		}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e := pay()
			about := sent(t, p, e, "c", "r", "10")
			tc.change(&e.Lookups[0], &about)
			f := look(t, p, e, about, (&box{ledger: []payment{paid("1", "r")}}).answer)
			assert.Equal(t, tc.want, f.Exact)
			assert.Equal(t, map[bool]lookup.Kind{false: lookup.Found, true: lookup.Alike}[tc.alike], f.Kind, f.Why)
		})
	}
	p, e := pay()
	e.Lookups[0].Items, e.Lookups[0].Same, e.Lookups[0].Path = "", nil, "/v1/payments/{reference}"
	about := sent(t, p, e, "c", "r", "10")
	about.ReferenceOurs = true
	f := look(t, p, e, about, func(*http.Request) (int, http.Header, []byte) {
		return 200, isJSON, []byte(`{"id":"1","created":1795348801,"status":"paid"}`)
	})
	assert.Equal(t, lookup.Found, f.Kind, f.Why)
	assert.True(t, f.Exact, "the object itself was asked for")
	for _, body := range []string{`[{"id":"1"}]`, `null`, `"1"`, `[]`} {
		f = look(t, p, e, about, func(*http.Request) (int, http.Header, []byte) { return 200, isJSON, []byte(body) })
		assert.Equal(t, lookup.Inconclusive, f.Kind, body)
		assert.Contains(t, f.Why, "not a JSON object", body)
	}
}

func TestLayoutsOfTimes(t *testing.T) {
	for layout, want := range map[string]string{
		"unix": "1795348800", "date": "2026-11-22", "rfc3339": "2026-11-22T12:00:00Z", "2006-01-02 15:04:05": "2026-11-22 12:00:00",
	} {
		p, e := pay()
		e.Lookups[0].TimeLayout = layout
		about := sent(t, p, e, "c", "r", "10")
		s, err := lookup.Plan(p, e, &e.Lookups[0], about, lookup.Window{Since: noon.In(time.FixedZone("", 3600)), Until: noon})
		require.NoError(t, err)
		assert.Equal(t, want, s.Next().URL.Query().Get("from"), layout)
	}
}

// Requests with a body are sent where the table says that they have no effect, and ask for the
// next page in the body.
func TestLookupsWithABody(t *testing.T) {
	for _, tc := range []struct {
		name     string
		endpoint providers.Endpoint
		path     string
		body     string
		next     providers.Paging
		want     []string // bodies
	}{
		{
			"JSON", providers.Endpoint{Pattern: "POST /v1/search", NoEffect: true}, "/v1/search",
			`{"filter":{"ref":"{reference}"}}`, providers.Paging{Style: providers.PageCursor, Param: "page.after", Cursor: "next", More: "more"},
			[]string{`{"filter":{"ref":"a\"b"}}`, `{"filter":{"ref":"a\"b"},"page":{"after":"2"}}`},
		},
		{
			"JSON by offset", providers.Endpoint{Pattern: "POST /v1/search", NoEffect: true}, "/v1/search",
			`{"ref":"{reference}"}`, providers.Paging{Style: providers.PageOffset, Param: "skip", More: "more"},
			[]string{`{"ref":"a\"b"}`, `{"ref":"a\"b","skip":2}`},
		},
		{
			"a form", providers.Endpoint{Pattern: "POST /v1/search", NoEffect: true}, "/v1/search",
			`ref={reference}`, providers.Paging{Style: providers.PageCursor, Param: "after", Cursor: "next", More: "more"},
			[]string{`ref=a%22b`, `ref=a%22b&after=2`},
		},
		{
			"GraphQL", providers.Endpoint{Pattern: "POST /graphql", NoEffect: true, Action: providers.Action{Place: providers.ActionGraphQL, Value: "query"}}, "/graphql",
			`{"query":"query($after:String){search(ref:\"{reference}\",after:$after){id}}"}`,
			providers.Paging{Style: providers.PageCursor, Param: "variables.after", Cursor: "next", More: "more"},
			[]string{
				`{"query":"query($after:String){search(ref:\"a\\\"b\",after:$after){id}}"}`,
				`{"query":"query($after:String){search(ref:\"a\\\"b\",after:$after){id}}","variables":{"after":"2"}}`,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e := pay()
			look := &e.Lookups[0]
			look.Method, look.Path, look.Query, look.TimeLayout, look.Body, look.Next = http.MethodPost, tc.path, "", "", tc.body, tc.next
			p.Endpoints = append(p.Endpoints, tc.endpoint)
			e = &p.Endpoints[0]
			about := sent(t, p, e, "c", `a"b`, "10")
			plan := func() (*lookup.Sweep, error) {
				return lookup.Plan(p, e, &e.Lookups[0], about, about.Window(noon))
			}
			s, err := plan()
			require.NoError(t, err)
			var bodies []string
			for r := s.Next(); r != nil; r = s.Next() {
				text, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				bodies = append(bodies, string(text))
				more := `"more":true,"next":"2"`
				if len(bodies) == 2 {
					more = `"more":false`
				}
				s.Read(200, http.Header{"Content-Type": {"application/json"}}, []byte(`{"data":[{},{}],`+more+`}`))
			}
			assert.Equal(t, tc.want, bodies)
			assert.Empty(t, s.Why())

			p.Endpoints[1].NoEffect = false
			_, err = plan()
			assert.Error(t, err, "it may have an effect")
		})
	}
}

// GraphQL answers 200 even if a part of the request failed.
func TestAnswersThatListErrors(t *testing.T) {
	p, e := pay()
	look := &e.Lookups[0]
	look.Method, look.Path, look.Query, look.TimeLayout, look.Body = http.MethodPost, "/graphql", "", "", `{"query":"{a(b:\"{reference}\"){id}}"}`
	look.Next = providers.Paging{}
	p.Endpoints = append(p.Endpoints, providers.Endpoint{Pattern: "POST /graphql", NoEffect: true, Action: providers.Action{Place: providers.ActionGraphQL, Value: "query"}})
	e = &p.Endpoints[0]
	about := sent(t, p, e, "c", "r", "10")
	for body, want := range map[string]lookup.Kind{
		`{"data":[],"errors":[{"message":"no"}]}`: lookup.Inconclusive,
		`{"data":[],"errors":[]}`:                 lookup.Nothing,
		`{"data":[],"errors":null}`:               lookup.Nothing,
	} {
		s := swept(t, p, e, about, func(*http.Request) (int, http.Header, []byte) {
			return 200, http.Header{"Content-Type": {"application/json"}}, []byte(body)
		})
		f := s.Match(about, free)
		assert.Equal(t, want, f.Kind, body)
		assert.Equal(t, want == lookup.Inconclusive, strings.Contains(f.Why, "errors"), f.Why)
	}
}

func TestSharedLookups(t *testing.T) {
	_, e := pay()
	assert.False(t, lookup.Shared(&e.Lookups[0]))
	e.Lookups[0].Query = "from={since}&to={until}&limit=100"
	assert.True(t, lookup.Shared(&e.Lookups[0]))
	e.Lookups[0].Path = "/v1/customers/{path.customer}/payments"
	assert.False(t, lookup.Shared(&e.Lookups[0]))
}

// The window begins twenty minutes before the operation, or a day before it if its reference is ours.
func TestWindows(t *testing.T) {
	now := noon.Add(time.Hour)
	about := lookup.Subject{First: noon, Reference: "r"}
	assert.Equal(t, lookup.Window{Since: noon.Add(-20 * time.Minute), Until: now}, about.Window(now))
	about.ReferenceOurs = true
	day := lookup.Window{Since: noon.Add(-24 * time.Hour), Until: now}
	assert.Equal(t, day, about.Window(now))
	other := lookup.Window{Since: noon, Until: now.Add(time.Hour)}
	assert.Equal(t, lookup.Window{Since: day.Since, Until: other.Until}, day.Joined(other))
	assert.Equal(t, lookup.Window{Since: day.Since, Until: other.Until}, other.Joined(day))
}

// Only the values that look-ups and events compare are taken from the request.
func TestValuesOfARequest(t *testing.T) {
	p, e := pay()
	e.Lookups[0].Fetch = "/v1/{path.customer}/{id}"
	e.Lookups[0].Body = `{"x":"{request.note}"}`
	p.Events = []providers.EventRule{
		{Endpoint: e.Pattern, Also: []providers.Same{{Field: "a", Is: "{request.a.b}"}}},
		{Endpoint: "POST /v1/others", Also: []providers.Same{{Field: "a", Is: "{request.secret}"}}},
	}
	u, err := url.Parse("https://api.example.com/v1/customers/c%201/payments")
	require.NoError(t, err)
	m := tables.Message{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"amount":1.50,"note":"n","a":{"b":"ab"},"secret":"s"}`)}
	assert.Equal(t, map[string]string{"path.customer": "c 1", "request.amount": "1.50", "request.note": "n", "request.a.b": "ab"},
		tables.NewCompared(p, e).Values(http.MethodPost, u, m))
}

// A look-up that can't ask for an operation, or can't tell its object from others, says what is missing.
func TestReasonsOfSkippedLookups(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*providers.Endpoint, *lookup.Subject)
		why    string
	}{
		{"it serves", func(*providers.Endpoint, *lookup.Subject) {}, ""},
		{"a value that no path can have", func(e *providers.Endpoint, o *lookup.Subject) {
			e.Lookups[0].Path, o.Reference = "/v1/payments/{reference}", "a/b"
		}, "{reference}: "},
		{"a path that is none", func(e *providers.Endpoint, _ *lookup.Subject) { e.Lookups[0].Path = "v1/payments" }, "a path begins with a slash"},
		{"a query without its value", func(e *providers.Endpoint, _ *lookup.Subject) { e.Lookups[0].Query = "a={request.note}" }, "the request does not have {request.note}"},
		{"a body without its value", func(e *providers.Endpoint, _ *lookup.Subject) {
			e.Lookups[0].Query, e.Lookups[0].Body = "", `{"a":"{request.note}"}`
		}, "the request does not have {request.note}"},
		{"no key", func(e *providers.Endpoint, _ *lookup.Subject) { e.Lookups[0].By = providers.ByKey }, "the operation has no key"},
		{"no reference", func(_ *providers.Endpoint, o *lookup.Subject) { o.Reference = "" }, "the request carried no reference"},
		{"no time of creation", func(e *providers.Endpoint, _ *lookup.Subject) { e.Lookups[0].Created = "" }, "the look-up shows none"},
		{"nothing else is compared", func(e *providers.Endpoint, _ *lookup.Subject) {
			e.Lookups[0].Same = e.Lookups[0].Same[:1]
		}, "compares nothing else"},
		{"nothing else, below its parent", func(e *providers.Endpoint, _ *lookup.Subject) {
			e.Lookups[0].Path, e.Lookups[0].Same = "/v1/customers/{path.customer}/payments", e.Lookups[0].Same[:1]
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e := pay()
			about := sent(t, p, e, "c", "r", "10")
			tc.change(e, &about)
			_, err := lookup.Plan(p, e, &e.Lookups[0], about, about.Window(noon))
			if tc.why == "" {
				require.NoError(t, err)
				return
			}
			var passed *lookup.PassedOver
			require.ErrorAs(t, err, &passed)
			assert.Contains(t, passed.Why, tc.why)
		})
	}
}
