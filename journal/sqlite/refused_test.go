//go:build unix

package sqlite_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// refuse makes SQLite refuse one statement of the journal's, which leaves the rest of its transaction as it is, until
// stop is called.
func refuse(t *testing.T, path, what string) (stop func()) {
	t.Helper()
	other := anotherProcess(t, path)
	_, err := other.ExecContext(t.Context(), "PRAGMA busy_timeout=60000")
	require.NoError(t, err)
	_, err = other.ExecContext(t.Context(), "CREATE TRIGGER refuse BEFORE "+what+" BEGIN SELECT RAISE(ABORT, 'refused by the test'); END")
	require.NoError(t, err)
	return func() {
		_, err := other.ExecContext(t.Context(), "DROP TRIGGER refuse")
		require.NoError(t, err)
	}
}

func TestRefusedLogWriteIsNotAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	stop := refuse(t, path, "INSERT ON onceward_log")
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.ErrorContains(t, err, "refused by the test")
	stop()
	assert.False(t, has(t, j, "invoice-1"))
	result, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	assert.Equal(t, journal.Execute, result.Decision)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	assert.True(t, has(t, open(t, path), "invoice-1"))
}

func TestUnfoldableOperationStaysInTheLog(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]string{
		"the first block": "INSERT ON onceward_blocks WHEN new.first = 1",
		"the last block":  "INSERT ON onceward_blocks WHEN new.first > 16",
		"a row":           "INSERT ON onceward_operations",
		"an answer":       "INSERT ON onceward_answers",
	} {
		path := filepath.Join(t.TempDir(), "journal.db")
		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		var ids []string
		for n := range 20 {
			ids = append(ids, fmt.Sprint("invoice-", n))
			begun, err := j.Apply(t.Context(), begin(ids[n], s))
			require.NoError(t, err)
			ev := complete(begun.Operation, s)
			ev.Delivered = n != 10
			_, err = j.Apply(t.Context(), ev)
			require.NoError(t, err)
		}
		stop := refuse(t, path, what)
		for range 2 {
			require.ErrorContains(t, sqlite.Fold(j), "refused by the test", name)
		}
		require.ErrorContains(t, j.Close(), "refused by the test", name)
		stop()
		j = open(t, path)
		for range 2 {
			s, err = j.Join(t.Context())
			require.NoError(t, err)
			for _, id := range ids {
				result, err := j.Apply(t.Context(), begin(id, s))
				require.NoError(t, err, "%s: %s", name, id)
				assert.Equal(t, journal.Replay, result.Decision, "%s: %s", name, id)
			}
			assert.Empty(t, verify(t, j), name)
			require.NoError(t, sqlite.Fold(j))
		}
	}
}

// A dead session whose end can't be recorded is still dead.
func TestDeadSessionIsStillDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	died, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-1", died))
	require.NoError(t, err)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	sqlite.Kill(died)
	stop := refuse(t, path, "DELETE ON onceward_sessions")
	for range 2 {
		_, err = j.Claim(t.Context(), claim(s), 10)
		require.ErrorContains(t, err, "refused by the test")
	}
	stop()
	results, err := j.Claim(t.Context(), claim(s), 10)
	require.NoError(t, err)
	assert.Len(t, results, 1)
}

// If a failed rollback leaves a transaction open, the next commit rolls it back.
func TestTransactionThatARollbackLeftOpen(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for n := range 3 {
		require.NoError(t, sqlite.LeaveOpen(j))
		id := fmt.Sprint("invoice-", n)
		_, err = j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		assert.True(t, has(t, j, id))
	}
}

// An answer with a damaged body is an error, instead of an answer without a body.
func TestAnswerWithADamagedBody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	ev := complete(begun.Operation, s)
	ev.Delivered = false
	_, err = j.Apply(t.Context(), ev)
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	alter(t, path, "UPDATE onceward_answers SET body = CAST('not what was paid' AS BLOB)")
	j = open(t, path)
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.ErrorContains(t, err, "damaged")
	_, err = j.Get(t.Context(), begun.Operation.Ref)
	require.ErrorContains(t, err, "damaged")
	_, err = j.Apply(t.Context(), journal.Event{Kind: journal.EventResolve, Ref: begun.Operation.Ref, At: ev.At,
		Claim: begun.Operation.Claim, Resolution: journal.Executed, Answer: ev.Answer})
	require.ErrorContains(t, err, "damaged")
	require.NoError(t, j.Close())
	alter(t, path, "DELETE FROM onceward_answers")
	j = open(t, path)
	for kind, resolution := range map[journal.EventKind]journal.Resolution{journal.EventResolve: journal.Executed, journal.EventComplete: 0} {
		_, err = j.Apply(t.Context(), journal.Event{Kind: kind, Ref: begun.Operation.Ref, At: ev.At,
			Claim: begun.Operation.Claim, Resolution: resolution, Answer: ev.Answer})
		require.ErrorContains(t, err, "damaged", "no other answer takes the place of one that is lost")
	}
}

