package compare_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

func TestAgreement(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1", compared: true})
	b.pays("invoice-2", at(11), sent{object: "charge ch_2", compared: true})
	r := compared(t, options(b), charge("ch_2", at(11)), charge("ch_1", at(10)))
	assert.Empty(t, r.Findings)
	assert.True(t, r.OK())
	assert.Equal(t, []int{2, 2, 2, 2}, []int{r.Operations, r.Matched, r.AmountsCompared, r.Objects})
	assert.Empty(t, r.NotCompared)
}

// Each host has its own journal. With one of them alone, the other's object is without an operation, and that is grave
// only if the program says that no other journal exists.
func TestSeveralJournalsOfOneAccount(t *testing.T) {
	a, b := open(t), open(t)
	a.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	b.pays("invoice-2", at(10), sent{object: "charge ch_2"})
	marked := func(o compare.Object, key string) compare.Object { o.Key = key; return o }
	objects := []compare.Object{marked(charge("ch_1", at(10)), "key-invoice-1"), marked(charge("ch_2", at(10)), "key-invoice-2")}
	r := compared(t, options(a, b), objects...)
	assert.True(t, r.OK())
	assert.Equal(t, 2, r.Matched)

	r = compared(t, options(a), objects...)
	assert.Equal(t, []string{"only_there"}, kinds(r))
	assert.True(t, r.OK())
	opts := options(a)
	opts.Alone = true
	r = compared(t, opts, objects...)
	assert.Equal(t, []string{"only_there!"}, kinds(r))
	assert.False(t, r.OK())
}

// Objects without a mark and an operation are counted by kind, and are no findings.
func TestUnmarkedObjectsAreCounted(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	payout := compare.Object{ID: "po_1", Kind: "payout", At: at(3), Money: compare.Money{Minor: -500, Currency: "USD"}}
	r := compared(t, options(b), charge("ch_1", at(10)), charge("ch_8", at(1)), charge("ch_9", at(2)), payout, compare.Object{ID: "x", At: at(2)})
	assert.True(t, r.OK())
	assert.Empty(t, r.Findings)
	assert.Equal(t, map[string]compare.Sum{
		"charge": {Objects: 2, Minor: map[string]int64{"EUR": 4000}}, "payout": {Objects: 1, Minor: map[string]int64{"USD": -500}}, "object": {Objects: 1},
	}, r.OnlyThere)
}

// A report that compared nothing is not OK, and an operation that can't be compared does not make it red.
func TestOKIsNotSilence(t *testing.T) {
	b := open(t)
	assert.False(t, compared(t, options(b)).OK(), "with the wrong key both are empty")
	opts := options(b)
	opts.AllowEmpty = true
	assert.True(t, compared(t, opts).OK())

	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	r := compared(t, opts)
	assert.False(t, r.OK(), "something is expected")
	assert.Equal(t, map[string]int{"charge": 1}, r.Unlisted)

	b.pays("invoice-2", at(11), sent{answer: &journal.Answer{Status: 200, Omitted: true}})
	r = compared(t, options(b), charge("ch_1", at(10)))
	assert.True(t, r.OK())
	assert.Equal(t, []int{2, 1, 1}, []int{r.Operations, r.Matched, r.AmountsCompared})
	assert.Equal(t, map[string]int{"operations whose object is not recorded": 1}, r.NotCompared)

	_, err := compare.Run(t.Context(), func(yield func(compare.Object, error) bool) {
		if yield(charge("ch_1", at(10)), nil) {
			yield(compare.Object{}, errors.New("page 2: 500"))
		}
	}, options(b))
	require.ErrorContains(t, err, "page 2: 500", "a list that was not read to its end")
}

