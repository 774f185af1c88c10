//go:build unix

package sqlite_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite"
)

// orphaned is an open journal with an operation of a session without a file. A live session holds others, in rows and
// in the log alone.
func orphaned(t *testing.T) (path string, j *sqlite.Journal, mine []journal.Operation) {
	t.Helper()
	path, j, s := joined(t)
	lost, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("lost", lost))
	require.NoError(t, err)
	for _, id := range []string{"in a row", "in the log"} {
		result, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		mine = append(mine, result.Operation)
		if id == "in a row" {
		}
	}
	sqlite.Kill(lost)
	require.NoError(t, os.Remove(path+"-session-"+lost.ID()))
	return path, j, mine
}

// An adoption leaves the operations of live sessions as they are.
func TestAdoptKeepsLiveSessions(t *testing.T) {
	_, j, mine := orphaned(t)
	require.NoError(t, j.Adopt(t.Context()))
	for _, before := range mine {
		op, err := j.Get(t.Context(), before.Ref)
		require.NoError(t, err)
		assert.Equal(t, journal.StateInFlight, op.State, op.ID)
		assert.Equal(t, before.Holder, op.Holder, op.ID)
		assert.False(t, op.Found.MayHaveRun, op.ID)
	}
	op, err := j.Get(t.Context(), journal.Ref{ID: "lost"})
	require.NoError(t, err)
	assert.NotEqual(t, journal.StateInFlight, op.State)
}

// An adoption that fails is called again.
func TestAdoptWithAFailedCommit(t *testing.T) {
	path, j, _ := orphaned(t)
	stop := refuse(t, path, "UPDATE ON onceward_head")
	require.ErrorContains(t, j.Adopt(t.Context()), "refused by the test")
	stop()
	require.NoError(t, j.Adopt(t.Context()))
	_, err := j.Join(t.Context())
	require.NoError(t, err)
	assert.Empty(t, verify(t, j))
}

// From its adoption on, the sidecar names the journal's commits again.
func TestSidecarAfterAnAdoption(t *testing.T) {
	path, j, s := joined(t)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	require.NoError(t, os.Remove(path+"-sidecar"))
	j = open(t, path)
	require.NoError(t, j.Adopt(t.Context()))
	goOn(t, j, "invoice-1")
	require.NoError(t, sqlite.Mark(j))
	assert.Equal(t, latest(t, path), named(t, path))
}

// latest is the number of the latest commit, as SQLite reads it.
func latest(t *testing.T, path string) (number string) {
	t.Helper()
	return fmt.Sprint(commits(t, path))
}

// commits is how many commits a journal has.
func commits(t *testing.T, path string) int64 {
	t.Helper()
	var identity string
	var sealed []byte
	require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), "SELECT identity, epoch FROM onceward_head").Scan(&identity, &sealed))
	n, err := format.DecodeEpoch(identity, sealed)
	require.NoError(t, err)
	return n
}

// named is the commit's number in the sidecar.
func named(t *testing.T, path string) string {
	t.Helper()
	side, err := os.ReadFile(path + "-sidecar")
	require.NoError(t, err)
	return strings.Fields(string(side))[3]
}

// The sidecar follows a commit by itself.
func TestSidecarAfterACommit(t *testing.T) {
	t.Cleanup(sqlite.MarkAlways())
	path, j, s := joined(t)
	for n := range 5 {
		_, err := j.Apply(t.Context(), begin(fmt.Sprint("invoice-", n), s))
		require.NoError(t, err)
		until(t, func() bool { return named(t, path) == latest(t, path) })
	}
}

// Sessions that could not start leave their files to later sessions, one file each.
func TestJoinAfterSomeThatFailed(t *testing.T) {
	path, j, s := joined(t)
	stop := refuse(t, path, "UPDATE ON onceward_head")
	_, err := j.Join(t.Context())
	require.ErrorContains(t, err, "refused by the test")
	stop()
	ids := map[string]bool{s.ID(): true}
	for range 2 {
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		ids[s.ID()] = true
		_, err = os.Stat(path + "-session-" + s.ID())
		require.NoError(t, err)
	}
	assert.Len(t, ids, 3)
	stop = refuse(t, path, "UPDATE ON onceward_head")
	_, err = j.Join(t.Context())
	require.ErrorContains(t, err, "refused by the test")
	stop()
	for _, name := range sessionFiles(t, path) {
		if !ids[strings.TrimPrefix(name, path+"-session-")] {
			require.NoError(t, os.Remove(name))
		}
	}
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	_, err = os.Stat(path + "-session-" + s.ID())
	require.NoError(t, err, "what was taken away is not used")
}

func TestJoinOfARestoredJournal(t *testing.T) {
	path, j, s := joined(t)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	require.NoError(t, os.Remove(path+"-sidecar"))
	j = open(t, path)
	_, err := j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.Empty(t, sessionFiles(t, path))
}

// No process believes a damaged operation, and it does not block the adoption.
func TestAdoptBesideADamagedOperation(t *testing.T) {
	path, j := unknowns(t, 2, damagedRow)
	require.NoError(t, j.Close())
	require.NoError(t, os.Remove(path+"-sidecar"))
	j = open(t, path)
	_, err := j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.ErrorContains(t, j.Adopt(t.Context()), "adopted, but operation 1")
	require.NoError(t, j.Adopt(t.Context()))
	_, err = j.Join(t.Context())
	require.NoError(t, err)
}
