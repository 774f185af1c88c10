package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// Reading the file alone, or the WAL, leaves no file open.
func TestStaleLooksLeaveNothingOpen(t *testing.T) {
	opened := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(all)
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	require.NoError(t, sqlite.Mark(j))
	k := hit(t)
	stale := k.put(t, k.older)
	before := opened()
	for range 64 {
		require.NoError(t, sqlite.Mark(j))
	}
	assert.Less(t, opened(), before+32)
	for range 64 {
		_, err := sqlite.Open(stale, sqlite.Options{})
		require.ErrorIs(t, err, journal.ErrRestored)
	}
	assert.Less(t, opened(), before+32)
}
