//go:build unix

package sqlite_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/sqlite"
)

// moveWAL makes another process move the WAL into the file, and waits for other checkpoints. SQLite does not wait for
// them by itself (https://sqlite.org/c3ref/wal_checkpoint_v2.html).
func moveWAL(t *testing.T, path, mode string) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	until(t, func() bool {
		var busy, frames, moved int
		require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &frames, &moved))
		return busy == 0
	})
	require.NoError(t, db.Close())
}

// holdWAL makes another process read, which keeps the WAL from being moved until let is called.
func holdWAL(t *testing.T, path string) (let func()) {
	t.Helper()
	other := anotherProcess(t, path)
	_, err := other.ExecContext(t.Context(), "BEGIN")
	require.NoError(t, err)
	_ = one[int](t, other, "SELECT count(*) FROM onceward_head")
	return func() {
		_, err := other.ExecContext(t.Context(), "COMMIT")
		require.NoError(t, err)
	}
}

// writeNote makes a transaction of the application write that many bytes.
func writeNote(t *testing.T, j *sqlite.Journal, bytes int) {
	t.Helper()
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO notes VALUES (zeroblob(?))", bytes)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
}

// If the checkpointer can't move all of a long WAL, the next commit does, so that it starts over under constant load
// too. A short WAL costs no commit anything.
func TestWALThatIsLongIsMovedByACommit(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		grow  func(t *testing.T, path string, j *sqlite.Journal, s machine.Session)
		moved bool
	}{
		"long": {func(t *testing.T, path string, j *sqlite.Journal, s machine.Session) {
			for n := 0; sizeOf(t, path+"-wal") < 12<<20; n++ {
				ev := generate(fmt.Sprint("invoice-", n), s)
				ev.Intent.Request.Body = noise(256 << 10)
				_, err := j.Apply(t.Context(), ev)
				require.NoError(t, err)
			}
		}, true},
		"short": {func(t *testing.T, _ string, j *sqlite.Journal, _ machine.Session) {
			writeNote(t, j, 3<<20)
			writeNote(t, j, 1) // this finds the WAL long
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			j, err := sqlite.Open(path, sqlite.Options{})
			require.NoError(t, err)
			t.Cleanup(func() { _ = j.Close() })
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			alter(t, path, "CREATE TABLE notes (note BLOB)")
			let := holdWAL(t, path)
			row.grow(t, path, j, s)
			commit := sqlite.Hold(j)
			sqlite.Checkpointed(j)
			let()
			before := sizeOf(t, path)
			commit()
			require.NoError(t, sqlite.Flush(j)) // by the same commit, perhaps
			require.NoError(t, sqlite.Flush(j)) // after what follows it
			if after := sizeOf(t, path); row.moved {
				assert.Greater(t, after, before+8<<20)
			} else {
				assert.Equal(t, before, after)
			}
		})
	}
}

// writtenBefore is the number of pages that each new connection counts as written already.
var writtenBefore uint32

func writtenEntry(_ *libc.TLS, db, _, _ uintptr) int32 {
	tree := at[sqlite3.TBtree](at[sqlite3.TDb](at[sqlite3.Tsqlite3](db).FaDb).FpBt)
	pager := at[sqlite3.TPager](at[sqlite3.TBtShared](tree.FpBt).FpPager)
	pager.FaStat[sqlite3.SQLITE_DBSTATUS_CACHE_WRITE-sqlite3.SQLITE_DBSTATUS_CACHE_HIT] = writtenBefore
	return sqlite3.SQLITE_OK
}

