//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A list ends with its present page if its journal is closed or its context ends, though the file is still open.
func TestListThatEndsBeforeItsEnd(t *testing.T) {
	for name, end := range map[string]struct {
		by func(j *sqlite.Journal, cancel func())
		is error
	}{
		"closed":       {func(j *sqlite.Journal, _ func()) { _ = j.Close() }, journal.ErrClosed},
		"context over": {func(_ *sqlite.Journal, cancel func()) { cancel() }, context.Canceled},
	} {
		path, j, s := joined(t)
		others(t, j, s, "op")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lists := open(t, path)
		n := 0
		var last error
		for _, err := range lists.List(ctx, journal.Filter{}) {
			if last = err; err != nil {
				break
			}
			if n++; n == 1 {
				end.by(lists, cancel)
			}
		}
		require.ErrorIs(t, last, end.is, name)
		assert.Less(t, n, manyOthers, name)
	}
}

// An operation that needs attention is listed wherever it is stored. One with a due look-up is not, until the look-up
// is overdue.
func TestListOfOperationsThatNeedAttention(t *testing.T) {
	_, j, s := joined(t)
	for _, id := range []string{"dead", "alive", "dead too", "done"} {
		begun, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		ev := complete(begun.Operation, s)
		if id != "done" {
			ev.Kind, ev.Answer, ev.Open, ev.Delivered = machine.EventMarkUnknown, nil, true, false
			ev.LookAfter = time.Minute
		}
		_, err = j.Apply(t.Context(), ev)
		require.NoError(t, err)
		if id == "dead" || id == "dead too" {
			_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventEvidence, Ref: begun.Operation.Ref, At: time.Now(), Claim: begun.Operation.Claim, Attention: "403",
				Evidence: &journal.Evidence{Source: journal.SourceLook, Status: 403, Finding: journal.FindingInconclusive, Why: "403"}})
			require.NoError(t, err)
		}
	}
	now := time.Now()
	for range 2 {
		assert.Equal(t, []int64{1, 3}, handlesOf(t, j, journal.Filter{NeedsAttention: now}))
		assert.Equal(t, []int64{3, 1}, handlesOf(t, j, journal.Filter{NeedsAttention: now, Newest: true}))
		assert.Empty(t, handlesOf(t, j, journal.Filter{NeedsAttention: now, States: []journal.State{journal.StatePending}}))
		assert.Equal(t, []int64{1, 2, 3}, handlesOf(t, j, journal.Filter{NeedsAttention: now.Add(journal.AttentionAfter + time.Hour)}))
	}
}

// Operations that have just begun are listed within the filter's bounds, in its order, up to its limit.
func TestListOfLoggedOperations(t *testing.T) {
	_, j, s := joined(t)
	now := time.Now().Truncate(time.Millisecond)
	for n := range 5 {
		ev := begin(fmt.Sprint("op-", n), s)
		ev.Intent.Alias = aliasOf(ev.Ref.ID)
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		park := complete(begun.Operation, s)
		park.Kind, park.Answer, park.Open, park.Due = machine.EventPark, nil, true, now.Add(time.Duration(10-n)*time.Minute)
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	for name, row := range map[string]struct {
		filter journal.Filter
		want   []int64
	}{
		"all":                   {journal.Filter{}, []int64{1, 2, 3, 4, 5}},
		"before":                {journal.Filter{Before: 4}, []int64{1, 2, 3}},
		"before, newest":        {journal.Filter{Before: 4, Newest: true}, []int64{3, 2, 1}},
		"after":                 {journal.Filter{After: 2}, []int64{3, 4, 5}},
		"after, newest":         {journal.Filter{After: 2, Newest: true}, []int64{5, 4, 3}},
		"by wake":               {journal.Filter{ByWake: true}, []int64{5, 4, 3, 2, 1}},
		"by wake, at most two":  {journal.Filter{ByWake: true, Limit: 2}, []int64{5, 4}},
		"by wake, after":        {journal.Filter{ByWake: true, After: 2}, []int64{5, 4, 3}},
		"at most two":           {journal.Filter{Limit: 2}, []int64{1, 2}},
		"the two newest":        {journal.Filter{Newest: true, Limit: 2}, []int64{5, 4}},
		"woken before":          {journal.Filter{WakeBefore: now.Add(8 * time.Minute)}, []int64{4, 5}},
		"woken before, by wake": {journal.Filter{WakeBefore: now.Add(8 * time.Minute), ByWake: true}, []int64{5, 4}},
	} {
		assert.Equal(t, row.want, handlesOf(t, j, row.filter), name)
	}
}
