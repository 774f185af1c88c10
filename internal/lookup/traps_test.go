package lookup_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/providers"
)

// An incomplete list proves nothing, in any form.
func TestIncompleteListIsInconclusive(t *testing.T) {
	const list = `{"data":[],"more":false}`
	for _, tc := range []struct {
		name   string
		status int
		media  string
		body   string
		why    string
	}{
		{"401", 401, "", `{}`, "payments:read"},
		{"403", 403, "", `{"data":[],"more":false}`, "payments:read"},
		{"404", 404, "", `{"data":[],"more":false}`, "404"},
		{"429", 429, "", `{}`, "429"},
		{"500", 500, "", list, "500"},
		{"503", 503, "", list, "503"},
		{"a redirect", 302, "", list, "302"},
		{"a part", 206, "", list, "206"},
		{"HTML", 200, "text/html", `<html>no</html>`, "not the provider's"},
		{"HTML that says that it is JSON", 200, "", `<html>no</html>`, "not the provider's"},
		{"a text", 200, "text/plain", `no`, "not the provider's"},
		{"nothing", 200, "", ``, "cut short"},
		{"cut", 200, "", list[:len(list)-1], "cut short"},
		{"no list", 200, "", `{"message":"ok"}`, "does not have the list data[]"},
		{"a list of another name", 200, "", `{"items":[],"more":false}`, "does not have the list data[]"},
		{"an object for a list", 200, "", `{"data":{},"more":false}`, "does not have the list data[]"},
		{"null for a list", 200, "", `{"data":null,"more":false}`, "does not have the list data[]"},
		{"an array", 200, "", `[]`, "does not have the list data[]"},
		{"two lists", 200, "", `{"data":[],"data":[],"more":false}`, "twice"},
		{"not a word of more", 200, "", `{"data":[]}`, "goes on"},
		{"more, and not how", 200, "", `{"data":[],"more":true}`, "not how"},
		{"more in two ways", 200, "", `{"data":[],"more":false,"more":true}`, "goes on"},
		{"two cursors", 200, "", `{"data":[],"more":true,"next":"a","next":"b"}`, "clearly"},
		{"an object for a cursor", 200, "", `{"data":[],"more":true,"next":{}}`, "clearly"},
		{"too long", 200, "", list + strings.Repeat(" ", lookup.MaxBody), "4 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e := pay()
			if tc.media == "" {
				tc.media = "application/json"
			}
			f := look(t, p, e, sent(t, p, e, "c", "r", "10.00"), func(*http.Request) (int, http.Header, []byte) {
				return tc.status, http.Header{"Content-Type": {tc.media}}, []byte(tc.body)
			})
			assert.Equal(t, lookup.Inconclusive, f.Kind)
			assert.Contains(t, f.Why, tc.why)
		})
	}
}

// A whole list without a match gives Nothing. A list that failed before its end is inconclusive.
func TestAbsenceNeedsTheWholeList(t *testing.T) {
	p, e := pay()
	about := sent(t, p, e, "c", "r", "10.00")
	b := &box{}
	assert.Equal(t, lookup.Nothing, look(t, p, e, about, b.answer).Kind)
	assert.Equal(t, "c", b.lastQuery.Get("customer"))
	assert.Equal(t, "r", b.lastQuery.Get("reference"))

	b.ledger = []payment{paid("1", "r"), paid("2", "r"), paid("3", "r")}
	for i := range b.ledger {
		b.ledger[i].Amount = "11"
	}
	s, err := lookup.Plan(p, e, &e.Lookups[0], about, about.Window(noon.Add(time.Hour)))
	require.NoError(t, err)
	s.Read(b.answer(s.Next()))
	assert.Equal(t, lookup.Inconclusive, s.Match(about, free).Kind, "the second page is not read yet")
	require.NotNil(t, s.Next())
	s.Fail("the connection broke")
	assert.Nil(t, s.Next())
	f := s.Match(about, free)
	assert.Equal(t, lookup.Inconclusive, f.Kind)
	assert.Contains(t, f.Why, "broke")
}

// A filter that is ignored finds other objects, which are not ours.
func TestAnIgnoredFilterFindsNothing(t *testing.T) {
	other := func(change func(*payment)) payment {
		p := paid("other", "r")
		change(&p)
		return p
	}
	for name, object := range map[string]payment{
		"another amount":   other(func(p *payment) { p.Reference, p.Amount = "R", "10.01" }),
		"another currency": other(func(p *payment) { p.Reference, p.Currency = "r2", "eur" }),
		"another customer": other(func(p *payment) { p.Reference, p.Customer = "", "d" }),
		"yesterday's":      other(func(p *payment) { p.Reference = "s"; p.Created -= 24 * 60 * 60 }),
	} {
		t.Run(name, func(t *testing.T) {
			p, e := pay()
			b := &box{ledger: []payment{object}, unfilter: true}
			assert.Equal(t, lookup.Nothing, look(t, p, e, sent(t, p, e, "c", "r", "10.00"), b.answer).Kind)
		})
	}
}

