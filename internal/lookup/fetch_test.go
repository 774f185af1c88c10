package lookup_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/providers"
)

var isJSON = http.Header{"Content-Type": {"application/json"}}

// If a table says how to fetch an object by itself, the fetched object decides on its state.
func TestFoundObjectsAreGot(t *testing.T) {
	p, e := pay()
	look := &e.Lookups[0]
	look.Fetch = "/v1/payments/{id}"
	for i := range look.Means {
		look.Means[i].Field = "payment.status"
	}
	about := sent(t, p, e, "c", "r", "10")
	b := &box{ledger: []payment{paid("p 1", "r")}}
	s := swept(t, p, e, about, b.answer)
	listed := s.Match(about, free)
	require.Equal(t, lookup.Found, listed.Kind)
	assert.False(t, listed.Fresh, "an item is not what a create answers")
	r, err := s.Fetch(about, listed)
	require.NoError(t, err)
	assert.Equal(t, "GET https://api.example.com/v1/payments/p%201", r.Method+" "+r.URL.String())

	for _, tc := range []struct {
		name   string
		status int
		body   string
		kind   lookup.Kind
		want   providers.Outcome
		fresh  bool
	}{
		{"paid", 200, `{"payment":{"status":"paid"}}`, lookup.Found, providers.TookEffect, true},
		{"failed", 200, `{"payment":{"status":"failed"}}`, lookup.Found, providers.Refused, false},
		{"in another state", 200, `{"payment":{"status":"new"}}`, lookup.Found, providers.TookEffect, false},
		{"gone", 404, `{}`, lookup.Inconclusive, 0, false},
		{"not to be had", 500, `{}`, lookup.Inconclusive, 0, false},
		{"cut", 200, `{"payment":`, lookup.Inconclusive, 0, false},
		{"no object", 200, `[]`, lookup.Inconclusive, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := s.Fetched(listed, tc.status, isJSON, []byte(tc.body))
			assert.Equal(t, tc.kind, f.Kind)
			assert.Equal(t, tc.want, f.Outcome)
			assert.Equal(t, tc.fresh, f.Fresh)
			assert.Equal(t, []string{"p 1"}, f.Objects)
			assert.Equal(t, tc.kind != lookup.Found, f.Why != "")
			if tc.kind == lookup.Found {
				assert.Equal(t, tc.body, string(f.Body))
			}
		})
	}

	listed.Objects = []string{"../keys"}
	_, err = s.Fetch(about, listed)
	assert.Error(t, err, "an id leads nowhere else")
	r, err = s.Fetch(about, lookup.Finding{Kind: lookup.Nothing})
	require.NoError(t, err)
	assert.Nil(t, r)
}

// A parent existed before the request, so only a state that the table lists says something of the request.
func TestStatesOfAParent(t *testing.T) {
	p, e := pay()
	e.Lookups[0] = providers.Lookup{
		By: providers.ByParent, Path: "/v1/customers/{path.customer}", ID: "id",
		Means: []providers.Meaning{{Field: "status", Equals: "void", Is: providers.TookEffect}},
	}
	about := sent(t, p, e, "c", "", "10")
	for status, want := range map[string]lookup.Kind{"void": lookup.Found, "open": lookup.Inconclusive} {
		f := look(t, p, e, about, func(*http.Request) (int, http.Header, []byte) {
			return 200, isJSON, []byte(`{"id":"c","status":"` + status + `"}`)
		})
		assert.Equal(t, want, f.Kind, f.Why)
	}

	// A part of the object may belong to another operation.
	e.Lookups[0].Items, e.Lookups[0].Created = "parts[]", "created"
	f := look(t, p, e, about, func(*http.Request) (int, http.Header, []byte) {
		return 200, isJSON, []byte(`{"parts":[{"id":"c","status":"open","created":1795348801}]}`)
	})
	assert.Equal(t, lookup.Alike, f.Kind, f.Why)
}

