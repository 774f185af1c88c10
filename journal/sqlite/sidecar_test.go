package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// begun is the time of leave's operations, to the millisecond.
var begun = time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()

// leave makes a journal, or goes on with one. It leaves a pending, a cancelled and a completed operation.
func leave(t *testing.T, path string) {
	t.Helper()
	j := open(t, path)
	leaveIn(t, j)
	require.NoError(t, j.Close())
}

func leaveIn(t *testing.T, j *sqlite.Journal) {
	t.Helper()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for id, kind := range map[string]machine.EventKind{
		"pending": machine.EventPark, "cancelled": machine.EventCancel, "completed": machine.EventComplete,
	} {
		ev := begin(id, s)
		ev.At = begun
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		ev = complete(result.Operation, s)
		ev.Kind, ev.At = kind, begun.Add(time.Minute)
		if kind != machine.EventComplete {
			ev.Answer, ev.Unsent = nil, true
		}
		_, err = j.Apply(t.Context(), ev)
		require.NoError(t, err)
	}
	require.NoError(t, s.End(t.Context()))
}

// goOn completes one more operation.
func goOn(t *testing.T, j *sqlite.Journal, id string) {
	t.Helper()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	result, err := j.Apply(t.Context(), begin(id, s))
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(result.Operation, s))
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
}

// copyAll copies a journal with all files beside it, except the -shm file.
func copyAll(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range filesOf(t, from) {
		if suffix := strings.TrimPrefix(name, from); suffix != "-shm" {
			copyFile(t, name, to+suffix)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o600))
}

// restored are the ways to get an incomplete journal, each with the error's text. They return its path.
var restored = map[string]struct {
	make func(t *testing.T) (path string)
	says string
}{
	"an older file put in the place of a newer one": {func(t *testing.T) string {
		path, backup := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "backup.db")
		leave(t, path)
		copyFile(t, path, backup)
		j := open(t, path)
		goOn(t, j, "later")
		require.NoError(t, j.Close())
		require.NoError(t, os.RemoveAll(path+"-wal"))
		require.NoError(t, os.RemoveAll(path+"-shm"))
		copyFile(t, backup, path)
		return path
	}, `older than its sidecar: it ends with commit \d+, not \d+`},
	"a copy without the WAL": {func(t *testing.T) string {
		path, to := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "journal.db")
		leave(t, path)
		j := open(t, path)
		goOn(t, j, "later")
		copyFile(t, path, to)
		require.NoError(t, j.Close())
		return to
	}, "has history, and no sidecar"},
	"a file whose WAL was left behind, beside its sidecar": {func(t *testing.T) string {
		path, to := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "journal.db")
		leave(t, path)
		j := open(t, path)
		goOn(t, j, "later")
		require.NoError(t, sqlite.Mark(j))
		copyFile(t, path, to)
		copyFile(t, path+"-sidecar", to+"-sidecar")
		require.NoError(t, j.Close())
		return to
	}, `older than its sidecar: it ends with commit \d+, not \d+`},
	"a copy without its sidecar": {func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "journal.db")
		leave(t, path)
		require.NoError(t, os.Remove(path+"-sidecar"))
		return path
	}, "has history, and no sidecar"},
	"the sidecar of another journal": {func(t *testing.T) string {
		path, other := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "other.db")
		leave(t, path)
		leave(t, other)
		copyFile(t, other+"-sidecar", path+"-sidecar")
		return path
	}, "the sidecar of another journal"},
	"a sidecar that is damaged": {func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "journal.db")
		leave(t, path)
		require.NoError(t, os.WriteFile(path+"-sidecar", []byte("onceward-sid"), 0o600))
		return path
	}, "a sidecar that can't be understood"},
}

