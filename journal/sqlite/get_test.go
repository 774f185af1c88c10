//go:build unix

package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// What a row says that its sum does not fit is told to nobody.
func TestGetOfARowThatIsDamaged(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	park := complete(begun.Operation, s)
	park.Kind, park.Answer, park.Open, park.Due = journal.EventPark, nil, true, time.Now().Add(time.Hour)
	_, err = j.Apply(t.Context(), park)
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	alter(t, path, "UPDATE onceward_operations SET wake_at = wake_at + 1")
	op, err := j.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.ErrorContains(t, err, "damaged")
	assert.Zero(t, op)
}

// An operation that the file has lost is not told to be none.
func TestGetOfWhatIsLost(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	require.True(t, has(t, j, "invoice-1"))
	alter(t, path, "DELETE FROM onceward_blocks; DELETE FROM onceward_operations")
	_, err = j.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.ErrorContains(t, err, "damaged")
	assert.False(t, has(t, j, "invoice-2"))
}

// What was begun again by a name is found by it and by no other, whatever was removed that had it before.
func TestGetByANameUsedAgain(t *testing.T) {
	path, j, s := joined(t)
	t.Cleanup(hurry(filepath.Dir(path)))
	at := time.Now().Add(-1000 * time.Hour)
	apply := func(ev journal.Event) journal.Operation {
		t.Helper()
		ev.At = at
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		return result.Operation
	}
	name := aliasOf("invoice")
	begins := func(id string) journal.Operation {
		ev := begin(id, s)
		ev.Intent.Alias, ev.Intent.Terms.Retention = name, 0
		return apply(ev)
	}
	removed := func(id string) {
		ev := complete(begins(id), s)
		ev.Kind, ev.Answer, ev.Unsent = journal.EventCancel, nil, true
		apply(ev)
		n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: at}, 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	removed("first")
	for n := range sqlite.SegmentSize {
		apply(generate(fmt.Sprint("other-", n), s))
	}
	removed("second")
	op := begins("third")
	require.NoError(t, sqlite.Fold(j))
	require.Equal(t, []int64{op.Handle - 1, op.Handle, 1}, sqlite.Candidates(j, name))
	for range 2 {
		there, err := j.Get(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, "third", there.ID)
		assert.False(t, has(t, j, "first"))
		alter(t, path, "CREATE TABLE IF NOT EXISTS others (id)") // the writer is asked
	}
	// It is so, too, where the file has lost what was removed.
	alter(t, path, "DELETE FROM onceward_removed")
	order(t, j, application(t, path), "order-1", (*sql.Tx).Commit)
	there, err := j.Get(t.Context(), name)
	require.NoError(t, err)
	assert.Equal(t, "third", there.ID)

	alter(t, path, fmt.Sprint("UPDATE onceward_operations SET facts = zeroblob(length(facts)) WHERE handle = ", op.Handle))
	_, err = j.Get(t.Context(), name)
	require.ErrorContains(t, err, "damaged")
}
