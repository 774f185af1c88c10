package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	j, err := sqlite.Open(path, sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
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
	assert.Equal(t, journal.Execute, result.Decision)
}

func TestWritesOfAnotherProcessAreSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)

	other := anotherProcess(t, path)
	ahead := time.Now().Add(time.Minute).UnixMilli()
	require.NoError(t, sqlite.Fold(j)) // so that the operation has a row
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO onceward_log SELECT seq + 1, %d, jumped_at, least_margin, newest, folded, number + 1,
			sealed_log(x'00000000', seq + 1, %[1]d, jumped_at, least_margin, newest, folded, number + 1) FROM onceward_log ORDER BY seq DESC LIMIT 1`, ahead),
		"DELETE FROM onceward_sessions",
	} {
		_, err = other.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Change(path, begun.Operation.Ref, func(op *journal.Operation) {
		op.State, op.Holder, op.WakeAt = journal.StatePending, "", time.UnixMilli(0)
	}))
	park := complete(begun.Operation, s)
	park.Kind, park.Answer = journal.EventPark, nil
	result, err := j.Apply(t.Context(), park)
	require.NoError(t, err)
	assert.Equal(t, journal.Stale, result.Decision, "it holds the operation no more")
	assert.Equal(t, ahead, result.Last.UnixMilli())

	assert.False(t, s.Lost())
	_, err = j.Apply(t.Context(), begin("invoice-2", s))
	require.ErrorIs(t, err, journal.ErrSessionLost)
	assert.True(t, s.Lost(), "it was taken over")
	assert.NoError(t, s.End(t.Context()))
}

func TestSegmentsFindAndReapUnindexedNames(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	const many = 3*sqlite.SegmentSize + 100
	handles := make([]int64, many)
	sideBySide(many, func(i int) {
		begun, err := j.Apply(t.Context(), generate(fmt.Sprint("op-", i), s))
		if assert.NoError(t, err) {
			handles[i] = begun.Operation.Handle
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			assert.NoError(t, err)
		}
	})
	named, err := j.Apply(t.Context(), begin("named", s))
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(named.Operation, s))
	require.NoError(t, err)
	for i := 0; i < many; i += 97 {
		op, err := j.Get(t.Context(), journal.Ref{ID: fmt.Sprint("op-", i)})
		require.NoError(t, err)
		assert.Equal(t, handles[i], op.Handle)
		// An operation that carries the same key does not begin beside it either.
		again := begin(op.ID, s)
		again.Intent.Naming = journal.Carried
		result, err := j.Apply(t.Context(), again)
		require.NoError(t, err)
		assert.Equal(t, journal.Replay, result.Decision)
	}

	reap := journal.Event{Kind: journal.EventReap, At: time.Now().Add(48 * time.Hour)}
	seenAt(t, j, reap.At.Add(-journal.Confirmation)) // so that now is no jump
	n, err := j.Reap(t.Context(), reap, 2000)
	require.NoError(t, err)
	assert.Equal(t, 2000, n)
	n, err = j.Reap(t.Context(), reap, many)
	require.NoError(t, err)
	assert.Equal(t, many+1-2000, n)
	n, err = j.Reap(t.Context(), reap, many)
	require.NoError(t, err)
	assert.Equal(t, 0, n)
	_, err = j.Get(t.Context(), journal.Ref{ID: "op-97"})
	require.ErrorIs(t, err, journal.ErrNotFound)
	op, err := j.Get(t.Context(), journal.Ref{ID: "named"})
	require.NoError(t, err)
	assert.True(t, op.Tombstone)

	var left int
	require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), "SELECT sum(length(hashes)) FROM onceward_segments").Scan(&left))
	assert.Equal(t, 3*4, left, "nothing is left to find in them")
}

func TestListsUseTheirIndices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	open(t, path)
	other := anotherProcess(t, path)
	for query, index := range map[string]string{
		"SELECT handle FROM onceward_operations WHERE (state = 1) AND (wake_at, handle) > (0, 0) ORDER BY wake_at, handle LIMIT 9": "onceward_operations_wake",
		"SELECT handle, facts FROM onceward_operations WHERE (state > 3 AND state = 4) AND handle > 0 ORDER BY handle LIMIT 9":     "onceward_operations_failed",
		"SELECT 1 FROM onceward_operations WHERE identified = 1 AND id = 'a' AND scope = '' AND parent = ''":                       "onceward_operations_identity",
	} {
		var id, parent, unused int
		var detail string
		require.NoError(t, other.QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN "+query).Scan(&id, &parent, &unused, &detail))
		assert.Contains(t, detail, index)
	}
}

// A caller that is refused again and again delays no other caller.
func TestTurnOfARepeatedlyRefusedCaller(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sqlite.Refuse(ctx, j)
	_, err = j.Apply(ctx, generate("generated", s))
	assert.NoError(t, err, "the batch that it waits in is never committed")
}
