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

// With IntentOnly, an answer that can be had again rides on the next commit.
func TestIntentOnlyAnswerRides(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := sqlite.Open(path, sqlite.Options{IntentOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	other := anotherProcess(t, path)
	commits := func() (n int) {
		require.NoError(t, other.QueryRowContext(t.Context(), "SELECT max(seq) FROM onceward_log").Scan(&n))
		return n
	}

	begun, err := j.Apply(t.Context(), begin("resendable", s))
	require.NoError(t, err)
	// From here on only who writes finds its turn to come: the answer waits.
	_, err = other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	before := commits()
	result, err := j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	assert.Equal(t, journal.Recorded, result.Decision)
	assert.Equal(t, journal.StateCompleted, result.Operation.State)
	assert.Equal(t, "paid resendable", string(result.Operation.Answer.Body))
	assert.Equal(t, before, commits())
	_, err = other.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)

	differs := complete(begun.Operation, s)
	differs.Answer = &journal.Answer{Status: 500}
	for _, ev := range []journal.Event{differs, begin("resendable", s)} {
		result, err = j.Apply(t.Context(), ev)
		require.NoError(t, err)
		assert.Equal(t, journal.Replay, result.Decision)
		assert.Equal(t, 201, result.Operation.Answer.Status, "everybody is served the answer that was reported")
	}

	begun, err = j.Apply(t.Context(), begin("read", s))
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	op, err := j.Get(t.Context(), begun.Operation.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StateCompleted, op.State)

	begun, err = j.Apply(t.Context(), begin("left alone", s))
	require.NoError(t, err)
	before = commits()
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return commits() > before }, 10*time.Second, 10*time.Millisecond, "it waits for nobody for long")

	for name, narrow := range map[string]journal.Terms{
		"not recognised by its provider": {},
		"whose failures may have run":    {Remembers: memory.Successes, Retention: time.Hour, Guard: true},
	} {
		ev := begin(name, s)
		ev.Intent.Terms = narrow
		begun, err = j.Apply(t.Context(), ev)
		require.NoError(t, err)
		before = commits()
		_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
		assert.Greater(t, commits(), before, name)
	}

	begun, err = j.Apply(t.Context(), begin("last", s))
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	op, err = open(t, path).Get(t.Context(), begun.Operation.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StateCompleted, op.State, "the end of a session carries it, and so does Close")
}

// However often a commit fails that an answer rides on, one more is to come for it.
func TestIntentOnlyWhileCommitsFail(t *testing.T) {
	rides := func(t *testing.T, path string) (*sqlite.Journal, journal.Ref) {
		j, err := sqlite.Open(path, sqlite.Options{IntentOnly: true, BusyTimeout: 20 * time.Millisecond})
		require.NoError(t, err)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		begun, err := j.Apply(t.Context(), begin("invoice-1", s))
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
		return j, begun.Operation.Ref
	}
	t.Run("each is rolled back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			j, _ := rides(t, filepath.Join(t.TempDir(), "journal.db"))
			for range 10 {
				sqlite.FailCommit(j)
			}
			release := sqlite.HoldTurn(j)
			<-time.After(time.Second)
			synctest.Wait()
			assert.Equal(t, 1, sqlite.Queued(j))
			release()
			require.NoError(t, j.Close())
		})
	})
	t.Run("and then none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			j, _ := rides(t, filepath.Join(t.TempDir(), "journal.db"))
			<-time.After(time.Second)
			synctest.Wait()
			release := sqlite.HoldTurn(j)
			<-time.After(time.Second)
			synctest.Wait()
			assert.Zero(t, sqlite.Queued(j), "nothing rides any more")
			release()
			require.NoError(t, j.Close())
		})
	})
	t.Run("none begins", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		j, ref := rides(t, path)
		t.Cleanup(func() { _ = j.Close() })
		other := anotherProcess(t, path)
		_, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		require.NoError(t, err)
		for range 10 { // by then the answer's own commit has failed, too
			require.ErrorContains(t, sqlite.Flush(j), "another process")
		}
		_, err = other.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		looks, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = looks.Close() })
		assert.Eventually(t, func() bool {
			op, err := looks.Get(t.Context(), ref)
			return err == nil && op.State == journal.StateCompleted
		}, 10*time.Second, 10*time.Millisecond)
	})
}

// Without IntentOnly, an answer is durable before it is reported.
func TestWithoutIntentOnlyAnswerIsDurable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := sqlite.Open(path, sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	other := anotherProcess(t, path)
	_, err = other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.ErrorContains(t, err, "another process")
	_, err = other.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
}

// An answer that is not of the claim which holds its operation is durable before it is reported: others decide, too, what
// becomes of it.
func TestIntentOnlyAnswerOfItsHolderAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := sqlite.Open(path, sqlite.Options{IntentOnly: true, BusyTimeout: 20 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	another, err := j.Join(t.Context())
	require.NoError(t, err)
	other := anotherProcess(t, path)
	_, err = other.ExecContext(t.Context(), "PRAGMA busy_timeout = 60000")
	require.NoError(t, err)
	apply := func(ev journal.Event) journal.Operation {
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		return result.Operation
	}
	parks := func(op journal.Operation) {
		ev := complete(op, s)
		ev.Kind, ev.Answer, ev.Open, ev.Due = journal.EventPark, nil, true, ev.At
		apply(ev)
	}
	for name, does := range map[string]func(op journal.Operation, answer *journal.Event){
		"another session's": func(_ journal.Operation, answer *journal.Event) { answer.Session = another.ID() },
		"of what is parked": func(op journal.Operation, _ *journal.Event) { parks(op) },
		"of an earlier claim": func(op journal.Operation, _ *journal.Event) {
			parks(op)
			require.Equal(t, journal.StateInFlight, apply(begin(op.ID, s)).State)
		},
	} {
		op := apply(begin(name, s))
		answer := complete(op, s)
		does(op, &answer)
		_, err = other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), answer)
		assert.ErrorContains(t, err, "another process", name)
		_, err = other.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		assert.Equal(t, journal.StateCompleted, apply(answer).State, name)
	}
}
