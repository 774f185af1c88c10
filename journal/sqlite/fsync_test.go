//go:build unix

package sqlite_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal/sqlite"
)

// SQLite takes pages for moved before they are synced, if the WAL has later ones (wal.c, walCheckpoint). A sync that fails
// later loses them, since the kernel takes lost pages for written. Then only the WAL has them, and it must not start over.
func TestPagesThatASyncLostStayInTheWAL(t *testing.T) {
	t.Cleanup(sqlite.MarkNever())
	path := filepath.Join(t.TempDir(), "journal.db")
	d := record(t, path)
	opts := sqlite.Options{}
	j, err := sqlite.Open(path, opts)
	require.NoError(t, err)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	n := 0
	operations := func(count int) {
		for range count {
			n++
			ev := begin(fmt.Sprint(strings.Repeat("long-", 10), n, "-7"), s)
			ev.Intent.Request.Body = bodyOf(ev.Ref.ID)
			_, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
			d.tell(func(known map[string]promise) { known[ev.Ref.ID] = promise{} })
			sqlite.Checkpointed(j) // so that no operation comes between
		}
	}
	var cuts []cut
	lose := func() {
		cuts = append(cuts, cut{len(d.events), loss{random: rand.New(rand.NewPCG(1, 0))}})
	}

	operations(10)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	reader, err := db.Conn(t.Context())
	require.NoError(t, err)
	_, err = reader.ExecContext(t.Context(), "BEGIN; SELECT count(*) FROM onceward_rows")
	require.NoError(t, err)
	operations(20) // a part of the WAL is moved, and not synced
	_, err = reader.ExecContext(t.Context(), "COMMIT")
	require.NoError(t, err)
	failed := 0
	fails := func(what diskDid, file string) int32 {
		if what == synced && file == "" && failed == 0 {
			failed++
			return sqlite3.SQLITE_IOERR_FSYNC
		}
		return sqlite3.SQLITE_OK
	}
	d.fault.Store(&fails)
	operations(20)
	require.Equal(t, 1, failed)
	operations(40)
	lose()
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, reader.Close())
	require.NoError(t, db.Close())
	require.NoError(t, j.Close())
	lose()

	j, err = sqlite.Open(path, opts)
	require.NoError(t, err)
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	operations(40)
	lose()
	require.NoError(t, j.Close())
	lose()
	assert.NoFileExists(t, path+"-wal", "it is moved again")
	d.stop()
	d.after(t, map[string]promise{}, cuts, func(c cut, err error) bool { return assert.NoError(t, err, "%s", c) })
}

// A commit whose sync failed may look like one that is recorded, once the process has ended. Commits after it do not depend
// on what the disk lacks of it.
func TestCommitsAfterOneWhoseSyncFailed(t *testing.T) {
	t.Cleanup(sqlite.MarkNever())
	path := filepath.Join(t.TempDir(), "journal.db")
	d := record(t, path)
	opts := sqlite.Options{ExternalCheckpointer: true} // Close leaves the WAL as a kill does
	var failing atomic.Bool
	fails := func(what diskDid, file string) int32 {
		if what == synced && failing.Load() {
			return sqlite3.SQLITE_IOERR_FSYNC
		}
		return sqlite3.SQLITE_OK
	}
	d.fault.Store(&fails)
	for life := range 2 {
		j, err := sqlite.Open(path, opts)
		require.NoError(t, err)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		for n := range 5 {
			ev := begin(fmt.Sprint("operation-", life, "-", n), s)
			ev.Intent.Request.Body = bodyOf(ev.Ref.ID)
			_, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
			d.tell(func(known map[string]promise) { known[ev.Ref.ID] = promise{} })
		}
		failing.Store(life == 0)
		_, err = j.Apply(t.Context(), begin(fmt.Sprint("fails-", life), s))
		require.Equal(t, life == 0, err != nil)
		_ = j.Close()
		failing.Store(false)
	}
	d.stop()
	lost := []cut{{len(d.events), loss{random: rand.New(rand.NewPCG(1, 0))}}}
	d.after(t, map[string]promise{}, lost, func(c cut, err error) bool { return assert.NoError(t, err, "%s", c) })
}