// The items of one object, such as its events, together give its state. An object of another kind with the same key
// is another object, and no contradiction.
func TestItemsOfOneObject(t *testing.T) {
	p, e := pay()
	e.Key = providers.Key{Place: providers.KeyRawHeader, Name: "X-Key"}
	e.Lookups[0] = providers.Lookup{
		By: providers.ByKey, Path: "/v1/events", Items: "data[]",
		Same: []providers.Same{
			{Field: "request.key", Is: "{key}"}, {Field: "object.kind", Is: "payment"}, {Field: "object.amount", Is: "{request.amount}", As: providers.AsDecimal},
		},
		ID: "object.id",
		Means: []providers.Meaning{
			{Field: "type", Equals: "created", Is: providers.InProgress}, {Field: "type", Equals: "failed", Is: providers.Refused},
			{Field: "type", Equals: "succeeded", Is: providers.TookEffect}, {Field: "type", Equals: "refunded", Is: providers.Reversed},
		},
	}
	about := sent(t, p, e, "c", "", "10")
	about.Key = "k"
	event := func(kind, id, what string) string {
		return `{"type":"` + what + `","request":{"key":"k"},"object":{"kind":"` + kind + `","id":"` + id + `","amount":10}}`
	}
	for _, tc := range []struct {
		name   string
		events string
		want   providers.Outcome
	}{
		{"succeeded", event("payment", "p", "created") + "," + event("payment", "p", "succeeded") + "," + event("charge", "ch", "succeeded"), providers.TookEffect},
		{"out of turn", event("payment", "p", "succeeded") + "," + event("payment", "p", "created"), providers.TookEffect},
		{"failed, then succeeded", event("payment", "p", "succeeded") + "," + event("payment", "p", "failed"), providers.TookEffect},
		{"failed", event("payment", "p", "created") + "," + event("payment", "p", "failed"), providers.Refused},
		{"beside another kind's amount", event("payment", "p", "succeeded") + "," + strings.Replace(event("fee", "fee", "succeeded"), ":10", ":1", 1), providers.TookEffect},
		{"refunded", event("payment", "p", "refunded") + "," + event("payment", "p", "succeeded"), providers.Reversed},
	} {
		f := look(t, p, e, about, func(*http.Request) (int, http.Header, []byte) {
			return 200, isJSON, []byte(`{"data":[` + tc.events + `]}`)
		})
		require.Equal(t, lookup.Found, f.Kind, tc.name+": "+f.Why)
		assert.Equal(t, []string{"p"}, f.Objects, tc.name)
		assert.Equal(t, tc.want, f.Outcome, tc.name)
		assert.True(t, f.Exact)
	}
}

// A page whose events name only objects of the page before is not taken for a loop.
func TestPagesOfEventsOfOneObject(t *testing.T) {
	p, e := pay()
	e.Key = providers.Key{Place: providers.KeyRawHeader, Name: "X-Key"}
	e.Lookups[0] = providers.Lookup{
		By: providers.ByKey, Path: "/v1/events", Items: "data[]", ID: "object", Same: []providers.Same{{Field: "key", Is: "{key}"}},
		Next: providers.Paging{Style: providers.PageCursor, Param: "after", Cursor: "next"},
	}
	about := sent(t, p, e, "c", "", "10")
	about.Key = "k"
	f := look(t, p, e, about, func(r *http.Request) (int, http.Header, []byte) {
		next := map[string]string{"": "2", "2": "3", "3": ""}[r.URL.Query().Get("after")]
		return 200, isJSON, []byte(`{"data":[{"id":"evt` + next + `","object":"p","key":"k"}],"next":"` + next + `"}`)
	})
	assert.Equal(t, lookup.Found, f.Kind, f.Why)
	assert.Equal(t, []string{"p"}, f.Objects)
}

func TestIdentity(t *testing.T) {
	p, e := pay()
	about := sent(t, p, e, "c", "r", "10")
	r, err := lookup.Identify(p, e, &about)
	require.NoError(t, err)
	assert.Nil(t, r, "it can't be asked")

	p.Identity = providers.Identity{Path: "/v1/account?fields=id", Field: "me.id", Needs: "account:read"}
	r, err = lookup.Identify(p, e, &about)
	require.NoError(t, err)
	assert.Equal(t, "https://api.example.com/v1/account?fields=id", r.URL.String())
	assert.Equal(t, []string{"a"}, r.Header["Account"])

	for _, tc := range []struct {
		name    string
		last    bool
		status  int
		body    string
		account string
		why     string
	}{
		{"its id", false, 200, `{"me":{"id":"acct_1"}}`, "acct_1", ""},
		{"of a URL", true, 200, `{"me":{"id":"https://api.example.com/accounts/acct_1"}}`, "acct_1", ""},
		{"a URL without one", true, 200, `{"me":{"id":"https://api.example.com/accounts/"}}`, "", "no one text"},
		{"none", false, 200, `{}`, "", "no one text"},
		{"two", false, 200, `{"me":{"id":"a","id":"b"}}`, "", "no one text"},
		{"cut", false, 200, `{"me":{"id":"a"}`, "", "cut short"},
		{"forbidden", false, 403, `{"me":{"id":"a"}}`, "", "account:read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p.Identity.Last = tc.last
			account, why := lookup.Account(p, tc.status, isJSON, []byte(tc.body))
			assert.Equal(t, tc.account, account)
			assert.Contains(t, why, tc.why)
			assert.Equal(t, account == "", why != "")
		})
	}
}

// The account of a credential is known if the answer lists exactly one account.
func TestIdentityInAList(t *testing.T) {
	p := &providers.Provider{Identity: providers.Identity{Path: "/v1/accounts", Field: "accounts[].id"}}
	for body, want := range map[string]string{
		`{"accounts":[{"id":"acct_1"}]}`:                 "acct_1",
		`{"accounts":[{"id":"acct_1"},{"id":"acct_2"}]}`: "",
		`{"accounts":[]}`:                                "",
	} {
		account, why := lookup.Account(p, 200, isJSON, []byte(body))
		assert.Equal(t, want, account, body)
		assert.Equal(t, want == "", why != "", body)
	}
}
