//go:build unix

package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// The writes of application transactions are moved into the file without any commit of the journal.
func TestTransactionsWALIsMoved(t *testing.T) {
	path, j, _ := joined(t)
	alter(t, path, "CREATE TABLE notes (note BLOB)")
	before := sizeOf(t, path)
	for _, bytes := range []int{4 << 20, 1} {
		tx, err := j.BeginSQL(t.Context())
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "INSERT INTO notes VALUES (zeroblob(?))", bytes)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
	}
	until(t, func() bool { return sizeOf(t, path) > before+4<<20-1 })
}

// The sidecar does not take over a damaged row of the log.
func TestSidecarBesideADamagedLog(t *testing.T) {
	path, j, s := joined(t)
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.NoError(t, sqlite.Mark(j))
	before := named(t, path)
	alter(t, path, "UPDATE onceward_head SET number = number + 1000")
	require.ErrorContains(t, sqlite.Mark(j), "damaged")
	assert.Equal(t, before, named(t, path))
}

// The sidecar follows while commits come without a pause.
func TestSidecarWhileCommitsCome(t *testing.T) {
	t.Cleanup(sqlite.MarkAfter(100 * time.Millisecond))
	path, j, s := joined(t)
	require.NoError(t, sqlite.Mark(j))
	apply := func(n int) {
		_, err := j.Apply(t.Context(), generate(fmt.Sprint("invoice-", n), s))
		require.NoError(t, err)
	}
	apply(-1)
	first := latest(t, path)
	for n := 0; len(named(t, path)) < len(first) || len(named(t, path)) == len(first) && named(t, path) <= first; n++ {
		require.Less(t, n, 100_000)
		apply(n)
	}
}
