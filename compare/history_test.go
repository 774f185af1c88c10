package compare_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/providers"
)

// A caller uses a reference again for a new operation, which the provider refuses. The object is the first operation's.
func TestReferenceOfARefusedOperation(t *testing.T) {
	b := open(t)
	b.pays("invoice-0", at(9), sent{object: "charge ch_0"})
	b.pays("invoice-1", at(10), sent{reference: "order-17"})
	b.cancels("invoice-2", at(11), sent{reference: "order-17"})
	o := charge("ch_1", at(10))
	o.Reference = "order-17"
	r := compared(t, options(b), charge("ch_0", at(9)), o)
	assert.Empty(t, kinds(r))
	assert.Equal(t, 2, r.Matched)
}

// The same, long before the window.
func TestReferenceOfARefusedOperationBefore(t *testing.T) {
	for _, refusedFirst := range []bool{true, false} {
		b := open(t)
		if refusedFirst {
			b.cancels("invoice-2", at(-72), sent{reference: "order-17"})
		}
		b.pays("invoice-1", at(-71), sent{reference: "order-17"})
		if !refusedFirst {
			b.cancels("invoice-2", at(-70), sent{reference: "order-17"})
		}
		b.pays("invoice-0", at(9), sent{object: "charge ch_0"})
		o := charge("ch_1", at(10))
		o.Reference = "order-17"
		assert.Empty(t, kinds(compared(t, options(b), charge("ch_0", at(9)), o)), refusedFirst)
	}
}

// A journal copy expects no second object, also if no object was recorded.
func TestCopyOfAJournalByMark(t *testing.T) {
	a, b := open(t), open(t)
	for _, j := range []*books{a, b} {
		j.pays("invoice-0", at(9), sent{object: "charge ch_0", reference: "ref-0"})
		j.pays("invoice-1", at(10), sent{})
		j.pays("invoice-2", at(10), sent{reference: "ref-2"})
	}
	one, two := charge("ch_1", at(10)), charge("ch_2", at(10))
	one.Key, two.Reference = "key-invoice-1", "ref-2"
	r := compared(t, options(a, b), charge("ch_0", at(9)), one, two)
	assert.Empty(t, kinds(r))
	assert.Equal(t, []int{6, 6}, []int{r.Operations, r.Matched})
}

// If a copy has no outcome for the operation, the finding names the copy, with and without a mark in the list.
func TestCopyOfAJournalWithoutAnOutcome(t *testing.T) {
	for _, key := range []string{"", "key-invoice-1"} {
		a, b := open(t), open(t)
		a.pays("invoice-1", at(10), sent{object: "charge ch_1"})
		b.doubts("invoice-1", at(10), sent{})
		o := charge("ch_1", at(10))
		o.Key = key
		r := compared(t, options(a, b), o)
		require.Equal(t, []string{"unsettled!"}, kinds(r))
		assert.Equal(t, 1, r.Findings[0].Journal)
	}
}

// Two programs give two operations the same name. Each has a finding, and a person accepts each by itself.
func TestOneNameInTwoJournals(t *testing.T) {
	a, b := open(t), open(t)
	a.pays("invoice-0", at(9), sent{object: "charge ch_0"})
	a.pays("invoice-1", at(10), sent{key: "ka"})
	b.pays("invoice-1", at(10), sent{key: "kb"})
	a.doubts("invoice-2", at(10), sent{key: "kc"})
	b.doubts("invoice-2", at(10), sent{key: "kd"})
	o := charge("ch_0", at(9))
	o.Key = "key-invoice-0"
	opts := options(a, b)
	r := compared(t, opts, o)
	require.ElementsMatch(t, []string{"only_here!", "only_here!", "unsettled", "unsettled"}, kinds(r))
	opts.Known = []string{r.Findings[0].ID}
	r = compared(t, opts, o)
	assert.False(t, r.OK())
	assert.Equal(t, 1, r.Hidden)
}

// A declined try of an operation that took effect later is no finding, wherever it is listed.
func TestDeclinedTryFirst(t *testing.T) {
	b := open(t)
	b.pays("invoice-0", at(9), sent{object: "charge ch_0"})
	b.pays("invoice-1", at(10), sent{})
	declined, made := charge("ch_1", at(10)), charge("ch_2", at(10.1))
	declined.Key, made.Key, declined.State = "key-invoice-1", "key-invoice-1", providers.Refused
	for _, rows := range [][]compare.Object{{declined, made}, {made, declined}} {
		assert.Empty(t, kinds(compared(t, options(b), append(rows, charge("ch_0", at(9)))...)))
	}
	r := compared(t, options(b), charge("ch_0", at(9)), declined)
	assert.Equal(t, []string{"reversed_there!"}, kinds(r))
}

// Another tenant's object with the same reference is none of this tenant's.
func TestReferenceOfAnotherScope(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{scope: "a", object: "charge ch_a", reference: "order-17", key: "ka"})
	b.pays("invoice-1", at(10), sent{scope: "b", object: "charge ch_b", reference: "order-17", key: "kb"})
	one, other := charge("ch_a", at(10)), charge("ch_b", at(10))
	one.Reference, other.Reference = "order-17", "order-17"
	scope := "a"
	opts := options(b)
	assert.Empty(t, kinds(compared(t, opts, one, other)))
	opts.Scope = &scope
	r := compared(t, opts, one, other)
	assert.Empty(t, kinds(r))
}