// A finding keeps its name, and is hidden once a person has accepted it.
func TestKnownFindingsAreHidden(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	b.pays("invoice-2", at(10), sent{object: "charge ch_2"})
	tip := charge("ch_2", at(10))
	tip.Money.Minor = 2200
	r := compared(t, options(b), charge("ch_1", at(10)), tip, tip)
	require.Equal(t, []string{"other_amount!"}, kinds(r), "reported once")
	opts := options(b)
	opts.Known = []string{r.Findings[0].ID}
	hidden := compared(t, opts, tip, charge("ch_1", at(10)))
	assert.Empty(t, hidden.Findings)
	assert.Equal(t, 1, hidden.Hidden)
	assert.True(t, hidden.OK())

	tip.Money.Minor = 9900
	other := compared(t, opts, charge("ch_1", at(10)), tip)
	assert.Equal(t, []string{"other_amount!"}, kinds(other), "another difference has another name")
	opts.Account = "acct_2"
	assert.NotEqual(t, r.Findings[0].ID, other.Findings[0].ID)
}

// The amount that moved is compared with the request's, and never guessed.
func TestAmountThatMoved(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1", body: "amount=2000&currency=eur&capture=false"})
	for _, moved := range []compare.Money{{Minor: 500, Currency: "EUR"}, {Minor: 2000, Currency: "USD"}, {Minor: -2000, Currency: "EUR"}} {
		captured := charge("ch_1", at(12))
		captured.Money = moved
		r := compared(t, options(b), captured)
		require.Equal(t, []string{"other_amount!"}, kinds(r), moved)
		assert.Equal(t, compare.Money{Minor: 2000, Currency: "EUR"}, r.Findings[0].Here)
		assert.Equal(t, moved, r.Findings[0].There)
	}
	r := compared(t, options(b), compare.Object{ID: "ch_1", Kind: "charge", At: at(10)})
	assert.True(t, r.OK())
	assert.Equal(t, []int{1, 0}, []int{r.Matched, r.AmountsCompared})
	assert.Equal(t, map[string]int{"amounts of objects that show none, or in currencies without known decimals": 1}, r.NotCompared)
}

// Sums inform and decide nothing.
func TestSumsDecideNothing(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	more, less := charge("ch_8", at(1)), charge("ch_9", at(2))
	less.Money.Minor = -2000
	r := compared(t, options(b), charge("ch_1", at(10)), more, less)
	assert.Equal(t, compare.Sum{Objects: 2, Minor: map[string]int64{"EUR": 0}}, r.OnlyThere["charge"])
	more.Money.Minor = math.MaxInt64
	r = compared(t, options(b), charge("ch_1", at(10)), more, more)
	assert.Equal(t, int64(math.MaxInt64), r.OnlyThere["charge"].Minor["EUR"])
	less.Money.Minor = math.MinInt64
	r = compared(t, options(b), charge("ch_1", at(10)), less, less)
	assert.Equal(t, int64(math.MinInt64), r.OnlyThere["charge"].Minor["EUR"])
}

// The amount is taken from the compared fields, else from the request, and else it is counted with the reason.
func TestAmountsComeFromTheJournal(t *testing.T) {
	for _, row := range []struct {
		name string
		s    sent
		not  string
	}{
		{"compared fields", sent{compared: true, body: "x=1"}, ""},
		{"the request", sent{}, ""},
		{"no amount in the request", sent{body: "currency=eur"}, "amounts of requests that name none, such as a full refund"},
		{"an amount that is no number", sent{body: "amount=1e3&currency=eur"}, "amounts of requests that can't be read, or in currencies without known decimals"},
		{"no amount in the table", sent{endpoint: "POST /v1/customers", object: "customer ch_1"}, "amounts of endpoints without an amount in the table"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := open(t)
			if row.s.object == "" {
				row.s.object = "charge ch_1"
			}
			b.pays("invoice-1", at(10), row.s)
			o := charge("ch_1", at(10))
			o.Kind = ""
			r := compared(t, options(b), o)
			assert.True(t, r.OK())
			if row.not == "" {
				assert.Equal(t, 1, r.AmountsCompared)
				return
			}
			assert.Equal(t, map[string]int{row.not: 1}, r.NotCompared)
		})
	}
}

