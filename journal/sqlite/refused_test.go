//go:build unix

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// refuse has SQLite refuse one statement of the journal's, which leaves the rest of its
// transaction as it is, until stop is called.
func refuse(t *testing.T, path, what string) (stop func()) {
	t.Helper()
	other := anotherProcess(t, path)
	_, err := other.ExecContext(t.Context(), "PRAGMA busy_timeout=5000")
	require.NoError(t, err)
	_, err = other.ExecContext(t.Context(), "CREATE TRIGGER refuse BEFORE "+what+" BEGIN SELECT RAISE(ABORT, 'refused by the test'); END")
	require.NoError(t, err)
	return func() {
		_, err := other.ExecContext(t.Context(), "DROP TRIGGER refuse")
		require.NoError(t, err)
	}
}

func TestWhatTheLogRefusesIsNotAcknowledged(t *testing.T) {
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

func TestWhatCantBeFoldedStaysInTheLog(t *testing.T) {
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

func TestADeadSessionWhoseEndCantBeRecordedIsStillDead(t *testing.T) {
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

func TestATransactionThatARollbackLeftOpenIsRolledBackByTheNextCommit(t *testing.T) {
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

func TestAnAnswerWhoseBodyIsDamagedIsAnErrorAndNotAnAnswerWithout(t *testing.T) {
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
}
