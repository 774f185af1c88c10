//go:build unix

package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// A request after one that fails its commit goes into the next commit.
func TestCommitAfterOneThatFailed(t *testing.T) {
	_, j, s := joined(t)
	release := sqlite.Hold(j)
	failing := queued(t, j, 0, func() error { sqlite.FailCommit(j); return nil })
	next := queued(t, j, 1, func() error {
		_, err := j.Apply(t.Context(), begin("invoice-1", s))
		return err
	})
	release()
	require.NoError(t, <-failing)
	require.NoError(t, <-next)
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

func TestEventThatSQLiteRefusesFailsAlone(t *testing.T) {
	path, j, s := joined(t)
	stop := refuse(t, path, "INSERT ON onceward_sessions")
	release := sqlite.Hold(j)
	begun := queued(t, j, 0, func() error {
		_, err := j.Apply(t.Context(), begin("invoice-1", s))
		return err
	})
	refused := queued(t, j, 1, func() error {
		_, err := j.Join(t.Context())
		return err
	})
	release()
	require.NoError(t, <-begun)
	require.ErrorContains(t, <-refused, "refused by the test")
	stop()
	assert.True(t, has(t, j, "invoice-1"))
}

func TestFailedCommitsAreNotCounted(t *testing.T) {
	path, j, s := joined(t)
	before := commitsOf(t, j)
	require.NoError(t, sqlite.Flush(j))
	stop := refuse(t, path, "INSERT ON onceward_log")
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.ErrorContains(t, err, "refused by the test")
	stop()
	assert.Zero(t, commitsOf(t, j)-before)
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	assert.EqualValues(t, 1, commitsOf(t, j)-before)
}

// Deliveries and steps cost no commit of their own until there are very many.
func TestDeliveriesAndStepsCostNoCommit(t *testing.T) {
	_, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	ev := complete(begun.Operation, s)
	ev.Delivered = false
	_, err = j.Apply(t.Context(), ev)
	require.NoError(t, err)
	f := beginFlow(t, j, s, "order-991")
	for _, ride := range []func(n int){
		func(int) {
			_, err := j.Apply(t.Context(), journal.Event{Kind: journal.EventDeliver, Ref: ev.Ref, At: time.Now()})
			require.NoError(t, err)
		},
		func(n int) { recordStep(t, j, f, n, "paid") },
	} {
		before := commitsOf(t, j)
		for n := range 1023 {
			ride(n + 1)
		}
		assert.Zero(t, commitsOf(t, j)-before)
		ride(1024)
		assert.EqualValues(t, 1, commitsOf(t, j)-before)
	}
}

// A delivery waits beyond a failed commit, and is applied once.
func TestDeliveryIsWrittenAfterAFailedCommit(t *testing.T) {
	_, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	doubt := complete(begun.Operation, s)
	doubt.Kind, doubt.Answer, doubt.Open, doubt.Delivered = journal.EventDoubt, nil, true, false
	_, err = j.Apply(t.Context(), doubt)
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), journal.Event{Kind: journal.EventDeliver, Ref: doubt.Ref, At: time.Now()})
	require.NoError(t, err)
	sqlite.FailCommit(j)
	require.NoError(t, sqlite.Flush(j))
	op, err := j.Get(t.Context(), doubt.Ref)
	require.NoError(t, err)
	require.True(t, op.Delivered)
	_, err = j.Apply(t.Context(), journal.Event{Kind: journal.EventResolve, Ref: op.Ref, At: time.Now(),
		Resolution: journal.Executed, Generation: op.Generation, Claim: op.Claim, Answer: &journal.Answer{Status: 201}})
	require.NoError(t, err)
	require.NoError(t, sqlite.Flush(j))
	op, err = j.Get(t.Context(), doubt.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StateCompleted, op.State)
	assert.False(t, op.Delivered, "it was of the outcome before")
}

// A clock that only a failed commit has seen is forgotten.
func TestClockSeenByAFailedCommit(t *testing.T) {
	path, j, s := joined(t)
	now := time.Now().Truncate(time.Millisecond).UTC()
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	stop := refuse(t, path, "INSERT ON onceward_log")
	ev := begin("invoice-2", s)
	ev.At = now.Add(30 * time.Minute)
	_, err = j.Apply(t.Context(), ev)
	require.ErrorContains(t, err, "refused by the test")
	stop()
	assert.Less(t, seenAt(t, j, now).Last, now.Add(time.Minute))
}

// Close records the latest time, and leaves nothing in the log alone.
func TestCloseLeavesTheLatestTime(t *testing.T) {
	path, j, s := joined(t)
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	later := time.Now().Add(10 * time.Minute).Truncate(time.Millisecond).UTC()
	assert.Equal(t, later, seenAt(t, j, later).Last)
	epoch := func() (epoch []byte) {
		require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), "SELECT epoch FROM onceward_journal").Scan(&epoch))
		return epoch
	}
	before := epoch()
	require.NoError(t, j.Close())
	assert.NotEqual(t, before, epoch(), "whatever is written to the file next is of another")
	var newest, folded int
	require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), "SELECT newest, folded FROM onceward_log ORDER BY seq DESC LIMIT 1").Scan(&newest, &folded))
	assert.Equal(t, newest, folded)
	assert.Equal(t, later, seenAt(t, open(t, path), time.Now()).Last)
}

