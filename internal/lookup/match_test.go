package lookup_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/providers"
)

// Only an object with the operation's mark is the operation's. An object that agrees in everything but the reference
// is a candidate. A mark alone is not enough.
func TestAnObjectNeedsAMark(t *testing.T) {
	const hour = 60 * 60
	object := func(id, reference string, change func(*payment)) payment {
		o := paid(id, reference)
		if change != nil {
			change(&o)
		}
		return o
	}
	at := func(seconds int64) func(*payment) { return func(o *payment) { o.Created = noon.Unix() + seconds } }
	for _, tc := range []struct {
		name   string
		ours   bool
		ledger []payment
		want   string
	}{
		{"its reference", false, []payment{object("a", "r", nil)}, "a"},
		{"a reference of ours", true, []payment{object("a", "r", nil)}, "a"},
		{"its reference, trimmed", false, []payment{object("a", "", nil)}, "alike"},
		{"a reference of ours, trimmed", true, []payment{object("a", "", nil)}, "alike"},
		{"another reference, and another amount", true, []payment{object("a", "s", func(o *payment) { o.Amount = "11" })}, "nothing"},
		{"another's object, but for its reference", true, []payment{object("taken", "s", nil)}, "nothing"},
		{"another reference, a day later", true, []payment{object("a", "s", at(24*hour))}, "nothing"},
		{"its own and a candidate", true, []payment{object("a", "r", nil), object("b", "s", nil)}, "a"},
		{"its reference, and another amount", false, []payment{object("a", "r", func(o *payment) { o.Amount = "11" })}, "ambiguous"},
		{"its own, and one with its reference and another amount", true,
			[]payment{object("a", "r", nil), object("b", "r", func(o *payment) { o.Amount = "11" })}, "ambiguous"},
		{"its reference on an object from before", false, []payment{object("a", "r", at(-hour))}, "ambiguous"},
		{"a reference of ours on an object from two days before", true, []payment{object("a", "r", at(-48*hour))}, "ambiguous"},
		{"its reference on an object long after the last attempt", false, []payment{object("a", "r", at(2*hour))}, "ambiguous"},
		{"a reference of ours on an object long after the last attempt", true, []payment{object("a", "r", at(2*hour))}, "a"},
		{"its reference on another's object", false, []payment{object("taken", "r", nil)}, "nothing"},
		{"a reference of ours on another's object", true, []payment{object("taken", "r", nil)}, "ambiguous"},
		{"two with its reference", false, []payment{object("a", "r", nil), object("b", "r", nil)}, "ambiguous"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e := pay()
			about := sent(t, p, e, "c", "r", "10")
			about.ReferenceOurs = tc.ours
			b := &box{ledger: tc.ledger, unfilter: true, size: 10}
			f := swept(t, p, e, about, b.answer).Match(about, func(id string) bool { return id == "taken" })
			if got := f.Kind.String(); f.Kind == lookup.Found {
				assert.Equal(t, tc.want, f.Objects[0])
				assert.Equal(t, tc.ours, f.Exact)
			} else {
				assert.Equal(t, tc.want, got, f.Why)
				assert.NotEmpty(t, f.Why)
			}
		})
	}
}

// A list that was read for one operation proves nothing about an operation with another list.
func TestAnotherListProvesNothing(t *testing.T) {
	p, e := pay()
	about := sent(t, p, e, "c", "r", "10")
	s := swept(t, p, e, about, (&box{}).answer)
	for name, change := range map[string]func(*lookup.Subject){
		"of another customer":  func(o *lookup.Subject) { *o = sent(t, p, e, "d", "r", "10") },
		"of another reference": func(o *lookup.Subject) { o.Reference = "s" },
		"from before":          func(o *lookup.Subject) { o.First = noon.Add(-time.Minute) },
		"of another account":   func(o *lookup.Subject) { o.Account = "acct_2" },
	} {
		other := sent(t, p, e, "c", "r", "10")
		change(&other)
		assert.Equal(t, lookup.Nothing, s.Match(about, free).Kind, name)
		found := s.Match(other, free)
		assert.Equal(t, lookup.Inconclusive, found.Kind, name)
		assert.NotEmpty(t, found.Why, name)
	}
}

