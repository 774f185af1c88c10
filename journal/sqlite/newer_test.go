package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// Fields that a newer release has recorded survive a write by this one.
func TestFieldsOfANewerReleaseAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	park := complete(begun.Operation, s)
	park.Kind, park.Answer = journal.EventPark, nil
	_, err = j.Apply(t.Context(), park)
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())

	newer := []byte{0x80, 0x08, 2, 'o', 'n'} // tag 1024
	require.NoError(t, sqlite.Change(path, begun.Operation.Ref, func(op *journal.Operation) { op.Newer = newer }))
	j = open(t, path)
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	taken, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.Equal(t, journal.Execute, taken.Decision)
	_, err = j.Apply(t.Context(), complete(taken.Operation, s))
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	op, err := open(t, path).Get(t.Context(), begun.Operation.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StateCompleted, op.State)
	assert.Equal(t, newer, op.Newer)
}