// A decimal amount in the table is compared exactly with an amount in the smallest unit.
func TestDecimalAmounts(t *testing.T) {
	b := open(t)
	opts := options(b)
	opts.Provider = providers.Provider{Name: "stripe", Hosts: []string{"bank.example.com"}, Endpoints: []providers.Endpoint{{
		Pattern: "POST /v1/charges", Object: "charge", Amount: providers.Amount{Value: "amount", Currency: "currency", Decimal: true},
	}}}
	b.pays("invoice-1", at(10), sent{object: "charge ch_1", body: "amount=20.00&currency=EUR"})
	assert.Equal(t, 1, compared(t, opts, charge("ch_1", at(10))).AmountsCompared)
	other := charge("ch_1", at(10))
	other.Money.Minor = 20
	assert.Equal(t, []string{"other_amount!"}, kinds(compared(t, opts, other)))
}

// A refund is in its payment's currency, which the object shows.
func TestAmountInTheObjectsCurrency(t *testing.T) {
	b := open(t)
	b.pays("refund-1", at(10), sent{endpoint: "POST /v1/refunds", object: "refund re_1", body: "charge=ch_1&amount=500"})
	b.pays("refund-2", at(10), sent{endpoint: "POST /v1/refunds", object: "refund re_2", body: "charge=ch_1"})
	refund := func(id string, minor int64) compare.Object {
		return compare.Object{ID: id, Kind: "refund", At: at(10), Money: compare.Money{Minor: minor, Currency: "eur"}}
	}
	r := compared(t, options(b), refund("re_1", 500), refund("re_2", 1500))
	assert.True(t, r.OK())
	assert.Equal(t, 1, r.AmountsCompared)
	assert.Equal(t, map[string]int{"amounts of requests that name none, such as a full refund": 1}, r.NotCompared)
	r = compared(t, options(b), refund("re_1", 5000), refund("re_2", 1500))
	require.Equal(t, []string{"other_amount!"}, kinds(r))
	assert.Equal(t, "the request says 5.00 EUR, and the provider moved 50.00 EUR", r.Findings[0].Why)
}

