//go:build unix

package sqlite_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// An epoch ends as the WAL grows. An older file that is put in place of an open journal's is recognised by its epoch.
func TestEpochEndsAsTheWALGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	epoch := func() (epoch []byte) {
		require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), "SELECT epoch FROM onceward_journal").Scan(&epoch))
		return epoch
	}
	before := epoch()
	for i := 0; i < 10 && bytes.Equal(before, epoch()); i++ {
		others(t, j, s, fmt.Sprint("many-", i))
	}
	assert.NotEqual(t, before, epoch())
}

// An epoch also ends as transactions of the application grow the WAL.
func TestEpochEndsAsTransactionsGrowTheWAL(t *testing.T) {
	path, j, _ := joined(t)
	alter(t, path, "CREATE TABLE notes (note BLOB)")
	epoch := func() []byte { return one[[]byte](t, anotherProcess(t, path), "SELECT epoch FROM onceward_journal") }
	writes := func(bytes int) {
		tx, err := j.BeginSQL(t.Context())
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "INSERT INTO notes VALUES (zeroblob(?))", bytes)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
	}
	goOn(t, j, "invoice-1")
	before := epoch()
	goOn(t, j, "invoice-2")
	require.Equal(t, before, epoch())
	writes(10 << 20)
	writes(1) // this finds the WAL long
	goOn(t, j, "invoice-3")
	assert.NotEqual(t, before, epoch())
}

// If a commit that should begin an epoch fails, or can't begin it, the next commit begins it.
func TestEpochAfterACommitThatFailed(t *testing.T) {
	t.Parallel()
	for _, refused := range []string{"INSERT ON onceward_log", "UPDATE ON onceward_journal"} {
		path, j, s := joined(t)
		alter(t, path, "CREATE TABLE notes (note BLOB)")
		epoch := func() []byte { return one[[]byte](t, anotherProcess(t, path), "SELECT epoch FROM onceward_journal") }
		goOn(t, j, "invoice-1")
		before := epoch()
		writeNote(t, j, 10<<20)
		writeNote(t, j, 1) // this finds the WAL long
		stop := refuse(t, path, refused)
		_, err := j.Apply(t.Context(), begin("invoice-2", s))
		require.ErrorContains(t, err, "refused by the test", refused)
		_, err = j.Apply(t.Context(), journal.Event{Kind: journal.EventClock, At: time.Now().Add(2 * time.Hour)})
		require.ErrorContains(t, err, "refused by the test", refused)
		stop()
		require.Equal(t, before, epoch(), refused)
		goOn(t, j, "invoice-2")
		assert.NotEqual(t, before, epoch(), refused)
	}
}

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
	alter(t, path, "UPDATE onceward_log SET number = number + 1000 WHERE seq = (SELECT max(seq) FROM onceward_log)")
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
