//go:build unix

package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// flying is an open journal with operations in flight, held by a session of this process. The first half have rows of
// their own.
func flying(t *testing.T, n int) (path string, j *sqlite.Journal, s journal.Session, ops []journal.Operation) {
	t.Helper()
	path, j, s = joined(t)
	for i := range n {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("op-", i), s))
		require.NoError(t, err)
		ops = append(ops, begun.Operation)
		if i == n/2 {
			require.NoError(t, sqlite.Fold(j))
		}
	}
	return path, j, s, ops
}

// afterAKill copies a journal to another place, as a kill of its processes would leave it.
func afterAKill(t *testing.T, path string) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "journal.db")
	for _, name := range filesOf(t, path) {
		if suffix := name[len(path):]; suffix != "-shm" {
			copyFile(t, name, copied+suffix)
		}
	}
	return copied
}

// An adoption that ended between two commits leaves a journal that counts as restored. It sends nothing before it is
// adopted completely.
func TestInterruptedAdoption(t *testing.T) {
	defer sqlite.AdoptAtOnce(2)()
	defer sqlite.ClaimInOneGo()() // on a slow machine a page would end before its second operation
	for name, prepare := range map[string]func(t *testing.T) (string, *sqlite.Journal, journal.Session, []journal.Operation){
		"restored": func(t *testing.T) (string, *sqlite.Journal, journal.Session, []journal.Operation) {
			path, j, s, ops := flying(t, 7)
			sqlite.Kill(s)
			require.NoError(t, j.Close())
			require.NoError(t, os.Remove(path+"-sidecar"))
			return path, open(t, path), s, ops
		},
		"whole, but for the file of a session": func(t *testing.T) (string, *sqlite.Journal, journal.Session, []journal.Operation) {
			path, j, s, ops := flying(t, 7)
			sqlite.Kill(s)
			require.NoError(t, os.Remove(path+"-session-"+s.ID()))
			return path, j, s, ops
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, j, dead, ops := prepare(t)
			done, err := sqlite.AdoptPage(j)
			require.NoError(t, err)
			require.False(t, done)
			copied := afterAKill(t, path)
			for _, path := range []string{path, copied} {
				if path == copied {
					j = open(t, copied)
				}
				_, err = j.Join(t.Context())
				require.ErrorIs(t, err, journal.ErrRestored)
				states := make(map[journal.State]int)
				for _, op := range ops {
					now, err := j.Get(t.Context(), op.Ref)
					require.NoError(t, err)
					states[now.State]++
				}
				assert.Equal(t, map[journal.State]int{journal.StatePending: 2, journal.StateInFlight: 5}, states)
				_, err = j.Apply(t.Context(), complete(ops[6], dead))
				require.NoError(t, err, "a late answer is recorded all the same")
				require.NoError(t, j.Adopt(t.Context()))
				s, err := j.Join(t.Context())
				require.NoError(t, err)
				for i, op := range ops {
					asked, err := j.Apply(t.Context(), begin(op.ID, s))
					require.NoError(t, err)
					if i == 6 {
						assert.Equal(t, journal.Replay, asked.Decision)
						continue
					}
					assert.True(t, asked.Operation.Found.MayHaveRun, op.ID)
				}
				assert.Empty(t, verify(t, j))
			}
		})
	}
}

// An adoption makes several commits, so that other processes record events in between.
func TestAdoptionLetsOthersWrite(t *testing.T) {
	defer sqlite.AdoptAtOnce(2)()
	path, j, s, _ := flying(t, 40)
	sqlite.Kill(s)
	require.NoError(t, j.Close())
	require.NoError(t, os.Remove(path+"-sidecar"))
	commits := 0
	j, err := sqlite.Open(path, sqlite.Options{Committed: func(int, time.Duration) { commits++ }})
	require.NoError(t, err)
	require.NoError(t, j.Adopt(t.Context()))
	require.NoError(t, j.Close())
	assert.GreaterOrEqual(t, commits, 20)
}

// If two processes adopt a journal at once, it is adopted once, and both calls succeed.
func TestTwoAdoptions(t *testing.T) {
	defer sqlite.AdoptAtOnce(2)()
	path, j, s, ops := flying(t, 9)
	sqlite.Kill(s)
	require.NoError(t, j.Close())
	require.NoError(t, os.Remove(path+"-sidecar"))
	j = open(t, path)
	sideBySide(4, func(i int) {
		if i == 3 {
			assert.NoError(t, j.AdoptAs(t.Context(), strings.Repeat("d", 3)))
			return
		}
		assert.NoError(t, j.Adopt(t.Context()))
	})
	for _, op := range ops {
		now, err := j.Get(t.Context(), op.Ref)
		require.NoError(t, err)
		assert.True(t, now.Adopted)
	}
	assert.Empty(t, verify(t, j))
}
