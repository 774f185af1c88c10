//go:build unix

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// Stats and lists include another process's operations in the log.
func TestStatsAndListsSeeTheLogOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	child, lines := start(t, "hold", path)
	require.True(t, lines.Scan(), "it has begun something")
	listed := 0
	for _, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		listed++
	}
	st, err := j.Stats(t.Context())
	require.NoError(t, err)
	assert.Positive(t, listed)
	assert.Equal(t, int64(listed), st.Begun)
	require.Empty(t, verify(t, j))
	require.NoError(t, child.Process.Kill())
}

// Stats describe the commits that Options.Committed was called for: how many requests they carried, and how long they
// took.
func TestStatsOfCommits(t *testing.T) {
	var mu sync.Mutex
	var carried []int
	var took []time.Duration
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Committed: func(requests int, d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		carried, took = append(carried, requests), append(took, d)
	}})
	require.NoError(t, err)
	defer j.Close()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		_, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		if id != "c" {
			continue
		}
		release := sqlite.Hold(j)
		var together []chan error
		for n := range 2 {
			together = append(together, queued(t, j, n, func() error {
				_, err := j.Apply(t.Context(), begin(fmt.Sprint("together ", n), s))
				return err
			}))
		}
		release() // one commit has both
		for _, done := range together {
			require.NoError(t, <-done)
		}
	}
	var st sqlite.Stats
	until(t, func() bool {
		st, err = j.Stats(t.Context())
		mu.Lock()
		defer mu.Unlock()
		return err != nil || int(st.Commits) == len(carried) // Committed is called for the last one after its caller got the answer
	})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 1, 1, 1, 2, 1, 1}, carried, "the session is no request")
	assert.Equal(t, int64(8), st.Requests)
	assert.Equal(t, []int{1, 2}, []int{st.BatchP50, st.BatchMax})
	slices.Sort(took)
	assert.Equal(t, []time.Duration{took[3], took[5], took[6]}, []time.Duration{st.CommitP50, st.CommitP99, st.CommitMax})
}

// If a flow set aside is damaged, Stats do not know since when.
func TestStatsBesideADamagedFlow(t *testing.T) {
	path, j, s := joined(t)
	now := time.Now().Truncate(time.Millisecond).UTC()
	for n, id := range []string{"a", "b"} {
		f := beginFlow(t, j, s, id)
		_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventFail, Ref: f.Ref, Claim: f.Claim, Cause: "a test", Limit: 1,
			At: now.Add(time.Duration(n) * time.Minute)})
		require.NoError(t, err)
	}
	for n, damage := range []string{"PRAGMA user_version=1", "UPDATE onceward_flows SET version = version + 1 WHERE id = 'a'"} {
		alter(t, path, damage)
		st, err := j.Stats(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, st.FlowsSetAside)
		assert.Equal(t, now.Add(time.Duration(n)*time.Minute), st.OldestSetAside)
	}
}