// Epochs end, and the WAL is moved, however many pages were written. SQLite counts up to two billion pages, and begins
// again. No test runs beside this one, since its connections would count in the same way.
func TestWALAfterTwoBillionPages(t *testing.T) {
	tls := libc.NewTLS()
	defer tls.Close()
	writtenBefore = 1<<31 - 1000
	require.EqualValues(t, sqlite3.SQLITE_OK, sqlite3.Xsqlite3_auto_extension(tls, pointerTo[extensionEntry](writtenEntry)))
	defer sqlite3.Xsqlite3_cancel_auto_extension(tls, pointerTo[extensionEntry](writtenEntry))
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := sqlite.Open(path, sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for n := range 10 {
		before := one[[]byte](t, anotherProcess(t, path), "SELECT epoch FROM onceward_head")
		for i := range 20 { // some 32 pages each
			ev := generate(fmt.Sprint("invoice-", n, "-", i), s)
			ev.Intent.Request.Body = noise(256 << 10)
			_, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
		}
		assert.NotEqual(t, before, one[[]byte](t, anotherProcess(t, path), "SELECT epoch FROM onceward_head"), n)
	}
}

// A sidecar that can't be written is written later, without another commit. Without a commit, no sidecar is written.
func TestSidecarThatIsWrittenLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) {
		later := func(after time.Duration) {
			<-time.After(after) // virtual
			synctest.Wait()
		}
		j := open(t, path)
		goOn(t, j, "invoice-1")
		later(time.Minute + time.Second)
		require.Equal(t, latest(t, path), named(t, path))
		require.NoError(t, os.Rename(path+"-sidecar", path+"-away"))
		require.NoError(t, os.Mkdir(path+"-sidecar", 0o700))
		goOn(t, j, "invoice-2")
		later(time.Minute + time.Second)
		require.NoError(t, os.Remove(path+"-sidecar"))
		require.NoError(t, os.Rename(path+"-away", path+"-sidecar"))
		require.NotEqual(t, latest(t, path), named(t, path))
		later(time.Minute)
		assert.Equal(t, latest(t, path), named(t, path))

		require.NoError(t, os.Remove(path+"-sidecar"))
		require.NoError(t, sqlite.Flush(j)) // this has nothing to write
		later(time.Minute)
		assert.NoFileExists(t, path+"-sidecar")
		require.NoError(t, j.Close())
		assert.FileExists(t, path+"-sidecar")
	})
}

// The sidecar stays as it is while the log can't be read, and follows once it can be read again.
func TestSidecarBesideALogThatIsAway(t *testing.T) {
	t.Cleanup(sqlite.MarkNever())
	path := filepath.Join(t.TempDir(), "journal.db")
	leave(t, path)
	j := open(t, path)
	alter(t, path, "ALTER TABLE onceward_head RENAME TO away")
	before := named(t, path)
	require.ErrorContains(t, sqlite.Mark(j), "no such table")
	require.Equal(t, before, named(t, path))
	alter(t, path, "ALTER TABLE away RENAME TO onceward_head")
	goOn(t, j, "invoice-1")
	require.NoError(t, sqlite.Mark(j))
	assert.Equal(t, latest(t, path), named(t, path))
}

// The WAL is not moved into a file over which an older copy was written.
func TestWALIsNotMovedIntoAnOlderCopy(t *testing.T) {
	for name, bytes := range map[string]int{"beside the writer": 3 << 20, "by the writer": 10 << 20} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			leave(t, path)
			alter(t, path, "CREATE TABLE notes (note BLOB)")
			older, err := os.ReadFile(path)
			require.NoError(t, err)
			j := open(t, path)
			goOn(t, j, "invoice-1")
			moveWAL(t, path, "FULL")
			goOn(t, j, "invoice-2")
			let := holdWAL(t, path)
			writeNote(t, j, bytes)
			require.NoError(t, os.WriteFile(path, older, 0o600)) // the file is the same one
			let()
			if tx, err := j.BeginSQL(t.Context()); err == nil { // this finds the WAL long
				require.NoError(t, tx.Rollback())
			}
			sqlite.Checkpointed(j)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.True(t, string(older) == string(after), "it was changed")
			require.Error(t, j.Close())
		})
	}
}
