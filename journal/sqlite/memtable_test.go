//go:build unix

package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// What was folded and has changed since is read as it is, by either of its names, by all who have it open.
func TestMemtableForgetsWhatIsFolded(t *testing.T) {
	_, j, s := joined(t)
	ev := begin("invoice-1", s)
	ev.Intent.Alias = aliasOf("invoice-1")
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	reads := func(want journal.State) {
		t.Helper()
		for _, ref := range []journal.Ref{ev.Ref, ev.Intent.Alias} {
			op, err := j.Get(t.Context(), ref)
			require.NoError(t, err)
			assert.Equal(t, want, op.State, ref)
		}
	}
	reads(journal.StateInFlight)
	require.NoError(t, sqlite.Fold(j))
	reads(journal.StateInFlight)
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	reads(journal.StateCompleted)
	require.NoError(t, sqlite.Fold(j))
	reads(journal.StateCompleted)
}

// A log whose first operations were folded is read from its first one on, by whoever opens it.
func TestMemtableOfALogThatWasCut(t *testing.T) {
	path, j, s := joined(t)
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	for _, id := range []string{"invoice-2", "invoice-3"} {
		_, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
	}
	copied := path + "-copy"
	copyAll(t, path, copied)
	j = open(t, copied)
	for n, id := range []string{"invoice-1", "invoice-2", "invoice-3"} {
		op, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		assert.EqualValues(t, n+1, op.Handle)
	}
	require.NoError(t, j.Adopt(t.Context()))
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	for n, id := range []string{"invoice-2", "invoice-4", "invoice-3"} {
		result, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		assert.EqualValues(t, []int{2, 4, 3}[n], result.Operation.Handle)
	}
	assert.Empty(t, verify(t, j))
}
