//go:build unix

package sqlite_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
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
	stop := refuse(t, path, "UPDATE ON onceward_head")
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.ErrorContains(t, err, "refused by the test")
	stop()
	assert.False(t, has(t, j, "invoice-1"))
	result, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	assert.Equal(t, machine.Execute, result.Decision)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	assert.True(t, has(t, open(t, path), "invoice-1"))
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
	_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventResolve, Ref: begun.Operation.Ref, At: ev.At,
		Claim: begun.Operation.Claim, Resolution: journal.Executed, Answer: ev.Answer})
	require.ErrorContains(t, err, "damaged")
	require.NoError(t, j.Close())
	alter(t, path, "DELETE FROM onceward_answers")
	j = open(t, path)
	for kind, resolution := range map[machine.EventKind]journal.Resolution{machine.EventResolve: journal.Executed, machine.EventComplete: 0} {
		_, err = j.Apply(t.Context(), machine.Event{Kind: kind, Ref: begun.Operation.Ref, At: ev.At,
			Claim: begun.Operation.Claim, Resolution: resolution, Answer: ev.Answer})
		require.ErrorContains(t, err, "damaged", "no other answer takes the place of one that is lost")
	}
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
	for _, body := range []string{"CAST('not what was asked for' AS BLOB)", "NULL"} {
		alter(t, path, "UPDATE onceward_requests SET body = "+body)
		_, err = j.Apply(t.Context(), ev)
		require.ErrorContains(t, err, "damaged", body)
		_, err = j.Get(t.Context(), ev.Ref)
		require.ErrorContains(t, err, "damaged", body)
	}
}

func TestAdoptAsWithAFailedCommit(t *testing.T) {
	_, clone := cloned(t)
	j, err := sqlite.Open(clone, sqlite.Options{Existing: true})
	require.NoError(t, err)
	defer j.Close()
	stop := refuse(t, clone, "UPDATE ON onceward_head")
	require.ErrorContains(t, j.AdoptAs(t.Context(), "staging"), "refused by the test")
	stop()
	_, err = sqlite.Open(clone, sqlite.Options{Deployment: "staging"})
	require.ErrorIs(t, err, sqlite.ErrDeployment)
}

// A dead session whose end can't be recorded is still dead, and its operations are claimed.
func TestDeadSessionIsStillDead(t *testing.T) {
	path, j, died := joined(t)
	_, err := j.Apply(t.Context(), begin("invoice-1", died))
	require.NoError(t, err)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	sqlite.Kill(died)
	stop := refuse(t, path, "DELETE ON onceward_sessions")
	for range 2 {
		_, err = j.Join(t.Context())
		require.ErrorContains(t, err, "refused by the test")
	}
	results, err := j.Claim(t.Context(), claim(s), 10)
	require.NoError(t, err)
	assert.Len(t, results, 1)
	stop()
	last, err := j.Join(t.Context())
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{path + "-session-" + s.ID(), path + "-session-" + last.ID()}, sessionFiles(t, path))
	assert.Empty(t, verify(t, j))
}