// A result's latest time is the one that will be recorded.
func TestLatestTimeIsAsRecorded(t *testing.T) {
	_, j, _ := joined(t)
	last := seenAt(t, j, time.Now()).Last
	for ahead, believed := range map[time.Duration]bool{-time.Hour: false, time.Second: true, journal.Leap: true, journal.Leap + time.Millisecond: false} {
		want := last
		if believed {
			want = last.Add(ahead)
		}
		result, err := j.Apply(t.Context(), journal.Event{Kind: journal.EventDeliver, Ref: journal.Ref{ID: "none"}, At: last.Add(ahead)})
		require.NoError(t, err)
		assert.Equal(t, want, result.Last, ahead)
	}
}

// If a journal can't be written as it is closed, Close returns an error, and the journal is closed.
func TestCloseOfAnUnwritableJournal(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "journal.db")
		j, err := sqlite.Open(path, sqlite.Options{BusyTimeout: 50 * time.Millisecond})
		require.NoError(t, err)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		other := anotherProcess(t, path)
		_, err = other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		require.NoError(t, err)
		asked := make(chan error, 1)
		if !alone {
			release := sqlite.HoldTurn(j)
			go func() {
				_, err := j.Apply(t.Context(), begin("invoice-1", s))
				asked <- err
			}()
			until(t, func() bool { return sqlite.Queued(j) == 1 })
			closed := make(chan error, 1)
			go func() { closed <- j.Close() }()
			until(t, func() bool { return sqlite.Queued(j) == 2 })
			release()
			require.ErrorContains(t, <-asked, "locked")
			require.ErrorContains(t, <-closed, "locked")
		} else {
			require.ErrorContains(t, j.Close(), "locked")
		}
		_, err = other.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		assert.Empty(t, verify(t, open(t, path)))
	}
}

// An event finds an operation that was folded earlier in the same commit.
func TestEventAfterItsOperationWasFolded(t *testing.T) {
	_, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	release := sqlite.Hold(j)
	folded := queued(t, j, 0, func() error { return sqlite.Fold(j) })
	ev := complete(begun.Operation, s)
	ev.Handle = 0
	completed := queued(t, j, 1, func() error { _, err := j.Apply(t.Context(), ev); return err })
	release()
	require.NoError(t, <-folded)
	require.NoError(t, <-completed)
	op, err := j.Get(t.Context(), ev.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StateCompleted, op.State)
	assert.Empty(t, verify(t, j))
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
		require.NoError(t, sqlite.Fold(j))
	}
}

// A name with a damaged row is not executed, though its key is unused.
func TestNameWhoseRowIsDamaged(t *testing.T) {
	path, j, s := joined(t)
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	alter(t, path, "UPDATE onceward_operations SET facts = x'01'")
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

// If a waiting record can't be written, a call that would read it returns an error.
func TestStepRecordThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := sqlite.Open(path, sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	f := beginFlow(t, j, s, "order-991")
	stop := refuse(t, path, "INSERT ON onceward_log")
	recordStep(t, j, f, 1, "paid")
	_, err = j.GetFlow(t.Context(), f.Ref)
	require.ErrorContains(t, err, "refused by the test")
	for _, err = range j.ListFlows(t.Context(), journal.FlowFilter{}) {
	}
	require.ErrorContains(t, err, "refused by the test")
	_, err = j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: time.Now()}, 1)
	require.ErrorContains(t, err, "refused by the test")
	require.ErrorContains(t, j.Backup(t.Context(), path+"-copy"), "refused by the test")
	stop()
	f, err = j.GetFlow(t.Context(), f.Ref)
	require.NoError(t, err)
	assert.Len(t, f.Steps, 1)
}

// Stats count commits and pending operations.
func TestStatsOfCommitsAndPendingOperations(t *testing.T) {
	_, j, s := joined(t)
	stats := func() sqlite.Stats {
		t.Helper()
		stats, err := j.Stats(t.Context())
		require.NoError(t, err)
		return stats
	}
	before := stats()
	release := sqlite.Hold(j)
	var asked []chan error
	for n, id := range []string{"one", "two", "three"} {
		asked = append(asked, queued(t, j, n, func() error { _, err := j.Apply(t.Context(), generate(id, s)); return err }))
	}
	release()
	for _, done := range asked {
		require.NoError(t, <-done)
	}
	for n := range 20 {
		begun, err := j.Apply(t.Context(), begin(string(rune('a'+n)), s))
		require.NoError(t, err)
		park := complete(begun.Operation, s)
		park.Kind, park.Answer, park.Unsent = journal.EventPark, nil, true
		park.At = park.At.Add(time.Minute)
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
		now := stats()
		assert.EqualValues(t, n+1, now.Pending)
		oldest, err := j.Get(t.Context(), journal.Ref{ID: "a"})
		require.NoError(t, err)
		assert.Equal(t, oldest.CreatedAt, now.OldestPending)
		if n == 10 {
			require.NoError(t, sqlite.Fold(j))
		}
	}
	now := stats()
	assert.EqualValues(t, 1+40+1, now.Commits-before.Commits)
	assert.EqualValues(t, 4+40+1, now.Requests-before.Requests)
	assert.Equal(t, 4, now.BatchMax)
	assert.Equal(t, 1, now.BatchP50)
	assert.LessOrEqual(t, now.CommitP50, now.CommitP99)
	assert.LessOrEqual(t, now.CommitP99, now.CommitMax)
	assert.Positive(t, now.CommitP50)
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
