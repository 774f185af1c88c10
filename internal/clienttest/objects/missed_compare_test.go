//go:build unix

package objects_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// planted is a difference that a comparison has to find.
type planted struct {
	name   string
	kind   compare.Kind
	plant  func(all []compare.Object, i int) []compare.Object
	second func(o compare.Object) (object string) // the charge of another host's operation; nil: there is no such host
}

var differences = []planted{
	{name: "missing object", kind: compare.OnlyHere, plant: func(all []compare.Object, i int) []compare.Object {
		return slices.Delete(all, i, i+1)
	}},
	{name: "missing operation", kind: compare.OnlyThere, plant: func(all []compare.Object, i int) []compare.Object {
		o := all[i]
		o.ID, o.Key, o.At = "ch_planted", "key-planted", all[len(all)-1].At // a mark from before the first operation proves nothing
		return append(all, o)
	}},
	{name: "second object", kind: compare.SeveralThere, plant: func(all []compare.Object, i int) []compare.Object {
		o := all[i]
		o.ID = "ch_planted"
		return append(all, o)
	}},
	{name: "other amount", kind: compare.OtherAmount, plant: func(all []compare.Object, i int) []compare.Object {
		all[i].Money.Minor++
		return all
	}},
	{name: "other currency", kind: compare.OtherAmount, plant: func(all []compare.Object, i int) []compare.Object {
		all[i].Money.Currency = "USD"
		return all
	}},
	{name: "reversed", kind: compare.ReversedThere, plant: func(all []compare.Object, i int) []compare.Object {
		all[i].State = providers.Reversed
		return all
	}},
	{name: "one object for two journals", kind: compare.OnlyHere, second: func(o compare.Object) string { return o.ID }},
	{name: "missing object of the second journal", kind: compare.OnlyHere, second: func(compare.Object) string { return "ch_other" }},
}

// compares compares the storm's journal with the provider's charges, as they are and with each of twenty differences.
func compares(t *testing.T, file string, table providers.Provider, began time.Time, p *provider) {
	j := oncetest.OpenSQLite(t, file)
	opts := compare.Options{
		Journals: []journal.Journal{j}, Provider: table, Kinds: []string{"charge"}, Mode: "test", Alone: true,
		Window: compare.Window{From: began.Add(-10 * time.Minute), To: p.now()},
	}
	all := p.objects()
	require.Greater(t, len(all), 20)
	r := compared(t, opts, all)
	assert.True(t, r.OK())
	assert.Empty(t, r.Findings)
	assert.Empty(t, r.NotCompared)
	assert.Equal(t, []int{len(all), len(all), len(all), len(all)}, []int{r.Operations, r.Matched, r.AmountsCompared, r.Objects})

	n, found := 0, 0
	for _, d := range differences {
		times := 3
		if d.second != nil {
			times = 1
		}
		for range times {
			i := n * (len(all) - 1) / 19 // from the first object to the last
			n++
			t.Run(fmt.Sprintf("%s, %s", d.name, all[i].ID), func(t *testing.T) {
				objects, opts := slices.Clone(all), opts
				if d.second != nil {
					opts.Journals = append(slices.Clone(opts.Journals), ofAnotherHost(t, table, all[i], d.second(all[i])))
				} else {
					objects = d.plant(objects, i)
				}
				r := compared(t, opts, objects)
				require.Len(t, r.Findings, 1)
				assert.Equal(t, d.kind, r.Findings[0].Kind)
				assert.Equal(t, d.kind == compare.ReversedThere, r.OK(), "a reversal alone is not grave")
				if d.second != nil {
					assert.Equal(t, []any{1, "theirs"}, []any{r.Findings[0].Journal, r.Findings[0].Ref.ID})
				} else if d.kind != compare.OnlyThere {
					assert.Equal(t, ofAmount(t, j, all[i]), r.Findings[0].Ref)
				}
				found++
			})
		}
	}
	assert.Equal(t, []int{20, 20}, []int{n, found}, "planted differences, and those that were found")
}

func compared(t *testing.T, opts compare.Options, objects []compare.Object) *compare.Report {
	t.Helper()
	r, err := compare.Run(t.Context(), func(yield func(compare.Object, error) bool) {
		for _, o := range objects {
			if !yield(o, nil) {
				return
			}
		}
	}, opts)
	require.NoError(t, err)
	return r
}

// ofAmount returns the operation of an object, whose amount is its own.
func ofAmount(t *testing.T, j journal.Journal, o compare.Object) onceward.Ref {
	t.Helper()
	op, err := j.Get(t.Context(), onceward.Ref{ID: fmt.Sprint("invoice-", o.Money.Minor-int64(amountOf(0)))})
	require.NoError(t, err)
	require.Equal(t, o.Key, string(op.Key))
	return op.Ref
}

// ofAnotherHost returns another host's journal, which has one charge: the given object.
func ofAnotherHost(t *testing.T, table providers.Provider, like compare.Object, object string) journal.Journal {
	t.Helper()
	j := memory.New()
	other := oncetest.Start(t, answering(`{"id":"`+object+`","object":"charge","livemode":false}`), onceward.Config{
		Journal: j, Providers: []providers.Provider{table}, Authorize: authorize, Reconcile: &onceward.Reconcile{},
	})
	oncetest.SetClock(other.Client, func() time.Time { return like.At })
	status, err := charges(oncetest.Named(t, "theirs"), other.HTTP, "https://"+table.Hosts[0], int(like.Money.Minor))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	return j
}

// answering answers each request with a body.
type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return oncetest.Answers(http.StatusOK, string(a)), nil
}
