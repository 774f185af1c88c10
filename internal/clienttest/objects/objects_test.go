package objects_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

var moving = []string{"charge", "payment_intent", "refund", "payout"}

// compared lists the objects since a time, and compares them with the journal.
func (s *stripe) compared(from time.Time, adjust ...func(*compare.Options, *onceward.ObjectList)) (*compare.Report, error) {
	s.t.Helper()
	oncetest.Pass(2 * time.Hour)
	w := compare.Window{From: from.Add(-time.Hour), To: time.Now().Add(-time.Hour)}
	of := onceward.ObjectList{Window: w}
	opts := compare.Options{Journals: []journal.Journal{s.journal}, Provider: providers.Stripe(), Window: w, Kinds: moving}
	for _, f := range adjust {
		f(&opts, &of)
	}
	return compare.Run(s.t.Context(), s.client.Objects(s.t.Context(), "stripe", of), opts)
}

// pays makes one operation of each kind.
func (s *stripe) pays() {
	s.asks("charge", "/v1/charges", "amount=2000&currency=eur")
	s.asks("intent", "/v1/payment_intents", "amount=3000&currency=eur&confirm=true")
	s.asks("refund", "/v1/refunds", "charge=charge_1&amount=500")
	s.asks("payout", "/v1/payouts", "amount=700&currency=eur")
}

func TestObjectsAgreeWithTheJournal(t *testing.T) {
	oncetest.Virtual(t, "", func(t *testing.T) {
		s := open(t)
		from := time.Now()
		s.pays()
		s.moves("stripe_fee", "null")
		s.moves("adjustment", `{"id":"dp_1","object":"dispute","amount":1}`)
		report, err := s.compared(from)
		require.NoError(t, err)
		assert.True(t, report.OK(), "%+v", report)
		assert.Empty(t, report.Findings)
		assert.Equal(t, []int{4, 4, 4}, []int{report.Operations, report.Matched, report.AmountsCompared})
		assert.Equal(t, 2, report.NotCompared["objects of other kinds"])
	})
}

func TestObjectsShowWhatDiffers(t *testing.T) {
	for name, row := range map[string]struct {
		change func(s *stripe)
		kind   compare.Kind
		object string
		grave  bool
	}{
		"missing": {func(s *stripe) {
			s.silent = true
			s.asks("lost", "/v1/charges", "amount=2000&currency=eur")
		}, compare.OnlyHere, "charge charge_5", true},
		"a partial capture": {func(s *stripe) {
			s.spoil = func(source string) string {
				return strings.Replace(source, `"amount_captured":900`, `"amount_captured":400`, 1)
			}
			s.asks("part", "/v1/payment_intents", "amount=900&currency=eur&confirm=true")
		}, compare.OtherAmount, "payment_intent payment_intent_5", true},
		"another currency": {func(s *stripe) {
			s.spoil = func(source string) string { return strings.Replace(source, `"currency":"eur"`, `"currency":"usd"`, 1) }
			s.asks("dollars", "/v1/payouts", "amount=900&currency=eur")
		}, compare.OtherAmount, "payout payout_5", true},
		"a failed payout": {func(s *stripe) {
			s.moves("payout_failure", strings.Replace(s.movements[3].source, `"paid"`, `"failed"`, 1))
		}, compare.ReversedThere, "payout payout_4", false},
		"a failed debit": {func(s *stripe) {
			s.spoil = func(source string) string { return strings.Replace(source, `"succeeded"`, `"failed"`, 1) }
			s.asks("debit", "/v1/charges", "amount=900&currency=eur")
		}, compare.ReversedThere, "charge charge_5", true},
	} {
		oncetest.Virtual(t, name, func(t *testing.T) {
			s := open(t)
			from := time.Now()
			s.pays()
			row.change(s)
			report, err := s.compared(from)
			require.NoError(t, err)
			require.Len(t, report.Findings, 1, "%+v", report)
			f := report.Findings[0]
			assert.Equal(t, []any{row.kind, row.object, row.grave}, []any{f.Kind, f.Object, f.Grave})
		})
	}
}

// An intent that is not paid moves nothing. A fetch of the intent says that it exists.
func TestObjectsOfAnIntentThatIsNotPaid(t *testing.T) {
	oncetest.Virtual(t, "", func(t *testing.T) {
		s := open(t)
		from := time.Now()
		s.pays()
		s.silent = true
		s.asks("unpaid", "/v1/payment_intents", "amount=3000&currency=eur")
		report, err := s.compared(from, func(o *compare.Options, _ *onceward.ObjectList) {
			o.Exists = func(_ context.Context, kind, id string) (bool, error) {
				return kind == "payment_intent" && id == "payment_intent_5", nil
			}
		})
		require.NoError(t, err)
		assert.True(t, report.OK(), "%+v", report)
		assert.Equal(t, 1, report.NotCompared["operations whose object the provider has and did not list"])
	})
}

