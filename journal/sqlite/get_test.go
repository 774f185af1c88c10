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

// If a row does not match its sum, no caller gets its content.
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

// An operation that the file has lost is an error, and not "not found".
func TestGetOfALostOperation(t *testing.T) {
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

// An operation that was begun again under a name is found by that name and by no other, whatever earlier holder was
// removed.
func TestGetByANameUsedAgain(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
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
	// The same holds if the file has lost the list of removed operations.
	alter(t, path, "DELETE FROM onceward_removed")
	order(t, j, application(t, path), "order-1", (*sql.Tx).Commit)
	there, err := j.Get(t.Context(), name)
	require.NoError(t, err)
	assert.Equal(t, "third", there.ID)

	alter(t, path, fmt.Sprint("UPDATE onceward_operations SET facts = zeroblob(length(facts)) WHERE handle = ", op.Handle))
	_, err = j.Get(t.Context(), name)
	require.ErrorContains(t, err, "damaged")
}

// Get does not wait for writers, whatever it finds and wherever.
func TestGetDoesNotWaitForWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := sqlite.Open(path, sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	goOn(t, j, "in a block")
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("in a row", s))
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	_, err = j.Apply(t.Context(), begin("in the log", s))
	require.NoError(t, err)
	db := application(t, path)
	require.False(t, has(t, j, "none"))
	tx, err := db.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	for _, id := range []string{"in a block", "in a row", "in the log"} {
		op, err := j.Get(t.Context(), journal.Ref{ID: id})
		if assert.NoError(t, err, id) {
			assert.Equal(t, id, op.ID)
		}
	}
	_, err = j.Get(t.Context(), journal.Ref{ID: "none"})
	require.ErrorIs(t, err, journal.ErrNotFound)
}

// No caller gets the answer of another operation.
func TestGetOfAnotherAnswer(t *testing.T) {
	path, j, s := joined(t)
	for _, id := range []string{"order-1", "order-2"} {
		undelivered(t, j, s, id)
	}
	require.NoError(t, sqlite.Fold(j))
	alter(t, path, "UPDATE onceward_answers SET (answer, body) = (SELECT answer, body FROM onceward_answers WHERE handle = 2) WHERE handle = 1")
	_, err := j.Get(t.Context(), journal.Ref{ID: "order-1"})
	require.ErrorContains(t, err, "damaged")
	for _, newest := range []bool{false, true} {
		var damaged error
		for _, err := range j.List(t.Context(), journal.Filter{Before: 2, Newest: newest}) {
			damaged = err
		}
		require.ErrorContains(t, damaged, "damaged", newest)
	}
	assert.Equal(t, []int64{2}, handlesOf(t, j, journal.Filter{After: 1}))
}
