package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// claimed claims up to limit operations, and returns their handles.
func claimed(t *testing.T, j *sqlite.Journal, ev journal.Event, limit int) (handles []int64) {
	t.Helper()
	results, err := j.Claim(t.Context(), ev, limit)
	require.NoError(t, err)
	for _, r := range results {
		handles = append(handles, r.Operation.Handle)
	}
	return handles
}

// What is claimed is the oldest however many are due.
func TestClaimTakesTheOldest(t *testing.T) {
	for _, many := range []int{30, 400, 700} {
		j := open(t, filepath.Join(t.TempDir(), "journal.db"))
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		now := time.Now()
		sideBySide(many, func(i int) {
			begun, err := j.Apply(t.Context(), generate(fmt.Sprint("op-", i), s))
			if assert.NoError(t, err) {
				park := complete(begun.Operation, s)
				park.Kind, park.Answer, park.Unsent, park.Due = journal.EventPark, nil, true, now.Add(time.Duration(many-int(begun.Operation.Handle))*time.Second)
				_, err = j.Apply(t.Context(), park)
				assert.NoError(t, err)
			}
		})
		require.NoError(t, sqlite.Fold(j))
		ev := claim(s)
		ev.At = now.Add(time.Hour)
		assert.Equal(t, []int64{1, 2, 3}, claimed(t, j, ev, 3), "of %d", many)
		assert.Empty(t, claimed(t, j, ev, 0), "none were asked for")
		rest := claimed(t, j, ev, many)
		assert.Len(t, rest, many-3)
		assert.True(t, slices.IsSorted(rest), "of %d", many)
		assert.Empty(t, claimed(t, j, ev, many))
	}
}

// A turn of a claim that takes too long ends but not the claim.
func TestClaimsTurnThatTakesTooLongEnds(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for n := range 5 {
		begun, err := j.Apply(t.Context(), generate(fmt.Sprint(n), s))
		require.NoError(t, err)
		park := complete(begun.Operation, s)
		park.Kind, park.Answer, park.Unsent = journal.EventPark, nil, true
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	commits := func() int64 {
		stats, err := j.Stats(t.Context())
		require.NoError(t, err)
		return stats.Commits
	}
	before := commits()
	ev := claim(s)
	ev.At = ev.At.Add(time.Hour)
	ev.Today = func(op *journal.Operation) (journal.Today, bool) {
		for began := time.Now(); time.Since(began) <= sqlite.ClaimFor; { // its turn is over
		}
		return journal.Today{Terms: terms}, true
	}
	assert.Equal(t, []int64{1, 2, 3, 4, 5}, claimed(t, j, ev, 10))
	assert.GreaterOrEqual(t, commits()-before, int64(5), "others may write between them")
}
