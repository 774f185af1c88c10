//go:build unix

package sqlite_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite"
)

// handlesOf lists the handles of the operations that a filter selects.
func handlesOf(t *testing.T, j *sqlite.Journal, f journal.Filter) (handles []int64) {
	t.Helper()
	for op, err := range j.List(t.Context(), f) {
		require.NoError(t, err)
		handles = append(handles, op.Handle)
	}
	return handles
}

// A list has the filter's matches once, in its order, whatever its pages are.
func TestListHasWhatItsFilterSelects(t *testing.T) {
	t.Parallel()
	const many = 650 // some pages of a list
	_, j, s := joined(t)
	random, now := seeded(t), time.Now().Truncate(time.Millisecond)
	wake := func() time.Time { return now.Add(time.Duration(random.IntN(60)) * time.Second) }
	all := map[int64]journal.Operation{}
	for n := range many {
		ev := begin(fmt.Sprint("op-", n), s)
		ev.Ref.Scope = fmt.Sprint("tenant-", n%2)
		ev.Intent.Provider = fmt.Sprint("provider-", n%3)
		if n%4 == 0 {
			ev.New, ev.Intent.Naming = true, journal.Generated
		}
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		next := complete(result.Operation, s)
		switch kind := random.IntN(10); {
		case kind < 5:
			next.Delivered = kind > 0
		case kind < 8:
			next.Kind, next.Answer, next.Unsent, next.Due, next.Delivered = machine.EventPark, nil, true, wake(), false
		case kind < 9:
			next.Kind, next.Answer, next.Open, next.Delivered = machine.EventMarkUnknown, nil, true, n%2 == 0
		default:
			next.Kind = 0
		}
		if next.Kind != 0 {
			result, err = j.Apply(t.Context(), next)
			require.NoError(t, err)
		}
		all[result.Operation.Handle] = result.Operation
	}
	scope := "tenant-1"
	filters := map[string]journal.Filter{
		"all":                        {},
		"completed":                  {States: []journal.State{journal.StateCompleted}},
		"pending":                    {States: []journal.State{journal.StatePending}},
		"unknown":                    {States: []journal.State{journal.StateUnknown}},
		"not completed":              {States: []journal.State{journal.StatePending, journal.StateInFlight, journal.StateUnknown}},
		"of a scope":                 {Scope: &scope},
		"of a provider":              {Provider: "provider-2"},
		"undelivered":                {Undelivered: true},
		"undelivered and unknown":    {Undelivered: true, States: []journal.State{journal.StateUnknown}},
		"by wake":                    {ByWake: true},
		"by wake, of a provider":     {ByWake: true, Provider: "provider-1"},
		"woken before":               {WakeBefore: now.Add(30 * time.Second)},
		"woken before, and a little": {WakeBefore: now.Add(30*time.Second + time.Microsecond)},
		"woken before, by wake":      {WakeBefore: now.Add(30 * time.Second), ByWake: true},
		"completed, by wake":         {States: []journal.State{journal.StateCompleted}, ByWake: true},
		"newest":                     {Newest: true},
		"newest, of a provider":      {Newest: true, Provider: "provider-1"},
		"newest, between two":        {Newest: true, After: many / 4, Before: many * 3 / 4},
		"between two":                {After: many / 4, Before: many * 3 / 4},
		"by wake, between two":       {ByWake: true, After: many / 4, Before: many * 3 / 4},
	}
	limits := []int{0, 1, 200}
	if soak.On() {
		limits = append(limits, 150, 199, 201, 333, 400, 600)
	}
	for name, f := range filters {
		var want []int64
		for handle, op := range all {
			if store.Selects(&f, &op) {
				want = append(want, handle)
			}
		}
		slices.SortFunc(want, func(a, b int64) int {
			if f.ByWake {
				return cmp.Or(all[a].WakeAt.Compare(all[b].WakeAt), cmp.Compare(a, b))
			}
			if f.Newest {
				a, b = b, a
			}
			return cmp.Compare(a, b)
		})
		for _, limit := range append(limits, len(want), len(want)+1) {
			f.Limit = max(limit, 0)
			some := want
			if f.Limit > 0 {
				some = want[:min(f.Limit, len(want))]
			}
			require.Equal(t, some, handlesOf(t, j, f), "%s, at most %d of %d", name, f.Limit, len(want))
		}
	}
}