// An incomplete journal sends, decides and forgets nothing until it is adopted.
func TestSidecarOfAnIncompleteJournal(t *testing.T) {
	t.Parallel()
	for name, way := range restored {
		t.Run(name, func(t *testing.T) {
			path := way.make(t)
			j := open(t, path)
			refused := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, journal.ErrRestored)
				assert.Contains(t, err.Error(), path)
				assert.Regexp(t, way.says, err.Error())
				assert.Contains(t, err.Error(), "Adopt")
			}
			_, err := j.Join(t.Context())
			refused(err)
			assert.Empty(t, sessionFiles(t, path))
			now := time.Now()
			for _, ev := range []machine.Event{
				{Kind: machine.EventBegin, Ref: journal.Ref{ID: "new"}, Intent: &machine.Intent{Terms: terms}},
				{Kind: machine.EventClaim, Ref: journal.Ref{ID: "pending"}},
				{Kind: machine.EventResolve, Ref: journal.Ref{ID: "pending"}, Resolution: journal.NotExecuted},
				{Kind: machine.EventReap, Ref: journal.Ref{ID: "completed"}},
			} {
				ev.At, ev.Session = now, "A"
				_, err := j.Apply(t.Context(), ev)
				refused(err)
			}
			_, err = j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: now, Session: "A"}, 10)
			refused(err)
			_, err = j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: now}, 10)
			refused(err)
			op, err := j.Get(t.Context(), journal.Ref{ID: "pending"})
			require.NoError(t, err, "it can be read")
			assert.False(t, op.MayHaveRun)

			// It does not become complete by itself.
			require.NoError(t, j.Close())
			j = open(t, path)
			_, err = j.Join(t.Context())
			refused(err)

			require.NoError(t, j.Adopt(t.Context()))
			for id, state := range map[string]journal.State{
				"pending": journal.StatePending, "cancelled": journal.StateUnknown, "completed": journal.StateCompleted,
			} {
				op, err := j.Get(t.Context(), journal.Ref{ID: id})
				require.NoError(t, err)
				assert.Equal(t, state, op.State, id)
				assert.True(t, op.MayHaveRun, id)
				assert.Equal(t, begun, op.FirstSentAt, id)
				if id != "completed" {
					assert.False(t, op.LastEndedAt.Before(now.Truncate(time.Millisecond)), id)
				}
			}
			goOn(t, j, "after")
			require.NoError(t, j.Close())
			goOn(t, open(t, path), "after it was opened again")
		})
	}
}

// A copy without an open operation is not complete without its sidecar.
func TestSidecarOfACopyOfNothingOpen(t *testing.T) {
	path, elsewhere := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	require.NoError(t, j.Close())
	copyFile(t, path, elsewhere)
	goOn(t, open(t, path), "invoice-2")

	j = open(t, elsewhere)
	_, err := j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored, "it knows nothing of invoice-2")
	require.NoError(t, j.Adopt(t.Context()))
	goOn(t, j, "invoice-3")
}

// Open does not silently replace a lost journal by a new one.
func TestSidecarOfAJournalThatWasLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	leave(t, path)
	require.NoError(t, os.Remove(path))
	j := open(t, path)
	_, err := j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, j.Adopt(t.Context()))
	goOn(t, j, "new")
}

// A backup from before an adoption is refused again.
func TestSidecarOfAnOlderBackup(t *testing.T) {
	path := restored["an older file put in the place of a newer one"].make(t)
	older := filepath.Join(t.TempDir(), "older.db")
	copyFile(t, path, older)
	j := open(t, path)
	require.NoError(t, j.Adopt(t.Context()))
	require.NoError(t, j.Close())
	copyFile(t, older, path)
	_, err := open(t, path).Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
}

// A restored journal accepts late answers.
func TestSidecarLateAnswersAreTaken(t *testing.T) {
	path := restored["an older file put in the place of a newer one"].make(t)
	j := open(t, path)
	late := machine.Event{
		Kind: machine.EventComplete, Ref: journal.Ref{ID: "pending"}, At: time.Now(), Session: "A", Claim: 1,
		Answer: &journal.Answer{Status: 201}, Delivered: true,
	}
	result, err := j.Apply(t.Context(), late)
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, result.Decision)
	// However many events it records, it does not catch up with its sidecar.
	for n := range 20 {
		ev := machine.Event{Kind: machine.EventAdopt, Ref: journal.Ref{ID: "cancelled"}, At: time.Now().Add(time.Duration(n) * time.Second)}
		_, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
	}
	require.NoError(t, j.Close())
	j = open(t, path)
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, j.Adopt(t.Context()))
	op, err := j.Get(t.Context(), journal.Ref{ID: "pending"})
	require.NoError(t, err)
	assert.Equal(t, journal.StateCompleted, op.State)
	assert.Equal(t, 201, op.Answer.Status)
}

// A missing sidecar is made again if the journal does not need it.
func TestUnneededSidecarIsMadeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	require.NoError(t, j.Close())
	require.NoError(t, os.Remove(path+"-sidecar")) // of a journal without history
	left := path + "-sidecar-123"
	require.NoError(t, os.WriteFile(left, nil, 0o600))
	j = open(t, path)
	assert.FileExists(t, path+"-sidecar")
	assert.NoFileExists(t, left, "a crash left it")
	goOn(t, j, "another")

	// A sidecar that is removed while the journal is in use is made again, too.
	require.NoError(t, os.Remove(path+"-sidecar"))
	leaveIn(t, j)
	require.NoError(t, j.Close())
	goOn(t, open(t, path), "and one more")
}

