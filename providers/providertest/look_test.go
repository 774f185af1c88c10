package providertest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// acme is an API with a look-up of each kind.
func acme() providers.Provider {
	key := providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"}
	means := []providers.Meaning{
		{Field: "status", Equals: "failed", Is: providers.Refused},
		{Field: "status", Equals: "refunded", Is: providers.Reversed},
		{Field: "status", Equals: "succeeded", Is: providers.TookEffect},
	}
	payment := providers.Endpoint{
		Pattern: "POST /payments", Key: key, Object: "payment",
		Retention: 24 * time.Hour, Remembers: providers.Everything, InFlightGuard: true,
		Reference: providers.Reference{Place: providers.KeyJSONField, Name: "external_id", Source: "made up"},
		Lookups: []providers.Lookup{
			{
				By: providers.ByKey, Path: "/payments", Query: "key={key}&limit=100", Items: "data[]", ID: "id", Created: "created",
				Same:  []providers.Same{{Field: "idempotency_key", Is: "{key}"}},
				Next:  providers.Paging{Style: providers.PageCursor, Param: "cursor", Cursor: "next", More: "has_more", Size: 100},
				Means: means, Source: "made up",
			},
			{
				By: providers.ByReference, Path: "/payments/search", Query: "q=external_id:{reference}", Items: "found[]", ID: "payment.id", Created: "payment.created",
				Same:  []providers.Same{{Field: "payment.external_id", Is: "{reference}"}, {Field: "payment.amount", Is: "{request.amount}", As: providers.AsDecimal}},
				Fetch: "/payments/{id}", Means: means, SameShape: true, Needs: "payments:search", Source: "made up",
			},
			{
				By: providers.ByTime, Path: "/payments/log", Query: "from={since}&to={until}", TimeLayout: "unix", Items: "[]", ID: "id", Created: "at",
				Same: []providers.Same{{Field: "external_id", Is: "{reference}"}, {Field: "amount", Is: "{request.amount}"}}, Source: "made up",
			},
		},
		Source: "made up",
	}
	refund := payment
	refund.Pattern, refund.Object = "POST /payments/{id}/refunds", "refund"
	refund.Lookups = []providers.Lookup{{
		By: providers.ByParent, Path: "/payments/{path.id}/refunds", Items: "_embedded.refunds[]", ID: "id", Created: "created_at",
		Same: []providers.Same{{Field: "amount", Is: "{request.amount}"}}, Source: "made up",
	}}
	void := payment
	void.Pattern, void.Object = "POST /payments/{id}/void", "void"
	void.Lookups = []providers.Lookup{{
		By: providers.ByParent, Path: "/payments/{path.id}/voided", ID: "id",
		Means: []providers.Meaning{{Field: "voided", Equals: "yes", Is: providers.TookEffect}}, Source: "made up",
	}}
	message := payment
	message.Pattern, message.Object = "PUT /messages/{name}", "message"
	message.Lookups = []providers.Lookup{{By: providers.ByReference, Path: "/messages/{reference}", ID: "id", Created: "created_at",
		Same: []providers.Same{{Field: "text", Is: "{request.text}", Optional: true}, {Field: "name", Is: "{path.name}"}}, Source: "made up"}}
	return providers.Provider{
		Name: "acme", AccountHeaders: []string{"Acme-Account"},
		CredentialModes: []providers.CredentialMode{{Prefix: "live_", Mode: "live"}, {Prefix: "test_", Mode: "test"}},
		Identity:        providers.Identity{Path: "/me", Field: "account.id", Source: "made up"},
		Endpoints:       []providers.Endpoint{payment, refund, void, message},
		Source:          "made up",
	}
}

// lookBox is a server, with the header of the requests to it.
type lookBox struct {
	*providertest.Server
	t      *testing.T
	header http.Header
}

func looking(t *testing.T, p providers.Provider) lookBox {
	srv := providertest.NewServerInMemory(p, providertest.Objects("obj_"))
	t.Cleanup(srv.Close)
	return lookBox{srv, t, http.Header{}}
}

// as is the box as another credential or account asks it.
func (b lookBox) as(name, value string) lookBox {
	b.header = b.header.Clone()
	b.header.Set(name, value)
	return b
}

func (b lookBox) do(method, target, key, body string) (*http.Response, error) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.URL+target, strings.NewReader(body))
	require.NoError(b.t, err)
	req.Header = b.header.Clone()
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return b.Client().Do(req)
}

