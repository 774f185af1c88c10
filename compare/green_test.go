package compare_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// These are ways to a report that is OK although money is missing.

// One object proves one operation, in whichever journals the two are.
func TestOneObjectProvesOneOperation(t *testing.T) {
	a, b := open(t), open(t)
	a.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	b.pays("invoice-2", at(11), sent{object: "charge ch_1"})
	r := compared(t, options(a, b), charge("ch_1", at(10)))
	require.Equal(t, []string{"only_here!"}, kinds(r))
	assert.Equal(t, "invoice-2", r.Findings[0].Ref.ID)
	assert.Equal(t, 1, r.Findings[0].Journal)

	c, d := open(t), open(t)
	c.pays("invoice-1", at(10), sent{scope: "a", object: "charge 1001", key: "key-a"})
	c.pays("invoice-1", at(10), sent{scope: "b", object: "charge 1001", key: "key-b"})
	assert.Equal(t, []string{"only_here!"}, kinds(compared(t, options(c, d), charge("1001", at(10)))), "of two tenants")
}

// The same request in two journals has one object, and both amounts are compared.
func TestOneRequestInTwoJournals(t *testing.T) {
	a, b := open(t), open(t)
	a.pays("invoice-1", at(10), sent{object: "charge ch_1", key: "key-1"})
	b.pays("invoice-1", at(10.1), sent{object: "charge ch_1", key: "key-1", body: "amount=9000&currency=eur"})
	r := compared(t, options(a, b), charge("ch_1", at(10)))
	assert.Equal(t, []int{2, 2, 2}, []int{r.Operations, r.Matched, r.AmountsCompared})
	require.Equal(t, []string{"other_amount!"}, kinds(r))
	assert.Equal(t, 1, r.Findings[0].Journal)
}

// An object that is listed twice is one object, and each of its rows is compared.
func TestObjectListedTwice(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	b.pays("invoice-2", at(10), sent{object: "charge ch_2"})
	r := compared(t, options(b), charge("ch_1", at(10)), charge("ch_1", at(10)))
	assert.Equal(t, []string{"only_here!"}, kinds(r))
	assert.Equal(t, []int{2, 1, 1}, []int{r.Operations, r.Matched, r.AmountsCompared})
	part := charge("ch_1", at(10))
	part.Money.Minor = 1
	for _, rows := range [][]compare.Object{{charge("ch_1", at(10)), part}, {part, charge("ch_1", at(10))}} {
		assert.Contains(t, kinds(compared(t, options(b), append(rows, charge("ch_2", at(10)))...)), "other_amount!")
	}
}

// An object that is in progress has moved nothing yet.
func TestObjectInProgress(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	o := charge("ch_1", at(10))
	o.State = providers.InProgress
	r := compared(t, options(b), o)
	assert.Zero(t, r.AmountsCompared)
	assert.Equal(t, map[string]int{"amounts of objects in progress": 1}, r.NotCompared)
}

// An operation at a window's edge is not silently left out, and an object beyond the edge is found.
func TestWindowsEdge(t *testing.T) {
	b := open(t)
	b.pays("noon", at(12), sent{object: "charge ch_1"})
	b.pays("late", at(24).Add(-2*time.Second), sent{object: "charge ch_2"})
	r := compared(t, options(b), charge("ch_1", at(12)))
	assert.Equal(t, []int{2, 1}, []int{r.Operations, r.Matched})
	assert.Equal(t, map[string]int{"operations whose object may lie outside the window": 1}, r.NotCompared)
	r = compared(t, options(b), charge("ch_1", at(12)), charge("ch_2", at(24).Add(time.Second)))
	assert.Equal(t, []int{2, 2, 1}, []int{r.Operations, r.Matched, r.Objects}, "the list goes on for an hour")
	b.pays("next", at(24).Add(time.Second), sent{object: "charge ch_3"})
	r = compared(t, options(b), charge("ch_1", at(12)), charge("ch_2", at(23.9)), charge("ch_3", at(24).Add(-time.Second)))
	assert.Empty(t, r.OnlyThere, "the clocks disagree by two seconds")
}