// The sidecar names the last commit once the journal is closed.
func TestSidecarNamesTheLastCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	at := time.Now()
	// A clock that stands still gives no reason to write the journal's own row.
	for n := range 5 {
		backup := filepath.Join(t.TempDir(), "backup.db")
		if n > 0 {
			copyFile(t, path, backup)
		}
		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		ev := begin(fmt.Sprint("invoice-", n), s)
		ev.At = at
		_, err = j.Apply(t.Context(), ev)
		require.NoError(t, err)
		require.NoError(t, s.End(t.Context()))
		require.NoError(t, j.Close())
		if n == 0 {
			continue
		}
		whole := filepath.Join(t.TempDir(), "whole.db")
		copyFile(t, path, whole)
		copyFile(t, backup, path)
		j = open(t, path)
		_, err = j.Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		require.NoError(t, j.Close())
		copyFile(t, whole, path)
	}
	_, err := open(t, path).Join(t.Context())
	require.NoError(t, err, "nothing was changed by looking")
}

// A sidecar that can't be read or written has an error of its own.
func TestSidecarThatCantBeReadOrWritten(t *testing.T) {
	path := restored["a copy without its sidecar"].make(t)
	j := open(t, path)
	inTheWay := filepath.Join(path+"-sidecar", "file")
	require.NoError(t, os.Mkdir(path+"-sidecar", 0o700))
	require.NoError(t, os.WriteFile(inTheWay, nil, 0o600))
	require.ErrorContains(t, j.Adopt(t.Context()), "sidecar can't be read")
	left, err := filepath.Glob(path + "-sidecar-*")
	require.NoError(t, err)
	assert.Empty(t, left)
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.ErrorContains(t, j.Close(), "sidecar can't be read")
	_, err = sqlite.Open(path, sqlite.Options{})
	require.ErrorContains(t, err, "sidecar can't be read")

	require.NoError(t, os.RemoveAll(path+"-sidecar"))
	j = open(t, path)
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored, "half an adoption is none")
	op, err := j.Get(t.Context(), journal.Ref{ID: "cancelled"})
	require.NoError(t, err)
	assert.Equal(t, journal.StateCancelled, op.State)
	require.NoError(t, j.Adopt(t.Context()))
	goOn(t, j, "after")
}

// An adoption takes over the operations of copied sessions.
func TestAdoptionTakesOverCopiedSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("held", s))
	require.NoError(t, err)
	sqlite.Kill(s)
	require.NoError(t, os.Remove(path+"-session-"+s.ID()))
	next, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("mine", next))
	require.NoError(t, err)
	_, err = j.Claim(t.Context(), claim(next), 10)
	require.ErrorIs(t, err, journal.ErrRestored)

	require.NoError(t, j.Adopt(t.Context()))
	results, err := j.Claim(t.Context(), claim(next), 10)
	require.NoError(t, err)
	require.Len(t, results, 1)
	assert.Equal(t, "held", results[0].Operation.ID)
	mine, err := j.Get(t.Context(), journal.Ref{ID: "mine"})
	require.NoError(t, err)
	assert.Equal(t, next.ID(), mine.Holder, "a live session keeps what it holds")
}

func TestAdoptOfACompleteJournalDoesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	require.NoError(t, j.Adopt(t.Context()), "it is new")
	require.NoError(t, j.Close())
	leave(t, path)
	j = open(t, path)
	before, err := os.ReadFile(path + "-sidecar")
	require.NoError(t, err)
	require.NoError(t, j.Adopt(t.Context()))
	after, err := os.ReadFile(path + "-sidecar")
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
	op, err := j.Get(t.Context(), journal.Ref{ID: "cancelled"})
	require.NoError(t, err)
	assert.Equal(t, journal.StateCancelled, op.State)
	require.NoError(t, j.Close())
	require.ErrorIs(t, j.Adopt(t.Context()), journal.ErrClosed)
}

func TestAnAdoptionThatIsNotCommittedIsNone(t *testing.T) {
	path := restored["a copy without its sidecar"].make(t)
	synctest.Test(t, func(t *testing.T) {
		j := open(t, path)
		other := anotherProcess(t, path)
		_, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		require.NoError(t, err)
		require.ErrorContains(t, j.Adopt(t.Context()), "another process")
		_, err = other.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		_, err = j.Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		require.NoError(t, j.Adopt(t.Context()))
		goOn(t, j, "after")
	})
}
