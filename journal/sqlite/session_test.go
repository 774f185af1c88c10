package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

func sessionFiles(t *testing.T, path string) []string {
	t.Helper()
	names, err := filepath.Glob(path + "-session-*")
	require.NoError(t, err)
	return names
}

func TestASessionsFileGoesWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	ended, err := j.Join(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{path + "-session-" + ended.ID()}, sessionFiles(t, path))
	require.NoError(t, ended.End(t.Context()))
	assert.Empty(t, sessionFiles(t, path))

	died, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-1", died))
	require.NoError(t, err)
	sqlite.Kill(died)
	assert.Len(t, sessionFiles(t, path), 1)
	next, err := j.Join(t.Context())
	require.NoError(t, err)
	results, err := j.Claim(t.Context(), claim(next), 10)
	require.NoError(t, err)
	assert.Len(t, results, 1)
	assert.Equal(t, []string{path + "-session-" + next.ID()}, sessionFiles(t, path))
}

// odd is a character that has a meaning in a glob pattern, and may be in a file's name.
var odd = map[bool]string{true: `\`}[filepath.Separator == '/']

// The next Open removes files without a session.
func TestSessionlessFilesAreRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal [1]*"+odd+".db")
	left := path + "-session-LEFTBYACRASHLEFTBYACRASHAB"
	require.NoError(t, os.WriteFile(left, nil, 0o600))
	theirs := []string{path + "-session-notes.txt", path + "-session-NOTES", path + "-session-notes-of-the-twelfth-month",
		path + "-session-" + strings.Repeat("n", 26), path + "-sidecar-notes"}
	for _, name := range theirs {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	other := filepath.Join(filepath.Dir(path), "journal 1.db-session-ANOTHERANOTHERANOTHERANOTH")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	open(t, path)
	assert.NoFileExists(t, left)
	assert.FileExists(t, other, "it belongs to another journal")
	for _, name := range theirs {
		assert.FileExists(t, name, "it is no session's")
	}
}

// A session without its file is not proven dead.
func TestSessionWithoutItsFileIsNotDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	copied, err := j.Join(t.Context())
	require.NoError(t, err)
	died, err := j.Join(t.Context())
	require.NoError(t, err)
	for id, s := range map[string]machine.Session{"held in the copy": copied, "left behind": died} {
		_, err = j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
	}
	sqlite.Kill(copied)
	sqlite.Kill(died)
	require.NoError(t, os.Remove(path+"-session-"+copied.ID()))

	next, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("held in the copy", next))
	require.ErrorIs(t, err, journal.ErrRestored)
	results, err := j.Claim(t.Context(), claim(next), 10)
	require.NoError(t, err, "it keeps nobody from the others")
	require.Len(t, results, 1)
	assert.Equal(t, "left behind", results[0].Operation.ID)
	_, err = j.Claim(t.Context(), claim(next), 10)
	require.ErrorIs(t, err, journal.ErrRestored)
	op, err := j.Get(t.Context(), journal.Ref{ID: "held in the copy"})
	require.NoError(t, err)
	assert.Equal(t, journal.StateInFlight, op.State)
	assert.Equal(t, copied.ID(), op.Holder)
}

// A session that lost its file and holds nothing does not stay, although the journal needs no adoption.
func TestSessionWithoutItsFileThatHoldsNothingGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	idle, err := j.Join(t.Context())
	require.NoError(t, err)
	sqlite.Kill(idle)
	require.NoError(t, os.Remove(path+"-session-"+idle.ID()))
	require.NoError(t, j.Adopt(t.Context()))
	require.NotEmpty(t, verify(t, j), "it may be a copy's")
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	assert.Empty(t, verify(t, j))
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
}

// If a session's file can't be locked, no process can tell whether it is alive. Calls for its operations return an
// error that says so.
func TestSessionThatCantBeProbed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	died, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-1", died))
	require.NoError(t, err)
	sqlite.Kill(died)
	file := path + "-session-" + died.ID()
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Mkdir(file, 0o700))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Claim(t.Context(), claim(s), 10)
	require.ErrorContains(t, err, "can't tell whether session "+died.ID()+" is alive")
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.ErrorContains(t, err, "can't tell whether session "+died.ID()+" is alive")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, sqlite.Flush(j)) // the batch under way may have checked already
	claimed, err := j.Claim(t.Context(), claim(s), 10)
	require.NoError(t, err)
	assert.Len(t, claimed, 1)
}

// Ending a session after its journal was closed, or twice, succeeds.
func TestSessionEndedAfterItsJournal(t *testing.T) {
	path, j, s := joined(t)
	ended, err := j.Join(t.Context())
	require.NoError(t, err)
	require.NoError(t, ended.End(t.Context()))
	require.NoError(t, j.Close())
	for _, s := range []machine.Session{s, ended} {
		require.NoError(t, s.End(t.Context()))
	}
	goOn(t, open(t, path), "invoice-1")
	assert.Empty(t, sessionFiles(t, path))
}

// An event that ends a run is accepted, whether its session can be probed or not.
func TestSessionWithoutItsFileIsAnswered(t *testing.T) {
	for _, kind := range []machine.EventKind{machine.EventComplete, machine.EventPark, machine.EventMarkUnknown, machine.EventCancel} {
		path, j, s := joined(t)
		begun, err := j.Apply(t.Context(), begin("invoice-1", s))
		require.NoError(t, err)
		sqlite.Kill(s)
		require.NoError(t, os.Remove(path+"-session-"+s.ID()))
		ev := complete(begun.Operation, s)
		if ev.Kind = kind; kind != machine.EventComplete {
			ev.Answer, ev.Unsent, ev.Open = nil, kind != machine.EventMarkUnknown, kind == machine.EventMarkUnknown
		}
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err, kind)
		assert.Equal(t, machine.Recorded, result.Decision, kind)
		assert.NotEqual(t, journal.StateInFlight, result.Operation.State, kind)
	}
}
