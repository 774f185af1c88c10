//go:build unix

package sqlite_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// intentOnly is an open journal with IntentOnly.
func intentOnly(t *testing.T) (path string, j *sqlite.Journal, s journal.Session) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j, err := sqlite.Open(path, sqlite.Options{IntentOnly: true, BusyTimeout: 20 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	return path, j, s
}

// With IntentOnly, nothing rides but an answer, and none that the journal does not take as it is.
func TestIntentOnlyWhatDoesNotRide(t *testing.T) {
	path, j, s := intentOnly(t)
	other := anotherProcess(t, path)
	_, err := other.ExecContext(t.Context(), "PRAGMA busy_timeout = 60000")
	require.NoError(t, err)
	for name, row := range map[string]struct {
		becomes func(ev *journal.Event)
		state   journal.State
	}{
		"a park": {func(ev *journal.Event) {
			ev.Kind, ev.Answer, ev.Open, ev.Due = journal.EventPark, nil, true, ev.At.Add(time.Hour)
		}, journal.StatePending},
		"by a clock that is not believed": {func(ev *journal.Event) { ev.At = ev.At.Add(100 * time.Hour) }, journal.StateCompleted},
		"of an operation by its number":   {func(ev *journal.Event) { ev.Ref = journal.Ref{} }, journal.StateCompleted},
	} {
		begun, err := j.Apply(t.Context(), begin(name, s))
		require.NoError(t, err)
		ev := complete(begun.Operation, s)
		row.becomes(&ev)
		_, err = other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), ev)
		assert.ErrorContains(t, err, "another process", name)
		_, err = other.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		assert.Equal(t, journal.Recorded, result.Decision, name)
		assert.Equal(t, row.state, result.Operation.State, name)
	}

	begun, err := j.Apply(t.Context(), begin("none", s))
	require.NoError(t, err)
	ev := complete(begun.Operation, s)
	ev.Answer = nil
	_, err = j.Apply(t.Context(), ev)
	require.ErrorIs(t, err, journal.ErrInvalidEvent)
}

// With IntentOnly, an answer to what is not in the log any more is recorded at once.
func TestIntentOnlyAnswerToWhatWasFolded(t *testing.T) {
	_, j, s := intentOnly(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	result, err := j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	assert.Equal(t, journal.Recorded, result.Decision)
}

// An answer that rides is read by whichever of its names it came, and it is asked for; so is what there is none of.
func TestIntentOnlyAnswerByItsSecondName(t *testing.T) {
	alias := aliasOf("invoice-1")
	first := journal.Ref{ID: "invoice-1"}
	for _, by := range []journal.Ref{first, alias} {
		for _, asks := range []journal.Ref{first, alias} {
			_, j, s := intentOnly(t)
			ev := begin("invoice-1", s)
			ev.Intent.Alias = alias
			begun, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
			answer := complete(begun.Operation, s)
			answer.Ref = by
			result, err := j.Apply(t.Context(), answer)
			require.NoError(t, err)
			require.Equal(t, journal.Recorded, result.Decision)
			op, err := j.Get(t.Context(), asks)
			require.NoError(t, err)
			assert.Equal(t, journal.StateCompleted, op.State, "%v, %v", by, asks)
		}
	}
	synctest.Test(t, func(t *testing.T) { // it rides as long as nobody waits
		_, j, s := intentOnly(t)
		begun, err := j.Apply(t.Context(), begin("invoice-1", s))
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
		assert.False(t, has(t, j, "none"))
		require.NoError(t, j.Close())
	})
}

// However many answers ride, one commit is to come for them.
func TestIntentOnlyAnswersShareACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, j, s := intentOnly(t)
		var answers []journal.Event
		for _, id := range []string{"a", "b", "c"} {
			begun, err := j.Apply(t.Context(), begin(id, s))
			require.NoError(t, err)
			answers = append(answers, complete(begun.Operation, s))
		}
		release := sqlite.HoldTurn(j)
		for _, answer := range answers {
			result, err := j.Apply(t.Context(), answer)
			require.NoError(t, err)
			assert.Equal(t, journal.Recorded, result.Decision)
		}
		<-time.After(time.Second)
		synctest.Wait()
		assert.Equal(t, 1, sqlite.Queued(j))
		release()
		require.NoError(t, j.Close())
	})
}

// An answer that rides, by a clock which stands behind, is reported as settled when it is recorded to be: by the latest time,
// where it would be forgotten too early else.
func TestIntentOnlyAnswerByAClockBehind(t *testing.T) {
	_, j, s := intentOnly(t)
	ev := begin("invoice-1", s)
	ev.Intent.Terms.Unique = journal.Unique{For: 4 * time.Minute}
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	last := seenAt(t, j, time.Now().Add(10*time.Minute)).Last
	result, err := j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	require.Equal(t, journal.Recorded, result.Decision)
	assert.Equal(t, last, result.Operation.SettledAt)
	op, err := j.Get(t.Context(), begun.Operation.Ref)
	require.NoError(t, err)
	assert.Equal(t, last, op.SettledAt)
}

// An answer that is not to be recorded as it is does not ride: a refusal beside what was heard meanwhile is weighed at once.
func TestIntentOnlyAnswerThatIsWeighed(t *testing.T) {
	path, j, s := intentOnly(t)
	ev := begin("invoice-1", s)
	ev.Intent.Terms.Remembers = memory.SuccessesCleanFailures
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	heard, err := j.Apply(t.Context(), tookEffect(begun.Operation, "charge ch_1"))
	require.NoError(t, err)
	require.Equal(t, journal.StateInFlight, heard.Operation.State)
	refused := complete(begun.Operation, s)
	refused.Answer, refused.Open = &journal.Answer{Status: 402, Refused: true}, true
	other := anotherProcess(t, path)
	_, err = other.ExecContext(t.Context(), "PRAGMA busy_timeout = 60000; BEGIN IMMEDIATE")
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), refused)
	require.ErrorContains(t, err, "another process")
	_, err = other.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	result, err := j.Apply(t.Context(), refused)
	require.NoError(t, err)
	assert.Equal(t, journal.Weighed, result.Decision)
	assert.Equal(t, journal.StateCompleted, result.Operation.State)
}