// makes sends a request that creates an object, and returns the object's id.
func (b lookBox) makes(method, target, key, body string) (id string) {
	b.t.Helper()
	resp, err := b.do(method, target, key, body)
	require.NoError(b.t, err)
	defer resp.Body.Close()
	var made struct{ ID string }
	require.NoError(b.t, json.NewDecoder(resp.Body).Decode(&made))
	require.Equal(b.t, http.StatusOK, resp.StatusCode)
	return made.ID
}

// says returns a look-up's answer.
func (b lookBox) says(target string) (status int, body any, header http.Header) {
	b.t.Helper()
	resp, err := b.do(http.MethodGet, target, "", "")
	require.NoError(b.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	_ = json.Unmarshal(text, &body) // an HTML page is none
	return resp.StatusCode, body, resp.Header
}

// at returns the value at a path of members and "[]" in a JSON value, or nil if there is none.
func at(v any, path ...string) any {
	for _, name := range path {
		members, _ := v.(map[string]any)
		v = members[name]
	}
	return v
}

// ids returns the ids of the items at a path.
func ids(v any, path ...string) (found []string) {
	list, _ := at(v, path...).([]any)
	for _, item := range list {
		found = append(found, fmt.Sprint(at(item, "id")))
	}
	return found
}

func TestLookups(t *testing.T) {
	t.Run("by key", func(t *testing.T) {
		b := looking(t, acme())
		b.makes("POST", "/payments", "k1", `{"amount":10}`)
		id := b.makes("POST", "/payments", "k2", `{"amount":20}`)
		status, body, _ := b.says("/payments?key=k2&limit=100")
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, []string{id}, ids(body, "data"))
		item := at(body, "data").([]any)[0]
		assert.Equal(t, "k2", at(item, "idempotency_key"))
		assert.Equal(t, "succeeded", at(item, "status"))
		assert.EqualValues(t, 20, at(item, "amount"))
		assert.Equal(t, false, at(body, "has_more"))
		_, body, _ = b.says("/payments?key=k3&limit=100")
		assert.Empty(t, ids(body, "data"))
		assert.NotNil(t, at(body, "data"), "an empty list is a list")
		_, body, _ = b.says("/payments?limit=100")
		assert.Len(t, ids(body, "data"), 2, "without the filter, all")
	})
	t.Run("a repeat makes no second item", func(t *testing.T) {
		b := looking(t, acme())
		for range 3 {
			b.makes("POST", "/payments", "k1", `{"amount":10}`)
		}
		_, body, _ := b.says("/payments?key=k1&limit=100")
		assert.Len(t, ids(body, "data"), 1)
	})
	t.Run("by reference, then by id", func(t *testing.T) {
		b := looking(t, acme())
		b.makes("POST", "/payments", "k1", `{"amount":10,"external_id":"inv 1&2"}`)
		id := b.makes("POST", "/payments", "k2", `{"amount":1.50,"external_id":"inv \"3\""}`)
		_, body, _ := b.says("/payments/search?q=" + url.QueryEscape(`external_id:inv "3"`))
		list := at(body, "found").([]any)
		require.Len(t, list, 1)
		assert.Equal(t, id, at(list[0], "payment", "id"))
		status, object, _ := b.says("/payments/" + id)
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, "succeeded", at(object, "status"), "what is fetched has the state")
		status, _, _ = b.says("/payments/obj_99")
		assert.Equal(t, http.StatusNotFound, status)
	})
	t.Run("by the window", func(t *testing.T) {
		b := looking(t, acme())
		first := b.Now()
		b.makes("POST", "/payments", "k1", `{"external_id":"a"}`)
		b.Advance(time.Hour)
		id := b.makes("POST", "/payments", "k2", `{"external_id":"b"}`)
		window := func(from, to time.Time) []string {
			_, body, _ := b.says(fmt.Sprintf("/payments/log?from=%d&to=%d", from.Unix(), to.Unix()))
			var found []string
			for _, item := range body.([]any) {
				found = append(found, at(item, "id").(string))
				assert.NotNil(t, at(item, "at"))
			}
			return found
		}
		assert.Len(t, window(first, b.Now()), 2)
		assert.Equal(t, []string{id}, window(first.Add(time.Minute), b.Now()))
		assert.Empty(t, window(first.Add(-time.Hour), first.Add(-time.Minute)))
	})
	t.Run("by parent", func(t *testing.T) {
		b := looking(t, acme())
		one, two := b.makes("POST", "/payments", "k1", `{}`), b.makes("POST", "/payments", "k2", `{}`)
		id := b.makes("POST", "/payments/"+one+"/refunds", "k3", `{"amount":5}`)
		_, body, _ := b.says("/payments/" + one + "/refunds")
		assert.Equal(t, []string{id}, ids(body, "_embedded", "refunds"))
		_, body, _ = b.says("/payments/" + two + "/refunds")
		assert.Empty(t, ids(body, "_embedded", "refunds"))
		assert.NotNil(t, at(body, "_embedded", "refunds"))
	})
	t.Run("by the parent's state", func(t *testing.T) {
		b := looking(t, acme())
		_, body, _ := b.says("/payments/p1/voided")
		assert.Nil(t, at(body, "voided"))
		b.makes("POST", "/payments/p1/void", "k1", `{}`)
		_, body, _ = b.says("/payments/p1/voided")
		assert.Equal(t, "yes", at(body, "voided"))
		assert.Equal(t, "p1", at(body, "id"))
	})
	t.Run("an object by its reference in the path", func(t *testing.T) {
		b := looking(t, acme())
		id := b.makes("PUT", "/messages/m", "k1", `{"external_id":"a b"}`)
		status, body, _ := b.says("/messages/a%20b")
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, id, at(body, "id"))
		status, _, _ = b.says("/messages/other")
		assert.Equal(t, http.StatusNotFound, status)
	})
	t.Run("states", func(t *testing.T) {
		b := looking(t, acme())
		id := b.makes("POST", "/payments", "k1", `{}`)
		for state, want := range map[providers.Outcome]string{providers.Refused: "failed", providers.Reversed: "refunded", providers.TookEffect: "succeeded"} {
			require.True(t, b.Turn(id, state))
			_, body, _ := b.says("/payments?key=k1&limit=100")
			assert.Equal(t, want, at(at(body, "data").([]any)[0], "status"))
			_, body, _ = b.says("/payments/" + id)
			assert.Equal(t, want, at(body, "status"))
			assert.Equal(t, state, b.Effects()[0].State)
		}
		assert.False(t, b.Turn("obj_99", providers.Reversed))
	})
	t.Run("a request that is no look-up goes to the business", func(t *testing.T) {
		b := looking(t, acme())
		status, body, _ := b.says("/balance")
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, "obj_1", at(body, "id"))
		assert.Empty(t, b.Effects())
	})
}