// An object is matched by its id first, then by its reference or key. Without Reconcile, the answer has the id.
func TestMatchByObjectFirst(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{answer: &journal.Answer{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"id":"ch_1"}`)}})
	b.pays("invoice-2", at(10), sent{reference: "0d1c6a4e-ref-2"})
	b.pays("invoice-3", at(10), sent{})
	second, third := charge("ch_2", at(10)), charge("ch_3", at(10))
	second.Reference, third.Key = "0d1c6a4e-ref-2", "key-invoice-3"
	r := compared(t, options(b), charge("ch_1", at(10)), second, third)
	assert.True(t, r.OK())
	assert.Equal(t, []int{3, 3, 3}, []int{r.Operations, r.Matched, r.AmountsCompared})
}

// An object with a mark that is older than the first operation with an object may be of a time without Reconcile.
func TestOnlyThereAfterReconcileBegan(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	old, young := charge("ch_8", at(9)), charge("ch_9", at(11))
	old.Key, young.Key = "key-8", "key-9"
	r := compared(t, options(b), charge("ch_1", at(10)), old, young)
	require.Equal(t, []string{"only_there"}, kinds(r))
	assert.Equal(t, "charge ch_9", r.Findings[0].Object)
	assert.Equal(t, map[string]int{"objects made before the first operation with an object (before Config.Reconcile, or reaped)": 1}, r.NotCompared)
}

// Only an operation that made an object expects one.
func TestOperationsWithoutAnObject(t *testing.T) {
	b := open(t)
	b.pays("create", at(10), sent{endpoint: "POST /v1/payment_intents", object: "payment_intent pi_1"})
	b.pays("confirm", at(10.1), sent{endpoint: "POST /v1/"})
	b.pays("capture", at(10.2), sent{endpoint: "POST /v1/", object: "object pi_1"})
	b.pays("declined", at(10), sent{answer: &journal.Answer{Status: 402, Refused: true, Body: []byte(`{"error":{}}`)}})
	b.cancels("cancelled", at(10), sent{})
	intent := charge("pi_1", at(10))
	intent.Kind = "payment_intent"
	r := compared(t, options(b), intent)
	assert.Empty(t, r.Findings)
	assert.True(t, r.OK())
	assert.Equal(t, []int{1, 1}, []int{r.Operations, r.Matched})
	assert.Equal(t, map[string]int{"operations without an object in the table": 2}, r.NotCompared)
}

// A second object of one operation is found by its id, also days later, and for an operation without a recorded object.
func TestSecondObject(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(-72), sent{object: "charge ch_1", reference: "ref-1"})
	b.pays("invoice-2", at(10), sent{})
	b.pays("invoice-3", at(10), sent{object: "charge ch_3"})
	twice, first, second := charge("ch_9", at(12)), charge("ch_5", at(10)), charge("ch_6", at(10))
	twice.Reference, first.Key, second.Key = "ref-1", "key-invoice-2", "key-invoice-2"
	r := compared(t, options(b), charge("ch_3", at(10)), twice, first, second, first)
	require.Equal(t, []string{"several_there!", "several_there!"}, kinds(r))
	assert.Equal(t, []string{"invoice-1", "charge ch_9"}, []string{r.Findings[0].Ref.ID, r.Findings[0].Object})
	assert.Equal(t, []string{"invoice-2", "charge ch_6"}, []string{r.Findings[1].Ref.ID, r.Findings[1].Object})
	assert.False(t, r.OK())

	second.State = providers.Refused
	assert.Equal(t, []string{"several_there!"}, kinds(compared(t, options(b), charge("ch_3", at(10)), twice, first, second)), "a declined try moved nothing")
}

// An operation belongs to the window in which it was sent, and to that in which it got its outcome.
func TestOperationsByOutcomeToo(t *testing.T) {
	b := open(t)
	early := b.begins("early", at(-30*24), sent{})
	b.doubts("oldest", at(-20*24), sent{})
	monday := b.begins("monday", at(-72), sent{})
	b.doubts("older", at(-50), sent{})
	b.completes(early, at(9), sent{object: "charge ch_0"})
	b.pays("today", at(10), sent{object: "charge ch_2"})
	b.completes(monday, at(11), sent{object: "charge ch_1"})
	opts := options(b)
	r := compared(t, opts, charge("ch_2", at(10)))
	assert.Equal(t, []int{3, 1}, []int{r.Operations, r.Matched})
	assert.Equal(t, map[string]int{"operations whose object may lie outside the window": 2}, r.NotCompared)
	assert.Equal(t, 2, r.UnsettledBefore)

	opts.Window.From = at(-7 * 24)
	r = compared(t, opts, charge("ch_2", at(10)))
	assert.Contains(t, kinds(r), "only_here!", "a window that overlaps has the whole time of it")
}

// An operation is only here if its kind is listed, and the provider doesn't have the object by its id.
func TestOnlyHereNeedsTwoProofs(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	b.pays("invoice-2", at(11), sent{object: "charge ch_2"})
	b.pays("refund-1", at(12), sent{endpoint: "POST /v1/refunds", object: "refund re_1"})
	opts := options(b)
	r := compared(t, opts, charge("ch_1", at(10)))
	assert.Equal(t, map[string]int{"refund": 1}, r.Unlisted, "the key may lack the permission")
	require.Equal(t, []string{"only_here!"}, kinds(r))
	assert.Contains(t, r.Findings[0].Why, "fetch the object before you act")
	assert.False(t, r.OK())

	var asked []string
	there := true
	opts.Kinds = []string{"charge"}
	opts.Exists = func(_ context.Context, kind, id string) (bool, error) {
		asked = append(asked, kind+" "+id)
		return there, nil
	}
	r = compared(t, opts, charge("ch_1", at(10)))
	assert.Equal(t, []string{"charge ch_2"}, asked)
	assert.True(t, r.OK())
	assert.Equal(t, 1, r.NotCompared["operations whose object the provider has and did not list"])
	there = false
	r = compared(t, opts, charge("ch_1", at(10)))
	assert.Equal(t, []string{"only_here!"}, kinds(r))
	assert.Contains(t, r.Findings[0].Why, "nor has the provider")
	opts.Exists = func(context.Context, string, string) (bool, error) { return false, errors.New("503") }
	_, err := compare.Run(t.Context(), listed(charge("ch_1", at(10))), opts)
	require.ErrorContains(t, err, "503")
}

// A comparison changes nothing: not an operation without an outcome whose object is listed, nor one whose object is not.
func TestComparisonSettlesNothing(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	b.doubts("invoice-2", at(11), sent{})
	b.doubts("invoice-3", at(11), sent{})
	before := contents(t, b)
	there := charge("ch_2", at(11))
	there.Key = "key-invoice-2"
	r := compared(t, options(b), charge("ch_1", at(10)), there)
	assert.Equal(t, []string{"unsettled!", "unsettled"}, kinds(r))
	assert.Equal(t, before, contents(t, b))
}

func contents(t *testing.T, b *books) (all []journal.Operation) {
	t.Helper()
	for op, err := range b.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		whole, err := b.Get(t.Context(), op.Ref)
		require.NoError(t, err)
		all = append(all, whole)
	}
	return all
}

// A line in a bank's statement is one object: many payments that it sums up are not compared with it.
func TestOneLineIsOneObject(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	b.pays("invoice-2", at(10), sent{object: "charge ch_2"})
	line := compare.Object{ID: "statement-1", At: at(20), Money: compare.Money{Minor: 4000, Currency: "EUR"}}
	r := compared(t, options(b), line)
	assert.False(t, r.OK())
	assert.Zero(t, r.Matched)
	assert.Equal(t, map[string]int{"charge": 2}, r.Unlisted)
}

// A report for one scope has nothing from another one.
func TestScopesAreApart(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{scope: "a", object: "charge ch_1"})
	b.pays("invoice-1", at(10), sent{scope: "b", object: "charge ch_2", key: "key-b"})
	scope := "a"
	opts := options(b)
	opts.Scope, opts.Alone = &scope, true
	other, unknown := charge("ch_2", at(10)), charge("ch_3", at(10))
	other.Key, unknown.Key = "key-b", "key-c"
	r := compared(t, opts, charge("ch_1", at(10)), other, unknown, charge("ch_4", at(10)))
	assert.True(t, r.OK())
	assert.Empty(t, r.Findings)
	assert.Empty(t, r.OnlyThere)
	assert.Equal(t, map[string]int{"objects that may be of other scopes, accounts or modes": 3}, r.NotCompared)
	assert.NotContains(t, fmt.Sprintf("%+v", r), "ch_2")
}

// A reversal that no event showed is a finding, and by itself not grave: the program itself may have refunded.
func TestReversedThere(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	o := charge("ch_1", at(10))
	o.State = providers.Reversed
	r := compared(t, options(b), o)
	assert.Equal(t, []string{"reversed_there"}, kinds(r))
	assert.True(t, r.OK())
	o.State = providers.Refused
	assert.Equal(t, []string{"reversed_there!"}, kinds(compared(t, options(b), o)))

	op, err := b.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.NoError(t, err)
	ev := event(machine.EventEvidence, op, at(11))
	ev.Object = "charge ch_1"
	ev.Evidence = &journal.Evidence{At: at(11), Source: journal.SourceEvent, Finding: journal.FindingReversed, Basis: journal.BasisKey, Object: "charge ch_1"}
	b.apply(ev)
	o.State = providers.Reversed
	assert.Empty(t, compared(t, options(b), o).Findings, "an event told of it")
}

// An operation that had no effect here has an object there.
func TestEffectOfACancelledOperation(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	b.cancels("invoice-2", at(10), sent{})
	o := charge("ch_2", at(10))
	o.Key = "key-invoice-2"
	r := compared(t, options(b), charge("ch_1", at(10)), o)
	assert.Equal(t, []string{"only_there!"}, kinds(r))
	assert.Equal(t, "invoice-2", r.Findings[0].Ref.ID)
	o.State = providers.Refused
	assert.True(t, compared(t, options(b), charge("ch_1", at(10)), o).OK())
}
