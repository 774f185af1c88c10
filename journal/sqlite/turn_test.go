//go:build unix

package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// A local step's transaction gets its turn beside many callers.
func TestTurnOfALocalStepBesideManyCallers(t *testing.T) {
	const callers, transactions = 64, 3
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	release := sqlite.Hold(j)
	before, err := j.Stats(t.Context())
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	t.Cleanup(func() { end(); busy.Wait() })
	for i := range callers {
		busy.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = j.Apply(ctx, begin(fmt.Sprint("op-", i, "-", n), s))
			}
		})
	}
	begun := make(chan *sql.Tx, transactions)
	for range transactions {
		busy.Go(func() {
			tx, err := j.BeginSQL(t.Context())
			assert.NoError(t, err)
			begun <- tx
		})
	}
	for sqlite.Queued(j) < callers || sqlite.Turns(j) < transactions {
		runtime.Gosched()
	}
	release()
	for i := range int64(transactions) {
		tx := <-begun
		stats, err := j.Stats(t.Context())
		require.NoError(t, err)
		assert.LessOrEqual(t, stats.Commits-before.Commits, i+1, "a commit for each before it, and the one that was under way")
		require.NoError(t, tx.Rollback())
	}
}

func TestCancelledTurnBlocksNoOther(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	release := sqlite.Hold(j)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := j.BeginSQL(ctx)
		left <- err
	}()
	for sqlite.Turns(j) == 0 {
		runtime.Gosched()
	}
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	release()
	goOn(t, j, "invoice-1")
	require.NoError(t, j.Close())
	_, err := j.BeginSQL(t.Context())
	require.Error(t, err)
}

func TestTheWALStaysBoundedBesideLocalSteps(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	alter(t, path, "CREATE TABLE notes (note BLOB)")
	for range 500 {
		sqlite.Checkpointed(j) // otherwise the WAL grows for as long as the checkpointer is held up
		tx, err := j.BeginSQL(t.Context())
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "INSERT INTO notes VALUES (zeroblob(65536))")
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
	}
	assert.Less(t, sizeOf(t, path+"-wal"), int64(20<<20))
	require.NoError(t, sound(t.Context(), j))
}