// braintree's look-up is a query in a POST.
func TestLookupInABody(t *testing.T) {
	p := acme()
	search := `{"query":"query ($s: String!) { search(input: {orderId: {is: \"{reference}\"}}) { edges { node { id } } } }","variables":{"first":50}}`
	p.Endpoints = []providers.Endpoint{
		{Pattern: "POST /graphql", Action: providers.Action{Place: providers.ActionGraphQL, Value: "query"}, NoEffect: true, Source: "made up"},
		{
			Pattern: "POST /graphql", Action: providers.Action{Place: providers.ActionGraphQL, Value: "mutation charge"},
			Object:    "charge",
			Reference: providers.Reference{Place: providers.KeyJSONField, Name: "variables.orderId", Source: "made up"},
			Lookups: []providers.Lookup{{
				By: providers.ByReference, Method: http.MethodPost, Path: "/graphql", Body: search, Items: "data.search.edges[]", ID: "node.id",
				Same: []providers.Same{{Field: "node.orderId", Is: "{reference}"}, {Field: "node.amount", Is: "{request.variables.amount}"}}, Created: "node.createdAt",
				Next: providers.Paging{Style: providers.PageCursor, Param: "variables.after", Cursor: "data.search.pageInfo.endCursor", More: "data.search.pageInfo.hasNextPage", Size: 50}, Source: "made up",
			}},
			Source: "made up",
		},
	}
	b := looking(t, p)
	charge := func(order string) {
		text, err := json.Marshal(map[string]any{"query": "mutation { charge { id } }", "variables": map[string]any{"orderId": order, "amount": 7}})
		require.NoError(t, err)
		b.makes("POST", "/graphql", "", string(text))
	}
	ask := func(order, after string) (body any) {
		quoted, err := json.Marshal(order)
		require.NoError(t, err)
		inString, err := json.Marshal(string(quoted[1 : len(quoted)-1]))
		require.NoError(t, err)
		text := strings.ReplaceAll(search, "{reference}", string(inString[1:len(inString)-1]))
		if after != "" {
			text = strings.ReplaceAll(text, `"first":50`, fmt.Sprintf(`"first":50,"after":%q`, after))
		}
		resp, err := b.do("POST", "/graphql", "", text)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&body))
		return body
	}
	b.PageSize = 1
	charge("one")
	charge(`o"2`)
	charge(`o"2`)
	body := ask("one", "")
	edges := at(body, "data", "search", "edges").([]any)
	require.Len(t, edges, 1)
	assert.Equal(t, "one", at(edges[0], "node", "orderId"))
	assert.Equal(t, false, at(body, "data", "search", "pageInfo", "hasNextPage"))

	body = ask(`o"2`, "")
	first := at(at(body, "data", "search", "edges").([]any)[0], "node", "id")
	require.Equal(t, true, at(body, "data", "search", "pageInfo", "hasNextPage"))
	body = ask(`o"2`, at(body, "data", "search", "pageInfo", "endCursor").(string))
	second := at(at(body, "data", "search", "edges").([]any)[0], "node", "id")
	assert.NotEqual(t, first, second)
	assert.Equal(t, false, at(body, "data", "search", "pageInfo", "hasNextPage"))
	assert.Len(t, b.Effects(), 3, "a query has no effect")

	b.Script(providertest.DropBefore())
	b.ScriptLooks(providertest.EmptyList())
	assert.Empty(t, at(ask("one", ""), "data", "search", "edges"), "look-ups have a script of their own")
}