// Handles are not in time order: a process on PostgreSQL takes a block of handles, and may use the block for weeks. A
// clock may also have been wrong.
func TestHandlesInAnyOrder(t *testing.T) {
	b := open(t)
	lost := b.pays("of a quiet process", at(10), sent{object: "charge ch_1"})
	for i := range 600 {
		b.begins(fmt.Sprint("of a busy process ", i), at(-20*24), sent{})
	}
	b.pays("invoice-2", at(11), sent{object: "charge ch_2"})
	r := compared(t, options(b), charge("ch_2", at(11)))
	require.Equal(t, []string{"only_here!"}, kinds(r))
	assert.Equal(t, lost.ID, r.Findings[0].Ref.ID)
}

// A damaged record is an error, wherever in the journal the reading ends.
func TestDamagedRecord(t *testing.T) {
	b := open(t)
	for i := range 800 {
		b.cancels(fmt.Sprint("old-", i), at(-30*24), sent{})
	}
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	b.pays("invoice-2", at(11), sent{object: "charge ch_2"})
	require.NoError(t, b.Close())
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: b.path}).EscapedPath())
	require.NoError(t, err)
	_, err = db.Exec("UPDATE onceward_rows SET record = x'00' WHERE handle = 801")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	j, err := sqlite.Open(b.path, sqlite.Options{ReadOnly: true})
	require.NoError(t, err)
	defer j.Close()
	opts := options()
	opts.Journals = []journal.Journal{j}
	_, err = compare.Run(t.Context(), listed(charge("ch_2", at(11))), opts)
	require.ErrorContains(t, err, "journal 0")
}

// A reaped operation still expects its object.
func TestTombstonesExpectTheirObject(t *testing.T) {
	b := open(t)
	op := b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	b.pays("invoice-2", at(10), sent{object: "charge ch_2"})
	plain := b.pays("invoice-3", at(10), sent{})
	for i := range 4 { // which shows the journal the time, and confirms its clock
		b.begins(fmt.Sprint("later-", i), at(100*24+float64(i)), sent{})
	}
	for _, op := range []journal.Operation{op, plain} {
		res, err := b.Apply(t.Context(), machine.Event{Kind: machine.EventReap, Ref: op.Ref, Handle: op.Handle, At: at(100 * 24), Session: b.session.ID()})
		require.NoError(t, err)
		require.True(t, res.Operation.Tombstone)
	}
	r := compared(t, options(b), charge("ch_2", at(10)))
	assert.Equal(t, []string{"only_here!"}, kinds(r))
	assert.Equal(t, map[string]int{"operations whose answer was reaped": 1}, r.NotCompared)
	r = compared(t, options(b), charge("ch_2", at(10)), charge("ch_1", at(10)))
	assert.True(t, r.OK())
	assert.Equal(t, map[string]int{"operations whose answer was reaped": 1, "amounts of requests that were reaped": 1}, r.NotCompared)
}

// One account's list shows nothing of another's operations, and they are counted.
func TestAccountsAndModes(t *testing.T) {
	b := open(t)
	b.pays("platform", at(10), sent{object: "charge ch_1", mode: "live"})
	b.pays("connected", at(10), sent{object: "charge ch_2", mode: "live", header: http.Header{"Stripe-Account": {"acct_1"}}})
	r := compared(t, options(b), charge("ch_1", at(10)))
	assert.True(t, r.OK())
	assert.Equal(t, map[string]int{"operations of other accounts": 1}, r.NotCompared)
	opts := options(b)
	opts.Account = "acct_1"
	assert.Equal(t, []int{1, 1}, func(r *compare.Report) []int { return []int{r.Operations, r.Matched} }(compared(t, opts, charge("ch_2", at(10)))))

	b.pays("test", at(11), sent{object: "charge ch_3", mode: "test"})
	_, err := compare.Run(t.Context(), listed(charge("ch_1", at(10))), options(b))
	var option *compare.OptionsError
	require.ErrorAs(t, err, &option)
	assert.Equal(t, "Mode", option.Field)
	opts = options(b)
	opts.Mode = "live"
	r = compared(t, opts, charge("ch_1", at(10)))
	assert.True(t, r.OK())
	assert.Equal(t, 1, r.NotCompared["operations of other modes"])
}