// A look-up that can't serve an operation is skipped, and the reason names the missing fact.
func TestSkippedLookups(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*providers.Lookup, *lookup.Subject)
		want   string
	}{
		{"no reference", func(_ *providers.Lookup, o *lookup.Subject) { o.Reference = "" }, "no reference"},
		{"no key", func(l *providers.Lookup, _ *lookup.Subject) { l.By = providers.ByKey }, "no key"},
		{"no time of creation", func(l *providers.Lookup, _ *lookup.Subject) { l.Created = "" }, "time of creation"},
		{"no time of creation, for a reference of ours", func(l *providers.Lookup, o *lookup.Subject) { l.Created, o.ReferenceOurs = "", true }, ""},
		{"nothing else to compare", func(l *providers.Lookup, _ *lookup.Subject) { l.Same = l.Same[:1] }, "nothing else"},
		{"a value to compare that the request lacks", func(l *providers.Lookup, o *lookup.Subject) {
			l.Query = ""
			delete(o.Values, "request.amount")
		}, "{request.amount}"},
		{"an optional value that the request lacks", func(l *providers.Lookup, o *lookup.Subject) {
			l.Same[1].Optional = true
			delete(o.Values, "request.amount")
		}, ""},
		{"nothing but an optional value that the request lacks", func(l *providers.Lookup, o *lookup.Subject) {
			l.Same = l.Same[:2]
			l.Same[1].Optional = true
			delete(o.Values, "request.amount")
		}, "nothing else"},
		{"nothing else to compare but the parent", func(l *providers.Lookup, _ *lookup.Subject) {
			l.Same, l.Path = l.Same[:1], "/v1/customers/{path.customer}/payments"
		}, ""},
		{"a value that the request lacks", func(_ *providers.Lookup, o *lookup.Subject) { delete(o.Values, "path.customer") }, "{path.customer}"},
		{"a path that would lead elsewhere", func(l *providers.Lookup, o *lookup.Subject) {
			l.Path = "/v1/customers/{path.customer}/payments"
			o.Values["path.customer"] = ".."
		}, `".."`},
		{"a method that may have an effect", func(l *providers.Lookup, _ *lookup.Subject) { l.Method, l.Body = "POST", `{"a":"{reference}"}` }, "no effect"},
		{"a fit one", func(*providers.Lookup, *lookup.Subject) {}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, e := pay()
			about := sent(t, p, e, "c", "r", "10")
			tc.change(&e.Lookups[0], &about)
			_, err := lookup.Plan(p, e, &e.Lookups[0], about, about.Window(noon))
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			var passed *lookup.PassedOver
			require.ErrorAs(t, err, &passed)
			assert.Contains(t, passed.Why, tc.want)
		})
	}
}

// A found object has the operation's mark. If several operations share the mark, the journal gives the object to none.
func TestFoundObjectHasTheOperationsMark(t *testing.T) {
	random := rand.New(rand.NewPCG(16, 1))
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	seen := map[lookup.Kind]int{}
	for round := range 2000 {
		p, e := pay()
		l := &e.Lookups[0]
		if random.IntN(2) == 0 {
			l.Query = "from={since}&to={until}"
		}
		b := &box{size: 1 + random.IntN(4), unfilter: random.IntN(3) == 0}
		var operations []maker
		made := map[string]maker{}
		for n := range 1 + random.IntN(5) {
			m := maker{sent(t, p, e, pick("c", "d"), pick("r", "s"), pick("10.00", "11")), random.IntN(2) == 0}
			if m.ReferenceOurs = random.IntN(2) == 0; m.ReferenceOurs {
				m.Reference = fmt.Sprint("own-", n)
			}
			m.First = noon.Add(time.Duration(random.IntN(180)) * time.Minute)
			m.Last = m.First.Add(time.Duration(random.IntN(120)) * time.Second)
			if m.executed {
				id := fmt.Sprint("o", n)
				b.ledger = append(b.ledger, payment{
					ID: id, Amount: json.Number(m.Values["request.amount"]), Currency: "USD", Reference: m.Reference, Customer: m.Values["path.customer"],
					Status: pick("paid", "failed", "pending"), Created: m.First.Unix() + int64(random.IntN(60)),
				})
				made[id] = m
			}
			operations = append(operations, m)
		}
		random.Shuffle(len(b.ledger), func(i, j int) { b.ledger[i], b.ledger[j] = b.ledger[j], b.ledger[i] })
		for _, m := range operations {
			s, err := lookup.Plan(p, e, l, m.Subject, m.Window(noon.Add(4*time.Hour)))
			require.NoError(t, err)
			for r := s.Next(); r != nil; r = s.Next() {
				s.Read(b.answer(r))
			}
			f := s.Match(m.Subject, free)
			seen[f.Kind]++
			if f.Kind == lookup.Found {
				by := made[f.Objects[0]]
				require.Equal(t, m.Reference, by.Reference, "round %d", round)
				require.Equal(t, m.Values["request.amount"], by.Values["request.amount"], "round %d", round)
				continue
			}
			assert.NotEmpty(t, f.Why)
			require.False(t, m.ReferenceOurs && m.executed, "round %d: what is ours alone is found: %s", round, f.Why)
		}
	}
	for _, kind := range []lookup.Kind{lookup.Found, lookup.Nothing, lookup.Ambiguous, lookup.Alike} {
		assert.Greater(t, seen[kind], 100, kind)
	}
}

// maker is an operation of a random history, which executed it at most once.
type maker struct {
	lookup.Subject
	executed bool
}

// A look-up ends whatever the provider answers. An object that it finds is in the answer and has the reference.
func FuzzPages(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"1","reference":"r","amount":10,"currency":"USD","customer":"c","created":1795348801,"status":"paid"}],"more":false}`), 200)
	f.Add([]byte(`{"data":[],"more":true,"next":"x"}`), 200)
	f.Add([]byte(`{"data":[{"id":"1","reference":"r","reference":"s"}],"more":true,"next":{}}`), 200)
	f.Add([]byte(`<html>`), 200)
	f.Add([]byte(`{"data":[{}],"more":false}`), 404)
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		p, e := pay()
		about := sent(t, p, e, "c", "r", "10")
		requests := 0
		s := swept(t, p, e, about, func(*http.Request) (int, http.Header, []byte) {
			requests++
			return status, http.Header{"Content-Type": {"application/json"}}, body
		})
		assert.LessOrEqual(t, requests, lookup.MaxRequests)
		for _, about.ReferenceOurs = range []bool{false, true} {
			f := s.Match(about, free)
			assert.Equal(t, f.Kind == lookup.Found, f.Why == "")
			if f.Kind != lookup.Found {
				continue
			}
			var o map[string]any
			require.NoError(t, json.Unmarshal(f.Body, &o))
			assert.Equal(t, "r", o["reference"])
		}
	})
}
