//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Nothing is recorded in files that were moved away.
func TestUncertainFilesThatWereMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Rename(path, path+".away"))
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, os.Rename(path+".away", path))
	_, err = j.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.ErrorIs(t, err, journal.ErrNotFound, "who was told that nothing was recorded was told the truth")
	result, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	assert.Equal(t, machine.Execute, result.Decision)
}

// Sessions that can't be started on a full disk leave no files.
func TestSessionsOnAFullDiskLeaveNoFiles(t *testing.T) {
	d := record(t, filepath.Join(t.TempDir(), "journal.db"))
	j := open(t, d.path)
	goOn(t, j, "before")
	d.fault.Store(failing(sqlite3.SQLITE_FULL, inWAL))
	for range 20 {
		_, err := j.Join(t.Context())
		require.ErrorContains(t, err, "the disk is full")
	}
	assert.Empty(t, sessionFiles(t, d.path))
	d.fault.Store(nil)
	goOn(t, j, "after")
}