func TestTwoObjectsAreAmbiguous(t *testing.T) {
	p, e := pay()
	about := sent(t, p, e, "c", "r", "10.00")
	about.ReferenceOurs = true
	b := &box{ledger: []payment{paid("1", "r"), paid("2", "r"), paid("1", "r")}}
	s := swept(t, p, e, about, b.answer)
	f := s.Match(about, free)
	assert.Equal(t, lookup.Ambiguous, f.Kind)
	assert.Equal(t, []string{"1", "2"}, f.Objects)
	assert.NotEmpty(t, f.Why)

	b.ledger = b.ledger[:1]
	b.ledger = append(b.ledger, b.ledger[0])
	f = look(t, p, e, about, b.answer)
	assert.Equal(t, lookup.Found, f.Kind, "an object that is listed twice is one: %s", f.Why)
}

// A caller's reference proves nothing if another operation made the object.
func TestCallersReferenceOnOtherObjects(t *testing.T) {
	p, e := pay()
	about := sent(t, p, e, "c", "r", "10.00")
	b := &box{unfilter: true}
	b.ledger = []payment{paid("1", "r")}
	s := swept(t, p, e, about, b.answer)
	assert.Equal(t, lookup.Found, s.Match(about, free).Kind)
	f := s.Match(about, func(id string) bool { return id == "1" })
	assert.Equal(t, lookup.Nothing, f.Kind, "it proves another operation already")
}

// An object with the operation's own reference can't belong to another operation. If it contradicts the request all
// the same, a person has to decide.
func TestOwnReferenceThatContradicts(t *testing.T) {
	p, e := pay()
	about := sent(t, p, e, "c", "r", "10.00")
	about.ReferenceOurs = true
	b := &box{unfilter: true}
	for _, tc := range []struct {
		name   string
		change func(*payment)
		taken  bool
		want   lookup.Kind
	}{
		{"as it should be", func(*payment) {}, false, lookup.Found},
		{"another amount", func(p *payment) { p.Amount = "1" }, false, lookup.Ambiguous},
		{"another operation's", func(*payment) {}, true, lookup.Ambiguous},
		{"clocks that differ", func(p *payment) { p.Created -= 23 * 60 * 60 }, false, lookup.Found},
		{"from days before", func(p *payment) { p.Created -= 48 * 60 * 60 }, false, lookup.Ambiguous},
		{"late", func(p *payment) { p.Created += 48 * 60 * 60 }, false, lookup.Found},
		{"no time", func(p *payment) { p.Created = 0 }, false, lookup.Inconclusive},
		{"no id", func(p *payment) { p.ID = "" }, false, lookup.Inconclusive},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object := paid("1", "r")
			tc.change(&object)
			b.ledger = []payment{object}
			f := swept(t, p, e, about, b.answer).Match(about, func(string) bool { return tc.taken })
			assert.Equal(t, tc.want, f.Kind, f.Why)
			assert.Equal(t, tc.want != lookup.Found, f.Why != "")
		})
	}
}

