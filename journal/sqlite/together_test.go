//go:build unix

package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// queued runs f in another goroutine once n others wait for the writer, and returns a channel for its error.
func queued(t *testing.T, j *sqlite.Journal, n int, f func() error) chan error {
	t.Helper()
	until(t, func() bool { return sqlite.Queued(j) == n })
	done := make(chan error, 1)
	go func() { done <- f() }()
	until(t, func() bool { return sqlite.Queued(j) == n+1 })
	return done
}

func commitsOf(t *testing.T, j *sqlite.Journal) int64 {
	t.Helper()
	stats, err := j.Stats(t.Context())
	require.NoError(t, err)
	return stats.Commits
}

// An event whose caller left before its turn is not recorded.
func TestEventOfACancelledCaller(t *testing.T) {
	_, j, s := joined(t)
	release := sqlite.Hold(j)
	ctx, cancel := context.WithCancel(t.Context())
	left := queued(t, j, 0, func() error {
		_, err := j.Apply(ctx, begin("invoice-1", s))
		return err
	})
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	release()
	assert.False(t, has(t, j, "invoice-1"))
}

// A delivery waits beyond a failed commit, and is applied once.
func TestDeliveryIsWrittenAfterAFailedCommit(t *testing.T) {
	_, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	doubt := complete(begun.Operation, s)
	doubt.Kind, doubt.Answer, doubt.Open, doubt.Delivered = machine.EventMarkUnknown, nil, true, false
	_, err = j.Apply(t.Context(), doubt)
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventDeliver, Ref: doubt.Ref, At: time.Now()})
	require.NoError(t, err)
	sqlite.FailCommit(j)
	require.NoError(t, sqlite.Flush(j))
	op, err := j.Get(t.Context(), doubt.Ref)
	require.NoError(t, err)
	require.True(t, op.Delivered)
	_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventResolve, Ref: op.Ref, At: time.Now(),
		Resolution: journal.Executed, Generation: op.Generation, Claim: op.Claim, Answer: &journal.Answer{Status: 201}})
	require.NoError(t, err)
	require.NoError(t, sqlite.Flush(j))
	op, err = j.Get(t.Context(), doubt.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StateCompleted, op.State)
	assert.False(t, op.Delivered, "it was of the outcome before")
}

// An operation is found by its name if the event has another operation's handle.
func TestOperationWithAnotherHandle(t *testing.T) {
	_, j, s := joined(t)
	var ops []journal.Operation
	for _, id := range []string{"invoice-1", "invoice-2"} {
		begun, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		ops = append(ops, begun.Operation)
	}
	for range 2 {
		ev := complete(ops[0], s)
		ev.Handle = ops[1].Handle
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		assert.Equal(t, "invoice-1", result.Operation.ID)
	}
}

// A name with a damaged row is not executed, though its key is unused.
func TestNameWhoseRowIsDamaged(t *testing.T) {
	path, j, s := joined(t)
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	alter(t, path, "UPDATE onceward_rows SET record = x'01'")
	ev := begin("invoice-1", s)
	ev.Intent.Alias = aliasOf("invoice-1")
	_, err = j.Apply(t.Context(), ev)
	require.ErrorContains(t, err, "damaged")
}

// A replay says when its operation last changed.
func TestReplayHasTheTimeOfTheChange(t *testing.T) {
	_, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	completed, err := j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	ev := begin("invoice-1", s)
	ev.At = ev.At.Add(time.Minute)
	again, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	assert.Equal(t, completed.Operation.UpdatedAt, again.Operation.UpdatedAt)
}

func TestSessionThatEndedIsNotLost(t *testing.T) {
	_, j, s := joined(t)
	other, err := j.Join(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, s.End(t.Context()), "twice is harmless")
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.ErrorIs(t, err, journal.ErrSessionLost)
	require.NoError(t, j.Close())
	assert.False(t, s.Lost())
	assert.True(t, other.Lost(), "it was not ended")
}

// If a journal can't be written as it is closed, Close returns an error, and the journal is closed. A request that waits
// has the error, too.
func TestCloseOfAnUnwritableJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	other := anotherProcess(t, path)
	synctest.Test(t, func(t *testing.T) { // no test waits for the busy timeout
		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		_, err = other.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		require.NoError(t, err)
		asked := make(chan error, 1)
		go func() {
			_, err := j.Apply(t.Context(), begin("invoice-1", s))
			asked <- err
		}()
		synctest.Wait()
		require.ErrorContains(t, j.Close(), "another process has kept the file locked")
		require.ErrorContains(t, <-asked, "another process has kept the file locked")
		require.ErrorIs(t, j.Close(), journal.ErrClosed)
		_, err = other.ExecContext(context.Background(), "ROLLBACK")
		require.NoError(t, err)
	})
	j := open(t, path)
	assert.False(t, has(t, j, "invoice-1"))
	assert.Empty(t, verify(t, j))
}

// Of very many deliveries that can't be recorded, one returns an error. None is lost.
func TestDeliveriesThatCantBeRecorded(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.Delivered = false
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	deliver := func() (failed int) {
		for range 1024 {
			result, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventDeliver, Ref: done.Ref, At: time.Now(), Outcome: journal.StateCompleted})
			if err != nil {
				require.ErrorContains(t, err, "refused by the test")
				failed++
				continue
			}
			require.Equal(t, machine.Recorded, result.Decision)
		}
		return failed
	}
	stop := refuse(t, path, "UPDATE ON onceward_head")
	assert.Equal(t, 1, deliver())
	stop()
	assert.Zero(t, deliver())
	require.NoError(t, sqlite.Flush(j))
	op, err := j.Get(t.Context(), done.Ref)
	require.NoError(t, err)
	assert.True(t, op.Delivered)
}