func TestUnreapableOperationStays(t *testing.T) {
	t.Parallel()
	for _, refused := range []string{
		"UPDATE ON onceward_operations", "DELETE ON onceward_operations", "UPDATE ON onceward_blocks", "DELETE ON onceward_blocks",
		"UPDATE ON onceward_answers", "DELETE ON onceward_answers", "INSERT ON onceward_removed", "UPDATE ON onceward_segments",
	} {
		t.Run(refused, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			j := open(t, path)
			ripe(t, j, 20)
			require.NoError(t, sqlite.Fold(j))
			stop := refuse(t, path, refused)
			reaped, err := reap(t, j, 100)
			if err != nil {
				require.ErrorContains(t, err, "refused by the test")
			}
			stop()
			assert.Empty(t, verify(t, j))
			n, again := reap(t, j, 100)
			require.NoError(t, again)
			assert.Equal(t, 21, reaped+n)
			assert.Empty(t, verify(t, j))
			if refused == "UPDATE ON onceward_operations" || refused == "UPDATE ON onceward_blocks" {
				require.Error(t, err, "it would not be wiped")
			}
		})
	}
}

// A segment that lost an operation is never spent.
func TestSegmentThatLostSomethingIsNotSpent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	ripe(t, j, sqlite.SegmentSize+100)
	require.NoError(t, j.Close())
	alter(t, path, "DELETE FROM onceward_blocks WHERE first = (SELECT min(first) FROM onceward_blocks)")
	j = open(t, path)
	var err error
	for n := 1; err == nil && n > 0; {
		n, err = reap(t, j, 2000)
	}
	require.ErrorContains(t, err, "damaged")
	assert.NotEmpty(t, verify(t, j))
}

// The log's record of the folded operations is believed only as far as its rows, or the contents elsewhere, confirm it.
// A record of fewer operations is not believed.
func TestLogWithAnOlderFoldPosition(t *testing.T) {
	path, to := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	require.NoError(t, j.Close())
	j = open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-2", s))
	require.NoError(t, err)
	for _, suffix := range []string{"", "-wal", "-sidecar"} {
		copyFile(t, path+suffix, to+suffix)
	}
	alter(t, to, "UPDATE onceward_log SET folded = 0, records = sealed_log(records, seq, last_at, jumped_at, least_margin, newest, 0, number)")
	j, err = sqlite.Open(to, sqlite.Options{})
	if err == nil {
		defer j.Close()
		_, err = j.Join(t.Context())
	}
	require.ErrorContains(t, err, "damaged")
}

// The operations that a transaction has enqueued are taken in by several commits. If one is refused, its caller gets an
// error, and the next call takes in the rest.
func TestRefusedWhileManyAreTakenIn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	tx, err := application(t, path).Begin()
	require.NoError(t, err)
	const many = 1500
	for i := range many {
		_, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue(fmt.Sprint("op-", i)))
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
	stop := refuse(t, path, "INSERT ON onceward_log")
	for range 2 {
		_, err = j.Get(t.Context(), journal.Ref{ID: "op-1"})
		require.ErrorContains(t, err, "refused by the test")
	}
	stop()
	assert.Len(t, operationsOf(t, j), many)
	require.Empty(t, verify(t, j))
}

// An unreadable request is not shown as an empty one.
func TestRequestWithADamagedBody(t *testing.T) {
	path, j, s := joined(t)
	ev := begin("invoice-1", s)
	ev.Intent.Request.Body = bytes.Repeat([]byte("compressed "), 1000)
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.Delivered = false // so that it has a row
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	for _, body := range []string{"CAST('not what was asked for' AS BLOB)", "NULL"} {
		alter(t, path, "UPDATE onceward_operations SET request_body = "+body)
		_, err = j.Apply(t.Context(), ev)
		require.ErrorContains(t, err, "damaged", body)
		_, err = j.Get(t.Context(), ev.Ref)
		require.ErrorContains(t, err, "damaged", body)
	}
}

// A reap does not report operations that it could not reap, whatever others record meanwhile.
func TestReapThatIsRefusedBesideOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	ripe(t, j, 100) // few enough to go in one commit
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	stop := refuse(t, path, "INSERT ON onceward_operations WHEN new.tombstone = 1") // this statement comes first
	var stopped atomic.Bool
	var busy sync.WaitGroup
	for n := range 8 {
		busy.Go(func() {
			for i := 0; !stopped.Load(); i++ {
				_, err := j.Apply(t.Context(), generate(fmt.Sprint("busy-", n, "-", i), s))
				assert.NoError(t, err)
			}
		})
	}
	for range 20 {
		n, err := reap(t, j, 1000)
		assert.ErrorContains(t, err, "refused by the test")
		assert.Zero(t, n)
	}
	stopped.Store(true)
	busy.Wait()
	stop()
	n, err := reap(t, j, 1000)
	require.NoError(t, err)
	assert.Equal(t, 101, n)
}

func TestAdoptAsWithAFailedCommit(t *testing.T) {
	_, clone := cloned(t)
	j, err := sqlite.Open(clone, sqlite.Options{Existing: true})
	require.NoError(t, err)
	defer j.Close()
	stop := refuse(t, clone, "INSERT ON onceward_log")
	require.ErrorContains(t, j.AdoptAs(t.Context(), "staging"), "refused by the test")
	stop()
	_, err = sqlite.Open(clone, sqlite.Options{Deployment: "staging"})
	require.ErrorIs(t, err, sqlite.ErrDeployment)
}
