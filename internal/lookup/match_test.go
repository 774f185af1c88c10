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

// Operations that look alike share what looks like either: as many objects as operations are
// one each, else it takes a person.
func TestAlikeOperationsNeedAnObjectEach(t *testing.T) {
	p, e := pay()
	at := func(minute int, amount string) lookup.Subject {
		about := sent(t, p, e, "c", "r", amount)
		about.First = noon.Add(time.Duration(minute) * time.Minute)
		about.Last = about.First.Add(time.Second)
		about.Request = "a charge"
		return about
	}
	asks := func(about lookup.Subject, request string) lookup.Subject {
		about.Request = request
		return about
	}
	object := func(id string, minute int) payment {
		o := paid(id, "r")
		o.Created = noon.Unix() + int64(60*minute)
		return o
	}
	for _, tc := range []struct {
		name       string
		operations []lookup.Subject
		ledger     []payment
		want       []string // the object, or the kind
	}{
		{"one each", []lookup.Subject{at(1, "10"), at(0, "10.0")}, []payment{object("b", 1), object("a", 0)}, []string{"b", "a"}},
		{"one each, of requests that differ", []lookup.Subject{asks(at(1, "10"), "another"), at(0, "10")}, []payment{object("b", 1), object("a", 0)}, []string{"ambiguous", "ambiguous"}},
		{"one each, of requests that are not known", []lookup.Subject{asks(at(1, "10"), ""), asks(at(0, "10"), "")}, []payment{object("b", 1), object("a", 0)}, []string{"ambiguous", "ambiguous"}},
		{"one for two", []lookup.Subject{at(0, "10"), at(1, "10")}, []payment{object("a", 0)}, []string{"ambiguous", "ambiguous"}},
		{"three for two", []lookup.Subject{at(0, "10"), at(1, "10")}, []payment{object("a", 0), object("b", 0), object("c", 1)}, []string{"ambiguous", "ambiguous"}},
		{"two that differ", []lookup.Subject{at(0, "10"), at(1, "11")}, []payment{object("a", 0)}, []string{"a", "nothing"}},
		{"too far apart to share", []lookup.Subject{at(0, "10"), at(90, "10")}, []payment{object("a", 0), object("b", 90)}, []string{"a", "b"}},
		{"the later one's only", []lookup.Subject{at(0, "10"), at(90, "10")}, []payment{object("b", 90)}, []string{"inconclusive", "b"}},
		{"a chain", []lookup.Subject{at(0, "10"), at(50, "10"), at(100, "10")}, []payment{object("a", 0), object("b", 50), object("c", 100)}, []string{"ambiguous", "ambiguous", "ambiguous"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &box{ledger: tc.ledger}
			window := tc.operations[0].Window(noon.Add(3 * time.Hour))
			for _, about := range tc.operations {
				window = window.Joined(about.Window(noon.Add(time.Hour)))
			}
			s, err := lookup.Plan(p, e, &e.Lookups[0], tc.operations[0], window)
			require.NoError(t, err)
			for r := s.Next(); r != nil; r = s.Next() {
				s.Read(b.answer(r))
			}
			var got []string
			for _, f := range s.Match(tc.operations, free) {
				if f.Kind == lookup.Ambiguous {
					assert.Contains(t, f.Why, fmt.Sprintf("%d operations that look alike", len(tc.operations)))
				}
				if f.Kind == lookup.Found {
					got = append(got, f.Objects[0])
				} else {
					got = append(got, f.Kind.String())
				}
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

// One that shares objects with an operation that is not decided is not decided either.
func TestSharedObjectsOfTheUndecided(t *testing.T) {
	p, e := pay()
	first, second := sent(t, p, e, "c", "r", "10"), sent(t, p, e, "c", "r", "10")
	second.First = noon.Add(7 * time.Minute)
	early, both := paid("a", "r"), paid("b", "r")
	both.Created = noon.Add(7 * time.Minute).Unix()
	undated := paid("u", "r")
	undated.Created = 0
	b := &box{ledger: []payment{early, both, undated}, unfilter: true}
	for _, f := range swept(t, p, e, first, b.answer).Match([]lookup.Subject{first, second}, free) {
		assert.Equal(t, lookup.Inconclusive, f.Kind)
	}

	// Of the second, one object is its alone and in doubt, and two are shared.
	second.ReferenceOurs = true
	contrary := paid("c", "r")
	contrary.Amount = "11"
	again := both
	again.ID = "d"
	b.ledger = []payment{both, again, contrary}
	found := swept(t, p, e, second, b.answer).Match([]lookup.Subject{first, second}, free)
	assert.Equal(t, lookup.Ambiguous, found[1].Kind)
	assert.Equal(t, lookup.Ambiguous, found[0].Kind, "it may be the other's")
}

// What was read for one operation says nothing of one whose object would be in another list.
func TestAnotherListSaysNothing(t *testing.T) {
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
		found := s.Match([]lookup.Subject{about, other}, free)
		assert.Equal(t, lookup.Nothing, found[0].Kind, name)
		assert.Equal(t, lookup.Inconclusive, found[1].Kind, name)
		assert.NotEmpty(t, found[1].Why, name)
	}
}

// Which look-ups serve which operations.
func TestLookupsThatArePassedOver(t *testing.T) {
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

// maker is what a random history did: each operation was executed at most once.
type maker struct {
	lookup.Subject
	executed, settled bool
}

// What is found is ours, in whatever ledger: made by the operation itself, or by one that nothing
// tells from it, with an object for each. What is an operation's alone is found if it is there.
func TestFoundIsNeverAnothers(t *testing.T) {
	random := rand.New(rand.NewPCG(16, 1))
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	seen := map[string]int{}
	for round := range 3000 {
		p, e := pay()
		l := &e.Lookups[0]
		if random.IntN(2) == 0 {
			l.Query = "from={since}&to={until}"
		}
		if random.IntN(4) == 0 {
			l.Same = l.Same[:2+random.IntN(3)]
		}
		b := &box{size: 1 + random.IntN(4), unfilter: random.IntN(3) == 0}
		var makers []maker
		made := map[string]int{} // by whom
		taken := map[string]bool{}
		for n := range 1 + random.IntN(5) {
			m := maker{sent(t, p, e, pick("c", "d"), pick("r", "s"), pick("10.00", "11")), random.IntN(2) == 0, random.IntN(3) == 0}
			if m.ReferenceOurs = random.IntN(4) == 0; m.ReferenceOurs {
				m.Reference = fmt.Sprint("own-", n)
			}
			m.Request = pick("", "a charge", "another")
			m.First = noon.Add(time.Duration(random.IntN(180)) * time.Minute)
			m.Last = m.First.Add(time.Duration(random.IntN(120)) * time.Second)
			if m.executed {
				id := fmt.Sprint("o", n)
				b.ledger = append(b.ledger, payment{
					ID: id, Amount: json.Number(m.Values["request.amount"]), Currency: "USD", Reference: m.Reference, Customer: m.Values["path.customer"],
					Status: pick("paid", "failed", "pending"), Created: m.First.Unix() + int64(random.IntN(60)),
				})
				made[id] = n
				taken[id] = m.settled
			}
			makers = append(makers, m)
		}
		for i := range 3 { // others' objects, that differ in something that is compared
			o := paid(fmt.Sprint("stranger", i), pick("r", "s"))
			o.Created = noon.Unix() + int64(random.IntN(180*60))
			switch random.IntN(2) {
			case 0:
				o.Reference = pick("x", "", "R", "r ")
			default:
				o.Created = noon.Add(-time.Hour).Unix()
			}
			b.ledger = append(b.ledger, o)
		}
		random.Shuffle(len(b.ledger), func(i, j int) { b.ledger[i], b.ledger[j] = b.ledger[j], b.ledger[i] })

		var unsettled []lookup.Subject
		var whose []int
		for n, m := range makers {
			if !m.settled {
				unsettled, whose = append(unsettled, m.Subject), append(whose, n)
			}
		}
		for i, about := range unsettled {
			window := about.Window(noon.Add(4 * time.Hour))
			s, err := lookup.Plan(p, e, l, about, window)
			require.NoError(t, err)
			for r := s.Next(); r != nil; r = s.Next() {
				s.Read(b.answer(r))
			}
			given := map[string]bool{}
			for j, f := range s.Match(unsettled, func(id string) bool { return taken[id] }) {
				seen[f.Kind.String()]++
				n := whose[j]
				if f.Kind != lookup.Found {
					assert.NotEmpty(t, f.Why)
					assert.False(t, j == i && about.ReferenceOurs && makers[n].executed, "round %d: what is ours alone is found: %s", round, f.Why)
					continue
				}
				id := f.Objects[0]
				by, ours := made[id]
				require.True(t, ours, "round %d: %s is a stranger's", round, id)
				assert.False(t, taken[id] || given[id], "round %d: %s proves another operation", round, id)
				given[id] = true
				same := by == n || alike(l, makers[by].Subject, makers[n].Subject) && makers[n].executed
				assert.True(t, same, "round %d: %s was made by %d, not by %d", round, id, by, n)
			}
		}
		if t.Failed() {
			return
		}
	}
	for _, kind := range []string{"found", "nothing", "ambiguous", "inconclusive"} {
		assert.Greater(t, seen[kind], 100, kind)
	}
}

// alike reports whether nothing that is compared tells two operations with the same request apart, but for times.
func alike(l *providers.Lookup, a, b lookup.Subject) bool {
	if a.Reference != b.Reference || a.Request == "" || a.Request != b.Request {
		return false
	}
	for _, same := range l.Same[1:] {
		switch same.Is {
		case "{request.amount}":
			if a.Values["request.amount"] != b.Values["request.amount"] {
				return false
			}
		case "{path.customer}":
			if a.Values["path.customer"] != b.Values["path.customer"] {
				return false
			}
		}
	}
	return true
}

// Whatever a provider answers, a look ends, and what it finds is in the answer and has the
// reference.
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
			found := s.Match([]lookup.Subject{about, about}, free)
			for _, f := range found {
				assert.Equal(t, f.Kind == lookup.Found, f.Why == "")
				if f.Kind != lookup.Found {
					continue
				}
				var o map[string]any
				require.NoError(t, json.Unmarshal(f.Body, &o))
				assert.Equal(t, "r", o["reference"])
				assert.NotEqual(t, found[0].Objects, found[1].Objects)
			}
		}
	})
}