func TestLookupPages(t *testing.T) {
	next := map[string]providers.Paging{
		"cursor":          {Style: providers.PageCursor, Param: "cursor", Cursor: "meta.next"},
		"header":          {Style: providers.PageHeader, Param: "after", Cursor: "X-After-Cursor"},
		"last id, more":   {Style: providers.PageLastID, Param: "starting_after", More: "has_more"},
		"last id, by two": {Style: providers.PageLastID, Param: "starting_after", Size: 2},
		"offset":          {Style: providers.PageOffset, Param: "skip"},
		"number":          {Style: providers.PageNumber, Param: "page"},
		"link":            {Style: providers.PageLink, Cursor: "_links.next.href"},
	}
	for name, paging := range next {
		t.Run(name, func(t *testing.T) {
			p := acme()
			p.Endpoints[0].Lookups = []providers.Lookup{{By: providers.ByKey, Path: "/payments", Query: "limit=2", Items: "data[]", ID: "id", Same: []providers.Same{{Field: "key", Is: "{key}"}}, Next: paging, Source: "made up"}}
			b := looking(t, p)
			b.PageSize = 2
			var made []string
			for n := range 5 {
				made = append(made, b.makes("POST", "/payments", fmt.Sprintf("key-%d", n), `{}`))
			}
			slices.Reverse(made)
			var pages [][]string
			query := url.Values{"limit": {"2"}}
			for len(pages) < 9 {
				_, body, header := b.says("/payments?" + query.Encode())
				page := ids(body, "data")
				if len(page) == 0 {
					break
				}
				pages = append(pages, page)
				switch paging.Style {
				case providers.PageCursor:
					text, _ := at(body, "meta", "next").(string)
					query.Set("cursor", text)
					if text == "" {
						query.Set("cursor", "after 1")
					}
				case providers.PageHeader:
					if query.Set("after", header.Get("X-After-Cursor")); header.Get("X-After-Cursor") == "" {
						query.Set("after", "after 1")
					}
				case providers.PageLastID:
					query.Set("starting_after", page[len(page)-1])
					if paging.More != "" {
						assert.Equal(t, len(pages) < 3, at(body, "has_more"))
					}
				case providers.PageOffset:
					query.Set("skip", strconv.Itoa(2*len(pages)))
				case providers.PageNumber:
					query.Set("page", strconv.Itoa(len(pages)+1))
				case providers.PageLink:
					text, _ := at(body, "_links", "next", "href").(string)
					to, err := url.Parse(text)
					require.NoError(t, err)
					if query = to.Query(); text == "" {
						query.Set("page[after]", "after 1")
					} else {
						assert.Equal(t, b.URL+"/payments", "http://"+to.Host+to.Path)
					}
				}
			}
			assert.Equal(t, [][]string{made[:2], made[2:4], made[4:]}, pages)
		})
	}
}