func TestPages(t *testing.T) {
	p, e := pay()
	about := sent(t, p, e, "c", "r", "10.00")
	ledger := func(n int) (all []payment) {
		for i := range n {
			all = append(all, paid(fmt.Sprint("other", i), "other"))
		}
		return append(all, paid("1", "r"))
	}
	t.Run("on the third", func(t *testing.T) {
		b := &box{ledger: ledger(5), unfilter: true}
		f := look(t, p, e, about, b.answer)
		assert.Equal(t, lookup.Found, f.Kind)
		assert.Equal(t, []string{"1"}, f.Objects)
		assert.Len(t, b.requests, 3)
	})
	t.Run("in circles", func(t *testing.T) {
		b := &box{ledger: ledger(5), unfilter: true, circle: true}
		f := look(t, p, e, about, b.answer)
		assert.Equal(t, lookup.Inconclusive, f.Kind)
		assert.Contains(t, f.Why, "circles")
	})
	t.Run("without an end", func(t *testing.T) {
		b := &box{endless: true}
		f := look(t, p, e, about, b.answer)
		assert.Equal(t, lookup.Inconclusive, f.Kind)
		assert.Contains(t, f.Why, "longer")
		assert.LessOrEqual(t, len(b.requests), lookup.MaxRequests)
	})
	t.Run("too long in all", func(t *testing.T) {
		b := &box{endless: true}
		padding := strings.Repeat(" ", lookup.MaxBody-1000)
		f := look(t, p, e, about, func(r *http.Request) (int, http.Header, []byte) {
			status, header, body := b.answer(r)
			return status, header, append(body, padding...)
		})
		assert.Equal(t, lookup.Inconclusive, f.Kind)
		assert.Len(t, b.requests, 17)
	})
	t.Run("too many for one window", func(t *testing.T) {
		b := &box{size: 1}
		for i := range 30 {
			o := paid(fmt.Sprint("o", i), "r")
			o.Created += int64(10 * i)
			o.Reference, o.Amount = "s", "7"
			b.ledger = append(b.ledger, o)
		}
		b.ledger = append(b.ledger, paid("1", "r"))
		f := look(t, p, e, about, b.answer)
		assert.Equal(t, lookup.Found, f.Kind, f.Why)
		assert.Equal(t, []string{"1"}, f.Objects)
	})
	t.Run("too many, and a window without an end", func(t *testing.T) {
		p, e := pay()
		e.Lookups[0].Query = "from={since}"
		b := &box{ledger: ledger(30), unfilter: true, size: 1}
		assert.Equal(t, lookup.Inconclusive, look(t, p, e, about, b.answer).Kind)
		assert.Len(t, b.requests, lookup.MaxPages)
	})
	t.Run("too many, and a window without a beginning", func(t *testing.T) {
		p, e := pay()
		e.Lookups[0].Query = "to={until}"
		b := &box{ledger: ledger(30), unfilter: true, size: 1}
		assert.Equal(t, lookup.Inconclusive, look(t, p, e, about, b.answer).Kind)
		assert.Len(t, b.requests, lookup.MaxPages)
	})
	t.Run("too many, and ours among them", func(t *testing.T) {
		p, e := pay()
		e.Lookups[0].Query = "customer={path.customer}"
		ours := about
		ours.ReferenceOurs = true
		b := &box{ledger: append([]payment{paid("1", "r")}, ledger(30)[:30]...), unfilter: true, size: 1}
		assert.Equal(t, lookup.Found, look(t, p, e, ours, b.answer).Kind, "what is its alone needs no end of the list")
		f := look(t, p, e, about, b.answer)
		assert.Equal(t, lookup.Inconclusive, f.Kind)
		assert.Equal(t, []string{"1"}, f.Objects)
	})
	t.Run("too many, and no window", func(t *testing.T) {
		p, e := pay()
		e.Lookups[0].Query = "customer={path.customer}"
		b := &box{ledger: ledger(30), unfilter: true, size: 1}
		f := look(t, p, e, about, b.answer)
		assert.Equal(t, lookup.Inconclusive, f.Kind)
		assert.Contains(t, f.Why, "longer")
		assert.Len(t, b.requests, lookup.MaxPages)
	})
}