// An operation from another table, under the same objects, is none of this provider's.
func TestOtherTablesAreApart(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{object: "charge ch_1"})
	opts := options(b)
	opts.Provider.Name = "stripe-eu"
	r := compared(t, opts, charge("ch_1", at(10)))
	assert.False(t, r.OK())
	assert.Equal(t, []int{0, 0}, []int{r.Operations, r.Matched})
	opts.Provider.KeysUnder = "stripe"
	assert.True(t, compared(t, opts, charge("ch_1", at(10))).OK(), "a table that was renamed")
}

// A reference that a caller used for two operations belongs to two objects, and a third one is one too many.
func TestReferenceOfTwoOperations(t *testing.T) {
	b := open(t)
	b.pays("invoice-1", at(10), sent{reference: "order-17"})
	b.pays("invoice-2", at(10), sent{reference: "order-17"})
	rows := make([]compare.Object, 3)
	for i := range rows {
		rows[i] = charge(fmt.Sprint("ch_", i), at(10))
		rows[i].Reference = "order-17"
	}
	assert.True(t, compared(t, options(b), rows[:2]...).OK())
	assert.Equal(t, []string{"several_there!"}, kinds(compared(t, options(b), rows...)))
	assert.Equal(t, []string{"only_here!"}, kinds(compared(t, options(b), rows[0])))
}

// An operation that gets its outcome while the list is read is compared.
func TestOutcomeMeanwhile(t *testing.T) {
	b := open(t)
	op := b.begins("invoice-1", at(10), sent{})
	o := charge("ch_1", at(10))
	o.Key = "key-invoice-1"
	r, err := compare.Run(t.Context(), func(yield func(compare.Object, error) bool) {
		b.completes(op, at(10.1), sent{object: "charge ch_1"})
		yield(o, nil)
	}, options(b))
	require.NoError(t, err)
	assert.True(t, r.OK())
	assert.Equal(t, []int{1, 1, 1}, []int{r.Operations, r.Matched, r.AmountsCompared})
}

func TestOptionsThatCantBeUsed(t *testing.T) {
	b := open(t)
	for field, change := range map[string]func(*compare.Options){
		"Journals": func(o *compare.Options) { o.Journals = nil },
		"Provider": func(o *compare.Options) { o.Provider = providers.Provider{} },
		"Window":   func(o *compare.Options) { o.Window.To = o.Window.From },
		"Kinds":    func(o *compare.Options) { o.Kinds = []string{"payment"} },
	} {
		opts := options(b)
		change(&opts)
		_, err := compare.Run(t.Context(), listed(), opts)
		var option *compare.OptionsError
		require.ErrorAs(t, err, &option, field)
		assert.Equal(t, field, option.Field)
	}
	opts := options(b, b)
	_, err := compare.Run(t.Context(), listed(), opts)
	require.ErrorContains(t, err, "there twice")
	opts.Journals = []journal.Journal{struct{ journal.Journal }{memory.New()}}
	_, err = compare.Run(t.Context(), listed(), opts)
	require.ErrorContains(t, err, "can't be searched")
	opts = options(b)
	opts.Window.To = time.Now().Add(time.Hour)
	_, err = compare.Run(t.Context(), listed(), opts)
	require.ErrorContains(t, err, "ends in the future")
	for _, o := range []compare.Object{{At: at(1)}, {ID: "ch_1"}} {
		_, err = compare.Run(t.Context(), listed(o), options(b))
		require.ErrorContains(t, err, "object number 1 has no ID or no time")
	}
}