func TestLookupVisibility(t *testing.T) {
	found := func(b lookBox, key string) bool {
		_, body, _ := b.says("/payments?key=" + key + "&limit=100")
		return len(ids(body, "data")) == 1
	}
	t.Run("after a while", func(t *testing.T) {
		b := looking(t, acme())
		b.Visible(10 * time.Minute)
		id := b.makes("POST", "/payments", "k", `{}`)
		b.Advance(9 * time.Minute)
		assert.False(t, found(b, "k"))
		status, _, _ := b.says("/payments/" + id)
		assert.Equal(t, http.StatusNotFound, status)
		b.Advance(time.Minute)
		assert.True(t, found(b, "k"))
		status, _, _ = b.says("/payments/" + id)
		assert.Equal(t, http.StatusOK, status)
	})
	t.Run("each after another while", func(t *testing.T) {
		b := looking(t, acme())
		b.Lag(time.Minute, time.Hour)
		const made = 20
		for n := range made {
			b.makes("POST", "/payments", fmt.Sprint(n), `{}`)
		}
		b.Advance(50 * time.Second)
		counts, overtaken := map[int]bool{}, false
		for range 61 {
			n, missing := 0, false
			for i := range made {
				switch seen := found(b, fmt.Sprint(i)); {
				case !seen:
					missing = true
				case missing:
					n, overtaken = n+1, true
				default:
					n++
				}
			}
			counts[n] = true
			b.Advance(time.Minute)
		}
		assert.True(t, counts[0] && counts[made], "none before, all after")
		assert.Greater(t, len(counts), 3)
		assert.True(t, overtaken, "a later one is seen before an earlier")
	})
}

func TestLookupAccounts(t *testing.T) {
	t.Run("by header", func(t *testing.T) {
		b := looking(t, acme())
		b.as("Acme-Account", "acct_1").makes("POST", "/payments", "k", `{}`)
		for account, want := range map[string]int{"acct_1": 1, "acct_2": 0} {
			_, body, _ := b.as("Acme-Account", account).says("/payments?key=k&limit=100")
			assert.Len(t, ids(body, "data"), want, account)
			_, body, _ = b.as("Acme-Account", account).says("/me")
			assert.Equal(t, account, at(body, "account", "id"))
		}
		assert.Equal(t, "acct_1", b.Effects()[0].Account)
	})
	t.Run("by credential", func(t *testing.T) {
		b := looking(t, acme())
		b.Account = func(r providertest.Request) string {
			return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer of ")
		}
		one, two := b.as("Authorization", "Bearer of one"), b.as("Authorization", "Bearer of two")
		id := one.makes("POST", "/payments", "k", `{}`)
		assert.NotEqual(t, id, two.makes("POST", "/payments", "k", `{}`), "keys are an account's own")
		_, body, _ := one.says("/payments?key=k&limit=100")
		assert.Equal(t, []string{id}, ids(body, "data"))
		status, _, _ := two.says("/payments/" + id)
		assert.Equal(t, http.StatusNotFound, status)
		_, body, _ = two.says("/me")
		assert.Equal(t, "two", at(body, "account", "id"))
	})
	t.Run("by mode", func(t *testing.T) {
		b := looking(t, acme())
		b.as("Authorization", "Bearer live_1").makes("POST", "/payments", "k", `{}`)
		_, body, _ := b.as("Authorization", "Bearer test_1").says("/payments?key=k&limit=100")
		assert.Empty(t, ids(body, "data"))
		assert.Equal(t, "live", b.Effects()[0].Mode)
	})
	t.Run("by permission", func(t *testing.T) {
		b := looking(t, acme())
		b.MayLook = func(r providertest.Request) bool { return r.Header.Get("Authorization") == "Bearer reads" }
		b.makes("POST", "/payments", "k", `{"external_id":"a"}`)
		status, body, _ := b.says("/payments/search?q=external_id:a")
		assert.Equal(t, http.StatusForbidden, status)
		assert.Contains(t, fmt.Sprint(body), "payments:search")
		status, _, _ = b.as("Authorization", "Bearer reads").says("/payments/search?q=external_id:a")
		assert.Equal(t, http.StatusOK, status)
	})
}

