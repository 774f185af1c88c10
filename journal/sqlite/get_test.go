//go:build unix

package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// If a row does not match its sum, no caller gets its content.
func TestGetOfARowThatIsDamaged(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	park := complete(begun.Operation, s)
	park.Kind, park.Answer, park.Open, park.Due = machine.EventPark, nil, true, time.Now().Add(time.Hour)
	_, err = j.Apply(t.Context(), park)
	require.NoError(t, err)
	alter(t, path, "UPDATE onceward_rows SET wake_at = wake_at + 1")
	op, err := j.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.ErrorContains(t, err, "damaged")
	assert.Zero(t, op)
}

// Get does not wait for writers, whatever it finds and wherever.
func TestGetDoesNotWaitForWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "in a block")
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("in a row", s))
	require.NoError(t, err)
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
	alter(t, path, "UPDATE onceward_answers SET (head, body) = (SELECT head, body FROM onceward_answers WHERE handle = 2) WHERE handle = 1")
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
