package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/journal/sqlite/internal/checkpoint"
)

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// The journal leaves the checkpoints to an external checkpointer.
func TestExternalCheckpointerDoesItsWork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	before := sizeOf(t, path)
	j, err := sqlite.Open(path, sqlite.Options{ExternalCheckpointer: true})
	require.NoError(t, err)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	others(t, j, s, "a")
	others(t, j, s, "b")
	require.NoError(t, s.End(t.Context()))
	assert.Equal(t, before, sizeOf(t, path))
	require.NoError(t, j.Close())
	assert.Equal(t, before, sizeOf(t, path), "nor does Close move anything")
	assert.Greater(t, sizeOf(t, path+"-wal"), int64(1<<20))

	// The other program does its work.
	other := anotherProcess(t, path)
	var busy, frames, moved int
	require.NoError(t, other.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved))
	assert.Zero(t, busy)
	assert.Greater(t, sizeOf(t, path), before)
	j = open(t, path)
	require.Empty(t, verify(t, j))
	for i := range manyOthers {
		_, err := j.Get(t.Context(), journal.Ref{ID: fmt.Sprint("b-", i)})
		require.NoError(t, err)
	}
}

func TestAFileThatLitestreamWasAtFirstIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	alter(t, path, "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER); CREATE TABLE _litestream_lock (id INTEGER)")
	j := open(t, path)
	goOn(t, j, "operation")
	require.Empty(t, verify(t, j))
}

// A file with another page size keeps it.
func TestFileWithOtherPagesKeepsThem(t *testing.T) {
	for name, size := range map[string]int{"SQLite's default": 4096, "ours": 4096, "large ones": 65536} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			if name != "ours" {
				alter(t, path, fmt.Sprintf("PRAGMA page_size=%d; CREATE TABLE _litestream_lock (id INTEGER)", size))
			}
			j := open(t, path)
			goOn(t, j, "operation")
			require.Empty(t, verify(t, j))
			var is int
			require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), "PRAGMA page_size").Scan(&is))
			assert.Equal(t, size, is)
		})
	}
}

// The WAL is cut once nothing keeps it from starting over any more.
func TestWALIsCutAfterItWasKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	large := func(name string) {
		t.Helper()
		sideBySide(128, func(i int) {
			ev := generate(fmt.Sprint(name, "-", i), s)
			ev.Intent.Request.Body = noise(128 << 10)
			_, err := j.Apply(t.Context(), ev)
			assert.NoError(t, err)
		})
	}
	large("before")
	other := anotherProcess(t, path)
	_, err = other.ExecContext(t.Context(), "BEGIN")
	require.NoError(t, err)
	var n int
	require.NoError(t, other.QueryRowContext(t.Context(), "SELECT count(*) FROM onceward_head").Scan(&n))
	for i := 0; sizeOf(t, path+"-wal") < checkpoint.MaxWAL+checkpoint.MaxWAL/2; i++ {
		require.Less(t, i, 100, "an open transaction keeps the WAL from starting over")
		large(fmt.Sprint("held-", i))
	}
	_, err = other.ExecContext(t.Context(), "COMMIT")
	require.NoError(t, err)
	for i := 0; sizeOf(t, path+"-wal") > checkpoint.MaxWAL; i++ {
		require.Less(t, i, 100, "it starts over and is cut")
		large(fmt.Sprint("after-", i))
	}
}

// If another program moves the WAL, an Open that makes the journal does not move it either.
func TestOpenLeavesTheWALToItsCheckpointer(t *testing.T) {
	for _, external := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "journal.db")
		j, err := sqlite.Open(path, sqlite.Options{ExternalCheckpointer: external})
		require.NoError(t, err)
		info, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		assert.Equal(t, external, info.Size() > 100<<10, "%d bytes", info.Size())
		require.NoError(t, j.Close())
	}
}
