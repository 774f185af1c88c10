//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A journal whose copied sessions can't be removed is not adopted.
func TestAdoptWhereASessionStays(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	sqlite.Kill(s)
	require.NoError(t, j.Close())
	require.NoError(t, os.Remove(path+"-sidecar"))
	require.NoError(t, os.Remove(path+"-session-"+s.ID()))
	j = open(t, path)
	stop := refuse(t, path, "DELETE ON onceward_sessions")
	require.ErrorContains(t, j.Adopt(t.Context()), "refused by the test")
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	op, err := j.Get(t.Context(), begun.Operation.Ref)
	require.NoError(t, err)
	assert.Equal(t, begun.Operation.Claim, op.Claim)
	assert.Equal(t, journal.StateInFlight, op.State)
	stop()
	require.NoError(t, j.Adopt(t.Context()))
	_, err = j.Join(t.Context())
	require.NoError(t, err)
}

// An adopted older copy counts on from its sidecar's number. If another process writes the sidecar meanwhile, the copy does
// not look older than it is.
func TestAdoptAfterTheSidecarsNumber(t *testing.T) {
	number := func(path string) int {
		side, err := os.ReadFile(path + "-sidecar")
		require.NoError(t, err)
		n, err := strconv.Atoi(strings.Fields(string(side))[3])
		require.NoError(t, err)
		return n
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	leave(t, path)
	older, err := os.ReadFile(path)
	require.NoError(t, err)
	was := number(path)
	for _, id := range []string{"a", "b", "c"} {
		j := open(t, path)
		goOn(t, j, id)
		require.NoError(t, j.Close())
	}
	later := number(path)
	require.Greater(t, later, was+1)
	require.NoError(t, os.WriteFile(path, older, 0o600))
	j := open(t, path)
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, j.Adopt(t.Context()))
	require.NoError(t, j.Close())
	assert.Greater(t, number(path), later)
}
