//go:build unix

package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// If the log can't be shortened, nothing more is recorded in it.
func TestLogThatCantBeShortened(t *testing.T) {
	t.Parallel()
	path, j, _ := joined(t)
	require.NoError(t, j.Close())
	j = open(t, path)
	stop := refuse(t, path, "DELETE ON onceward_log")
	now := time.Now()
	var err error
	for n := 0; err == nil; n++ {
		require.LessOrEqual(t, n, sqlite.KeepRows)
		err = j.ResetClock(t.Context(), now)
	}
	require.ErrorContains(t, err, "refused by the test")
	assert.LessOrEqual(t, number(t, path, "SELECT count(*) FROM onceward_log"), sqlite.KeepRows)
	stop()
	goOn(t, j, "invoice-1")
	assert.Less(t, number(t, path, "SELECT count(*) FROM onceward_log"), sqlite.KeepRows)
	assert.Empty(t, verify(t, j))
}

// The latest time that no commit has written survives a Close.
func TestLatestTimeOutlastsAClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	require.NoError(t, j.Close())
	j = open(t, path)
	now := time.Now().Truncate(time.Millisecond).UTC()
	later := now.Add(30 * time.Minute)
	require.Equal(t, later, seenAt(t, j, later).Last)
	require.NoError(t, j.Close())
	assert.Equal(t, later, seenAt(t, open(t, path), now).Last)
}
