package sqlite_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// sideBySide runs do n times, in 64 goroutines.
func sideBySide(n int, do func(i int)) {
	var wg sync.WaitGroup
	for first := range 64 {
		wg.Go(func() {
			for i := first; i < n; i += 64 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// anotherProcess is a connection that belongs to no journal of this process.
func anotherProcess(t *testing.T, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(); _ = db.Close() })
	return c
}

func TestTheWALStaysBoundedUnderConstantLoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	var loaded atomic.Pointer[sqlite.Journal]
	j, err := sqlite.Open(path, sqlite.Options{Committed: func(int, time.Duration) {
		if j := loaded.Load(); j != nil {
			sqlite.Checkpointed(j) // otherwise the WAL grows for as long as the checkpointer is held up
		}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	loaded.Store(j)
	sideBySide(10_000, func(i int) {
		begun, err := j.Apply(t.Context(), generate(fmt.Sprint("op-", i), s))
		if assert.NoError(t, err) {
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			assert.NoError(t, err)
		}
	})
	loaded.Store(nil)
	info, err := os.Stat(path + "-wal")
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(20<<20))
	assert.Positive(t, info.Size())
}

// A commit waits for its turn, and then says what blocked it.
func TestTurnOfACommitThatWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) {
		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		other := anotherProcess(t, path)
		_, err = other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), begin("invoice-1", s))
		require.ErrorContains(t, err, "another process has kept the file locked")
		_, err = j.Get(t.Context(), journal.Ref{ID: "by name"})
		require.Error(t, err, "who is not found by name is asked of the writer")

		_, err = other.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		result, err := j.Apply(t.Context(), begin("invoice-1", s))
		require.NoError(t, err, "it goes on once the fault is gone")
		assert.Equal(t, machine.Execute, result.Decision)
	})
}