func TestStylesOfPages(t *testing.T) {
	object := func(id string) string { return `{"id":"` + id + `","created":` + fmt.Sprint(noon.Unix()) + `}` }
	for _, tc := range []struct {
		name  string
		next  providers.Paging
		pages map[string]string // by the query behind a=1; "header: body"
		want  []string
		why   string
	}{
		{
			"a header", providers.Paging{Style: providers.PageHeader, Param: "after", Cursor: "X-After"},
			map[string]string{"": "x&y|1", "&after=x%26y": "|2"}, []string{"1", "2"}, "",
		},
		{
			"last id", providers.Paging{Style: providers.PageLastID, Param: "after", Size: 2},
			map[string]string{"": "|1 2", "&after=2": "|3"}, []string{"1", "2", "3"}, "",
		},
		{
			"last id of a full page", providers.Paging{Style: providers.PageLastID, Param: "after", Size: 2},
			map[string]string{"": "|1 2", "&after=2": "|"}, []string{"1", "2"}, "",
		},
		{
			"last id that is ignored", providers.Paging{Style: providers.PageLastID, Param: "after", Size: 2},
			map[string]string{"": "|1 2", "&after=2": "|1 2"}, nil, "circles",
		},
		{
			"offset", providers.Paging{Style: providers.PageOffset, Param: "skip"},
			map[string]string{"": "|1 2", "&skip=2": "|3", "&skip=3": "|"}, []string{"1", "2", "3"}, "",
		},
		{
			"offset that is ignored", providers.Paging{Style: providers.PageOffset, Param: "skip"},
			map[string]string{"": "|1 2", "&skip=2": "|1 2"}, nil, "circles",
		},
		{
			"a cursor that stays", providers.Paging{Style: providers.PageCursor, Param: "after", Cursor: "next"},
			map[string]string{"": "x|1", "&after=x": "x|"}, nil, "circles",
		},
		{
			"number", providers.Paging{Style: providers.PageNumber, Param: "p"},
			map[string]string{"&p=1": "|1 2 3", "&p=2": "|4", "&p=3": "|"}, []string{"1", "2", "3", "4"}, "",
		},
		{
			"one page", providers.Paging{Size: 3},
			map[string]string{"": "|1 2"}, []string{"1", "2"}, "",
		},
		{
			"one page that is full", providers.Paging{Size: 2},
			map[string]string{"": "|1 2"}, []string{"1", "2"}, "longer",
		},
		{
			"a link", providers.Paging{Style: providers.PageLink, Cursor: "next"},
			map[string]string{"": "/v1/all?b=2|1", "b=2": "|2"}, []string{"1", "2"}, "",
		},
		{
			"a link with a host", providers.Paging{Style: providers.PageLink, Cursor: "next"},
			map[string]string{"": "https://API.example.com/v1/all?b=2|1", "b=2": "|2"}, []string{"1", "2"}, "",
		},
		{
			"a link to another host", providers.Paging{Style: providers.PageLink, Cursor: "next"},
			map[string]string{"": "https://evil.example.com/v1/all?b=2|1"}, nil, "elsewhere",
		},
		{
			"a link to another path", providers.Paging{Style: providers.PageLink, Cursor: "next"},
			map[string]string{"": "/v1/keys?b=2|1"}, nil, "elsewhere",
		},
		{
			"a link without a query", providers.Paging{Style: providers.PageLink, Cursor: "next"},
			map[string]string{"": "/v1/all|1"}, nil, "no query",
		},
		{
			"a link that is none", providers.Paging{Style: providers.PageLink, Cursor: "next"},
			map[string]string{"": "/v1/all%zz?b=2|1"}, nil, "elsewhere",
		},
		{
			"a link without TLS", providers.Paging{Style: providers.PageLink, Cursor: "next"},
			map[string]string{"": "http://api.example.com/v1/all?b=2|1"}, nil, "elsewhere",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e := pay()
			e.Lookups[0] = providers.Lookup{
				By: providers.ByParent, Path: "/v1/all", Query: "a=1", Items: "data[]", ID: "id", Created: "created", Next: tc.next,
				Same: []providers.Same{{Field: "id", Is: "{request.id}"}},
			}
			about := sent(t, p, e, "c", "", "1")
			about.Values["request.id"] = "1"
			asked := 0
			s := swept(t, p, e, about, func(r *http.Request) (int, http.Header, []byte) {
				asked++
				query := strings.TrimPrefix(r.URL.RawQuery, "a=1")
				page, ok := tc.pages[query]
				require.True(t, ok, "%q is asked for", query)
				next, ids, _ := strings.Cut(page, "|")
				var objects []string
				for id := range strings.FieldsSeq(ids) {
					objects = append(objects, object(id))
				}
				body := `{"data":[` + strings.Join(objects, ",") + `],"next":"` + next + `"}`
				header := http.Header{"Content-Type": {"application/json"}}
				if next != "" {
					header.Set("X-After", next)
				}
				return 200, header, []byte(body)
			})
			if tc.why == "" {
				assert.Empty(t, s.Why())
				assert.Equal(t, len(tc.pages), asked)
			} else {
				assert.Contains(t, s.Why(), tc.why)
			}
			for _, id := range tc.want {
				about.Values["request.id"] = id
				f := s.Match(about, free)
				if tc.why == "" {
					assert.Equal(t, []string{id}, f.Objects, f.Why)
				} else {
					assert.Equal(t, lookup.Inconclusive, f.Kind, "what looks alike may be on a page that can't be read")
				}
			}
		})
	}
}

// The table gives the meaning of a found object's state. The object counts as the answer only in a state that a
// create returns.
func TestStatesOfFoundObjects(t *testing.T) {
	for _, tc := range []struct {
		status string
		want   providers.Outcome
		fresh  bool
	}{
		{"paid", providers.TookEffect, true},
		{"failed", providers.Refused, false},
		{"pending", providers.InProgress, false},
		{"refunded", providers.Reversed, false},
		{"new_state", providers.TookEffect, false},
	} {
		t.Run(tc.status, func(t *testing.T) {
			p, e := pay()
			object := paid("1", "r")
			object.Status = tc.status
			b := &box{ledger: []payment{object}}
			f := look(t, p, e, sent(t, p, e, "c", "r", "10.00"), b.answer)
			require.Equal(t, lookup.Found, f.Kind, f.Why)
			assert.Equal(t, tc.want, f.Outcome)
			assert.Equal(t, tc.fresh, f.Fresh)
			assert.Contains(t, string(f.Body), `"id":"1"`)
			assert.Equal(t, noon.Add(time.Second), f.Created)

			e.SecretResponse = true
			assert.Empty(t, look(t, p, e, sent(t, p, e, "c", "r", "10.00"), b.answer).Body)
		})
	}
}