func TestLookupFaults(t *testing.T) {
	b := looking(t, acme())
	b.PageSize = 1
	other := b.makes("POST", "/payments", "other", `{"external_id":"x"}`)
	id := b.makes("POST", "/payments", "k", `{}`)
	const target = "/payments?key=k&limit=100"
	b.Script(providertest.Status(503, nil)) // the next payment's
	for _, code := range []int{401, 403, 404, 429, 500, 503} {
		b.ScriptLooks(providertest.Status(code, nil))
		status, body, _ := b.says(target)
		assert.Equal(t, code, status)
		assert.Nil(t, at(body, "data"))
	}
	b.ScriptLooks(providertest.PageBefore(200))
	status, body, header := b.says(target)
	assert.Equal(t, 200, status)
	assert.Nil(t, body)
	assert.Contains(t, header.Get("Content-Type"), "text/html")

	b.ScriptLooks(providertest.CutAt(20))
	resp, err := b.do(http.MethodGet, target, "", "")
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	resp.Body.Close()
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)

	b.ScriptLooks(providertest.NoList())
	status, body, _ = b.says(target)
	assert.Equal(t, 200, status)
	assert.Nil(t, at(body, "data"))

	b.EveryLook(providertest.EmptyList())
	for range 2 {
		status, body, _ = b.says(target)
		assert.Equal(t, 200, status)
		assert.Equal(t, []any{}, at(body, "data"))
	}
	status, _, _ = b.says("/payments/" + id)
	assert.Equal(t, 404, status)

	b.EveryLook(providertest.Unfiltered())
	_, body, _ = b.says("/payments?key=other&limit=100")
	assert.Equal(t, []string{id}, ids(body, "data"), "the newest, whatever was asked for")

	b.EveryLook(providertest.PageLoop())
	_, body, _ = b.says("/payments?limit=100")
	_, again, _ := b.says("/payments?limit=100&cursor=" + url.QueryEscape(at(body, "next").(string)))
	assert.Equal(t, body, again)
	assert.Equal(t, true, at(body, "has_more"))

	b.EveryLook(providertest.None())
	_, body, _ = b.says("/payments?key=other&limit=100")
	assert.Equal(t, []string{other}, ids(body, "data"))

	resp, err = b.do("POST", "/payments", "k3", `{}`)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 503, resp.StatusCode, "look-ups take nothing from Script")
}

// A look-up dates an object by the server's clock, in the same form as the business's answer.
func TestLookupTimes(t *testing.T) {
	for body, form := range map[string]func(time.Time) any{
		`{"created":1795176001}`:             func(at time.Time) any { return float64(at.Unix()) },
		`{"created":1795176001000}`:          func(at time.Time) any { return float64(at.UnixMilli()) },
		`{"created":"2026-11-20T12:00:01Z"}`: func(at time.Time) any { return at.UTC().Format(time.RFC3339) },
		`{}`:                                 func(at time.Time) any { return at.UTC().Format(time.RFC3339) },
	} {
		b := looking(t, acme())
		b.makes("POST", "/payments", "k1", body)
		_, list, _ := b.says("/payments?key=k1&limit=100")
		items, _ := at(list, "data").([]any)
		require.Len(t, items, 1)
		assert.Equal(t, form(b.Effects()[0].At), at(items[0], "created"), body)
	}
}

// Mangopay keeps the answer to a request, and shows it under the request's key. The created object has an Id.
func TestLookupOfAStoredAnswer(t *testing.T) {
	srv := providertest.NewServerInMemory(providers.Mangopay(), capital())
	t.Cleanup(srv.Close)
	b := lookBox{srv, t, http.Header{}}
	const key = "5b39fe05-3dcd-4ab2-8b2c-0c8a3f5f0d01"
	status, _, _ := b.says("/v2.01/client/responses/" + key)
	assert.Equal(t, http.StatusNotFound, status)
	b.makes("POST", "/v2.01/client/payins/card/direct/", key, `{"DebitedFunds":{"Currency":"EUR","Amount":1000}}`)
	id := b.Effects()[0].Object
	assert.Equal(t, "146476891", id)
	_, stored, _ := b.says("/v2.01/client/responses/" + key)
	assert.Equal(t, "200", at(stored, "StatusCode"))
	assert.Equal(t, id, at(stored, "Resource", "Id"))
	assert.EqualValues(t, b.Effects()[0].At.Unix(), at(stored, "Resource", "CreationDate"))
	_, payin, _ := b.says("/v2.01/client/payins/" + id)
	assert.Equal(t, id, at(payin, "Id"))
	assert.Equal(t, "CREATED", at(payin, "Status"))
}

// A business that answers look-ups itself is asked for them.
func TestLookupsOfACustomHandler(t *testing.T) {
	srv := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method) }))
	defer srv.Close()
	for own, want := range map[bool]string{true: http.MethodGet, false: `{"data":[]`} {
		srv.OwnLooks = own
		resp, err := srv.Client().Get(srv.URL + "/v1/payment_intents?limit=100")
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Contains(t, string(body), want)
	}
}
