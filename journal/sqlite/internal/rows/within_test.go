//go:build unix

package rows_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

func enqueue(id string, s machine.Session) machine.Event {
	ev := begin(id, s)
	ev.Kind, ev.Session, ev.Intent.Naming = machine.EventEnqueue, "", journal.Named
	return ev
}

// If SQLite ends a transaction without being asked, neither the journal nor database/sql commits what follows.
func TestTransactionThatSQLiteEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, s := joined(t, path)
	execute(t, path, "CREATE TABLE orders (id TEXT PRIMARY KEY ON CONFLICT ROLLBACK); INSERT INTO orders VALUES ('a')")
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	theirs := tx.Driver().(*sql.Tx)
	_, err = theirs.Exec("INSERT INTO orders VALUES ('a')")
	require.Error(t, err)
	_, err = j.EnqueueTx(t.Context(), tx, enqueue("a", s))
	require.ErrorIs(t, err, journal.ErrTxAborted)
	_, err = theirs.Exec("INSERT INTO orders VALUES ('b')")
	require.Error(t, err)
	require.ErrorIs(t, tx.Commit(t.Context()), journal.ErrTxAborted)
	_, err = j.Get(t.Context(), journal.Ref{ID: "a"})
	require.ErrorIs(t, err, journal.ErrNotFound)
	_, err = j.Apply(t.Context(), begin("next", s))
	require.NoError(t, err, "it has given back its turn")
}

// A turn that is waited for ends with its caller's context, and an open transaction with its own.
func TestTurnEndsWithContexts(t *testing.T) {
	j, s := joined(t, filepath.Join(t.TempDir(), "journal.db"))
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	waiting, end := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := j.BeginTx(waiting)
		over <- err
	}()
	end()
	require.ErrorIs(t, <-over, context.Canceled)
	require.NoError(t, tx.Rollback(t.Context()))

	own, end := context.WithCancel(t.Context())
	_, err = j.BeginTx(own)
	require.NoError(t, err)
	end()
	_, err = j.Apply(t.Context(), begin("next", s))
	require.NoError(t, err)
}

// A session that another process took for dead is lost, even if this process has written in a transaction of the application's since.
func TestLostSessionBesideEnqueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, s := joined(t, path)
	_, err := j.Apply(t.Context(), begin("first", s))
	require.NoError(t, err)
	execute(t, path, "DELETE FROM onceward_sessions")
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	_, err = j.EnqueueTx(t.Context(), tx, enqueue("enqueued", s))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, j.Flush(t.Context()))
	_, err = j.Apply(t.Context(), begin("second", s))
	assert.ErrorIs(t, err, journal.ErrSessionLost)
	assert.True(t, s.Lost())
}

// After each transaction a process pauses for others, for as long as one has written recently.
func TestPauseWhereOthersWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) {
		j, s := joined(t, path)
		other, of := joined(t, path)
		pauses := func() bool {
			t.Helper()
			before := time.Now()
			require.NoError(t, j.Flush(t.Context()))
			return time.Since(before) > 0
		}
		writes := func(id string) {
			t.Helper()
			_, err := other.Apply(t.Context(), begin(id, of))
			require.NoError(t, err)
		}
		<-time.After(time.Second) // virtual
		_ = pauses()              // for the session that has started
		<-time.After(time.Second)
		_ = pauses()
		assert.False(t, pauses(), "no other process has written")
		writes("a")
		for range 3 {
			assert.True(t, pauses(), "another has")
		}
		<-time.After(time.Second)
		_ = pauses()
		assert.False(t, pauses(), "that was long ago")
		writes("b")
		assert.True(t, pauses(), "it has again")
		require.NoError(t, s.End(t.Context()))
		require.NoError(t, j.Close())
		require.NoError(t, of.End(t.Context()))
		require.NoError(t, other.Close())
	})
}