// An object that was reversed has its amount compared.
func TestReversedAmount(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	o := charge("ch_1", at(10))
	o.State, o.Money.Minor = providers.Reversed, 9000
	r := compared(t, options(b), o)
	assert.Contains(t, kinds(r), "other_amount!")
}

// An accepted object without an operation is reported again if its amount changes.
func TestKnownAmount(t *testing.T) {
	b := open(t)
	b.pays("invoice-0", at(9), sent{object: "charge ch_0", key: "k"})
	o := charge("ch_1", at(10))
	o.Key = "k"
	p := charge("ch_2", at(10))
	p.Key = "other"
	opts := options(b)
	opts.Alone = true
	r := compared(t, opts, charge("ch_0", at(9)), o, p)
	require.Equal(t, []string{"several_there!", "only_there!"}, kinds(r))
	opts.Known = []string{r.Findings[0].ID, r.Findings[1].ID}
	o.Money.Minor, p.Money.Minor = 9000, 9000
	assert.Equal(t, []string{"several_there!", "only_there!"}, kinds(compared(t, opts, charge("ch_0", at(9)), o, p)))
}

// Two objects for one operation without a recorded object have one finding's name, whichever is listed first.
func TestNameOfSeveral(t *testing.T) {
	b := open(t)
	b.pays("invoice-0", at(9), sent{object: "charge ch_0"})
	b.pays("invoice-1", at(10), sent{})
	o, p := charge("ch_1", at(10)), charge("ch_2", at(10))
	o.Key, p.Key = "key-invoice-1", "key-invoice-1"
	r := compared(t, options(b), charge("ch_0", at(9)), o, p)
	s := compared(t, options(b), charge("ch_0", at(9)), p, o)
	require.Len(t, r.Findings, 1)
	assert.Equal(t, r.Findings[0].ID, s.Findings[0].ID)
}

// Two objects with the reference from an operation before the window are one too many.
func TestSeveralBefore(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(-72), sent{reference: "order-17"})
	b.pays("invoice-0", at(9), sent{object: "charge ch_0"})
	o, p := charge("ch_1", at(10)), charge("ch_2", at(10))
	o.Reference, p.Reference = "order-17", "order-17"
	assert.Equal(t, []string{"several_there!"}, kinds(compared(t, options(b), charge("ch_0", at(9)), o, p)))
}

// A list that goes on before the window has the object from an earlier operation with the same reference.
func TestReferenceOfAnEarlierOperation(t *testing.T) {
	for _, object := range []string{"charge ch_a", ""} {
		b := open(t)
		b.pays("invoice-1", at(-10), sent{object: object, reference: "customer-5"})
		b.pays("invoice-2", at(10), sent{object: "charge ch_b", reference: "customer-5"})
		one, other := charge("ch_a", at(-10)), charge("ch_b", at(10))
		one.Reference, other.Reference = "customer-5", "customer-5"
		r := compared(t, options(b), one, other)
		assert.Empty(t, kinds(r), object)
		one.At = at(0.1)
		assert.Empty(t, kinds(compared(t, options(b), one, other)), object)
		third := charge("ch_c", at(11))
		third.Reference = "customer-5"
		assert.Equal(t, []string{"several_there!"}, kinds(compared(t, options(b), one, other, third)), object)
	}
}

// Two objects of different kinds may have one id. A list without kinds doesn't tell them apart, unless a mark or Options.Kinds does.
func TestOneIDOfTwoKinds(t *testing.T) {
	b := open(t)
	b.pays("invoice-0", at(8), sent{object: "charge ch_0"})
	b.pays("invoice-1", at(9), sent{object: "charge 1001", reference: "ref-1"})
	b.pays("refund-1", at(9), sent{endpoint: "POST /v1/refunds", object: "refund 1001", body: "amount=500&currency=eur", reference: "ref-2"})
	paid, refund := charge("1001", at(9)), charge("1001", at(9))
	paid.Kind, refund.Kind, refund.Money.Minor = "", "", 500
	r := compared(t, options(b), charge("ch_0", at(8)), paid, refund)
	assert.True(t, r.OK(), kinds(r))
	assert.Equal(t, 1, r.Matched)
	assert.Equal(t, map[string]int{"objects without a kind whose id operations of several kinds have": 2, "operations whose object may be another's": 2}, r.NotCompared)

	paid.Reference, refund.Reference = "ref-1", "ref-2"
	r = compared(t, options(b), charge("ch_0", at(8)), paid, refund)
	assert.Empty(t, r.Findings)
	assert.Equal(t, 3, r.AmountsCompared)

	paid.Reference = ""
	opts := options(b)
	opts.Kinds = []string{"charge"}
	assert.Equal(t, 2, compared(t, opts, charge("ch_0", at(8)), paid).AmountsCompared)
}
