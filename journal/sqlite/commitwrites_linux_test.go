package sqlite_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal/sqlite/internal/vfs"
)

// walWrites counts the writes to a journal's WAL and its syncs. It does both.
type walWrites struct {
	path          string
	writes, syncs atomic.Int64
	synced        atomic.Int64 // the writes before the last sync
}

func (w *walWrites) watches(name string) bool { return name == w.path+"-wal" }
func (w *walWrites) opened(uintptr, string)   {}
func (w *walWrites) closed(uintptr)           {}
func (w *walWrites) write(_ string, _ int64, _ []byte, do func() int32) int32 {
	w.writes.Add(1)
	return do()
}
func (w *walWrites) truncate(_ string, _ int64, do func() int32) int32 { return do() }
func (w *walWrites) sync(uintptr, string) int32 {
	w.syncs.Add(1)
	w.synced.Store(w.writes.Load())
	return sqlite3.SQLITE_OK
}
func (w *walWrites) remove(_ string, do func() int32) int32 { return do() }

// All frames of a commit come to the WAL by one write, and one sync makes them durable.
func TestCommitIsOneWriteAndOneSync(t *testing.T) {
	w := &walWrites{path: filepath.Join(t.TempDir(), "journal.db")}
	t.Cleanup(watch(w))
	j := open(t, w.path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for i := range 5 {
		w.writes.Store(0)
		w.syncs.Store(0)
		ev := begin(fmt.Sprint("charge-", i), s)
		ev.Intent.Request.Body = make([]byte, 40_000) // several frames
		_, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		assert.EqualValues(t, 1, w.writes.Load())
		assert.EqualValues(t, 1, w.syncs.Load())
	}
}

// So it is for a transaction of the application's, with the receipt of a request.
func TestTransactionIsOneWriteAndOneSync(t *testing.T) {
	w := &walWrites{path: filepath.Join(t.TempDir(), "journal.db")}
	t.Cleanup(watch(w))
	j := open(t, w.path)
	require.NoError(t, j.MakeReceipts(t.Context(), "keys"))
	serve(t, j, "key-0") // the first sync of a connection is SQLite's own
	for i := range 5 {
		w.writes.Store(0)
		w.syncs.Store(0)
		serve(t, j, fmt.Sprint("key-", i+1))
		assert.EqualValues(t, 1, w.writes.Load())
		assert.EqualValues(t, 1, w.syncs.Load())
		assert.EqualValues(t, 1, w.synced.Load())
	}
}

// The frames of a commit without a sync would not be in the WAL when SQLite publishes it. A handler that ends its transaction by
// SQL could otherwise turn syncs off, and a full disk would lose its commit and damage the journal.
func TestConnectionOfAJournalKeepsItsSyncs(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "CREATE TABLE notes (note TEXT)")
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "COMMIT")
	require.NoError(t, err)
	for _, pragma := range []string{"synchronous=OFF", "synchronous=0", "main.synchronous(normal)", "SYNCHRONOUS = 'Off'", "synchronous=-2", "synchronous=6"} {
		_, err = tx.ExecContext(t.Context(), "PRAGMA "+pragma)
		assert.ErrorContains(t, err, "keeps synchronous=FULL", pragma)
	}
	for _, pragma := range []string{"synchronous=EXTRA", "synchronous=Full", "cache_size=100"} {
		_, err = tx.ExecContext(t.Context(), "PRAGMA "+pragma)
		assert.NoError(t, err, pragma)
	}
	var level int
	require.NoError(t, tx.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level))
	assert.Equal(t, 2, level)
	_ = tx.Rollback()
}

// spill begins a transaction in a new file, on a connection that writes as the journal's writer does. It writes more rows than
// SQLite's cache holds, and the disk is full afterwards.
func spill(t *testing.T) (d *full, path string, c *sql.Conn) {
	path = filepath.Join(t.TempDir(), "data.db")
	d = &full{careless: careless{filepath.Dir(path)}}
	d.left.Store(1 << 40)
	t.Cleanup(watch(d))
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(0)"+vfs.Parameter())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	c, err = db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	for _, query := range []string{"CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT UNIQUE)",
		"PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA cache_size=5", "BEGIN IMMEDIATE"} {
		_, err = c.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	for i := range 3 {
		_, err = c.ExecContext(t.Context(), "INSERT INTO rows VALUES (?, ?)", i, strings.Repeat(fmt.Sprint(i), 5000))
		require.NoError(t, err)
	}
	d.left.Store(0)
	return d, path, c
}

// whole checks that there are so many rows, and that the file is sound, as another process sees it.
func whole(t *testing.T, path string, rows int) {
	t.Helper()
	other := anotherProcess(t, path)
	for query, want := range map[string]string{"PRAGMA integrity_check": "ok", "SELECT count(*) FROM rows": fmt.Sprint(rows)} {
		var v string
		require.NoError(t, other.QueryRowContext(t.Context(), query).Scan(&v))
		assert.Equal(t, want, v)
	}
}

// A full disk may undo a statement that reads, and leave its transaction open. Its earlier writes are not lost.
func TestFullDiskInAReadLosesNothingOfTheTransaction(t *testing.T) {
	d, path, c := spill(t)
	_, err := c.ExecContext(t.Context(), "UPDATE rows SET body = body || 'x'")
	require.ErrorContains(t, err, "full")
	d.left.Store(1 << 40)
	_, err = c.ExecContext(t.Context(), "COMMIT")
	require.NoError(t, err)
	whole(t, path, 3)
}

// A rollback on a full disk leaves nothing behind that comes to the WAL later, in place of another process's commit.
func TestRollbackOnAFullDiskLeavesItsPlaceInTheWALToOthers(t *testing.T) {
	d, path, c := spill(t)
	_, err := c.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	d.left.Store(1 << 40)
	_, err = anotherProcess(t, path).ExecContext(t.Context(), "INSERT INTO rows VALUES (100, ?)", strings.Repeat("another", 5000))
	require.NoError(t, err)
	_, err = c.ExecContext(t.Context(), "INSERT INTO rows VALUES (101, 'after it')")
	require.NoError(t, err)
	whole(t, path, 2)
}

// refusing is a disk that is full for one write.
type refusing struct {
	careless
	next atomic.Bool
}

func (d *refusing) write(_ string, _ int64, _ []byte, do func() int32) int32 {
	if d.next.Swap(false) {
		return sqlite3.SQLITE_FULL
	}
	return do()
}

// A commit that failed since the disk was full is not in the WAL afterwards, although the disk has room again. A recovery would
// make it a success.
func TestFailedCommitIsNotRecovered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.db")
	d := &refusing{careless: careless{filepath.Dir(path)}}
	t.Cleanup(watch(d))
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(0)"+vfs.Parameter())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	_, err = db.ExecContext(t.Context(), "CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT UNIQUE)")
	require.NoError(t, err)
	d.next.Store(true)
	// The rows need new pages, so the first page changes, and the rollback reads it in the WAL.
	_, err = db.ExecContext(t.Context(), "INSERT INTO rows VALUES (1, ?)", strings.Repeat("failed", 5000))
	require.ErrorContains(t, err, "full")
	require.False(t, d.next.Load())

	killed := filepath.Join(t.TempDir(), "data.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(killed+suffix, data, 0o600))
	}
	whole(t, killed, 0)
	whole(t, path, 0)
}