func TestObjectsReadAllPages(t *testing.T) {
	generous := func(c *onceward.Config) { c.Reconcile = &onceward.Reconcile{Budget: backoff.Budget{Capacity: 1 << 20}} }
	oncetest.Virtual(t, "many, after a refusal", func(t *testing.T) {
		s := open(t, generous)
		from := time.Now()
		s.pays()
		for i := range 250 {
			s.moves("charge", fmt.Sprintf(`{"id":"ch_other_%d","object":"charge","amount_captured":1,"currency":"eur","status":"succeeded"}`, i))
		}
		s.refuse = func(*http.Request) *http.Response {
			if len(s.lists) == 2 {
				resp := oncetest.Answers(http.StatusTooManyRequests, `{"error":{"type":"rate_limit_error"}}`)
				resp.Header.Set("Retry-After", "5")
				return resp
			}
			return nil
		}
		report, err := s.compared(from)
		require.NoError(t, err)
		assert.True(t, report.OK(), "%+v", report)
		assert.Equal(t, 254, report.Objects)
		assert.Equal(t, 250, report.OnlyThere["charge"].Objects)
	})
	oncetest.Virtual(t, "too large", func(t *testing.T) {
		s := open(t, generous)
		from := time.Now()
		s.pays()
		for range 60 {
			s.moves("stripe_fee", "null")
		}
		s.fill = strings.Repeat("x", 300<<10)
		report, err := s.compared(from)
		require.NoError(t, err)
		assert.Equal(t, 4, report.Matched)
		assert.Contains(t, s.lists[len(s.lists)-1].URL.RawQuery, "limit=")
		assert.NotContains(t, s.lists[len(s.lists)-1].URL.RawQuery, "limit=100")
	})
}

// A second with more entries than can be listed is no list that was read to its end.
func TestObjectsTooManyInOneSecond(t *testing.T) {
	oncetest.Virtual(t, "", func(t *testing.T) {
		s := open(t, func(c *onceward.Config) { c.Reconcile = &onceward.Reconcile{Budget: backoff.Budget{Capacity: 1 << 20}} })
		from := time.Now()
		for range 2001 {
			s.moves("stripe_fee", "null")
		}
		_, err := s.compared(from)
		require.ErrorContains(t, err, "the objects could not be read")
		require.ErrorContains(t, err, "more than 20 pages")
	})
}

// Another account's objects are in another list.
func TestObjectsOfAnAccount(t *testing.T) {
	oncetest.Virtual(t, "", func(t *testing.T) {
		var said []string
		s := open(t, func(c *onceward.Config) {
			authorize := c.Authorize
			c.Authorize = func(r *http.Request) error {
				if scope, account, lists := onceward.CatchUpOf(r.Context()); lists {
					said = []string{scope, account}
				}
				return authorize(r)
			}
		})
		from := time.Now()
		s.pays()
		s.asks("theirs", "/v1/charges", "amount=100&currency=eur", "acct_1")
		report, err := s.compared(from, func(o *compare.Options, of *onceward.ObjectList) {
			o.Account, of.Account, of.Scope, o.Kinds = "acct_1", "acct_1", "tenant", []string{"charge"}
		})
		require.NoError(t, err)
		assert.True(t, report.OK(), "%+v", report)
		assert.Equal(t, []int{1, 1}, []int{report.Matched, report.Objects})
		assert.Equal(t, []string{"tenant", "acct_1"}, said)
	})
}

// A list that was not read to its end is an error, so that nothing is compared.
func TestObjectsEndWithAnError(t *testing.T) {
	day := compare.Window{From: time.Now().Add(-24 * time.Hour), To: time.Now().Add(-time.Hour)}
	for name, row := range map[string]struct {
		adjust   func(*onceward.Config)
		provider string
		of       onceward.ObjectList
		prepare  func(s *stripe)
		says     string
	}{
		"no Reconcile":              {adjust: func(c *onceward.Config) { c.Reconcile = nil }, says: "Config.Reconcile is nil"},
		"an unknown provider":       {provider: "bank", says: `is called "bank"`},
		"a table without list":      {adjust: func(c *onceward.Config) { c.Providers[0].Listings = nil }, says: "has no list of objects"},
		"a kind that is not listed": {of: onceward.ObjectList{Window: day, Kinds: []string{"customer"}}, says: `has a "customer": the lists have charge, payment_intent`},
		"no window":                 {of: onceward.ObjectList{Window: compare.Window{From: day.To, To: day.From}}, says: "set From and To"},
		"a window of now":           {of: onceward.ObjectList{Window: compare.Window{From: day.From, To: time.Now()}}, says: "let it end earlier"},
		"a page that is refused": {prepare: func(s *stripe) {
			s.refuse = func(*http.Request) *http.Response {
				return oncetest.Answers(http.StatusForbidden, `{"error":{"type":"invalid_request_error"}}`)
			}
		}, says: "Balance transactions: Read"},
		"an object without an id": {prepare: func(s *stripe) {
			s.moves("charge", `{"object":"charge"}`).at = day.To.Add(-time.Hour)
		}, says: "an entry about a charge shows no id at source.id"},
		"an amount that is none": {prepare: func(s *stripe) {
			s.moves("payout", `{"id":"po_1","object":"payout","amount":"1.5","currency":"eur"}`).at = day.To.Add(-time.Hour)
		}, says: "the amount of a payout"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(c *onceward.Config) {
				if row.adjust != nil {
					row.adjust(c)
				}
			})
			if row.prepare != nil {
				row.prepare(s)
			}
			of, provider := row.of, row.provider
			if of.Window == (compare.Window{}) {
				of.Window = day
			}
			if provider == "" {
				provider = "stripe"
			}
			var got []error
			for _, err := range s.client.Objects(t.Context(), provider, of) {
				got = append(got, err)
			}
			require.Len(t, got, 1)
			assert.ErrorContains(t, got[0], row.says)
		})
	}
}

func TestObjectsEndEarly(t *testing.T) {
	oncetest.Virtual(t, "", func(t *testing.T) {
		s := open(t)
		from := time.Now()
		s.pays()
		oncetest.Pass(2 * time.Hour)
		n := 0
		for _, err := range s.client.Objects(t.Context(), "stripe", onceward.ObjectList{Window: compare.Window{From: from, To: time.Now().Add(-time.Hour)}}) {
			require.NoError(t, err)
			if n++; n == 2 {
				break
			}
		}
		assert.Equal(t, 2, n)
	})
}
