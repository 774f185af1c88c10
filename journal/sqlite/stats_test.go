package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// Options.Committed is called for every commit that Stats count.
func TestCommittedHearsOfCommits(t *testing.T) {
	var commits, requests atomic.Int64
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Committed: func(n int, took time.Duration) {
		commits.Add(1)
		requests.Add(int64(n))
		assert.Positive(t, took)
	}})
	require.NoError(t, err)
	goOn(t, j, "invoice-1")
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	others(t, j, s, "many")
	st, err := j.Stats(t.Context())
	require.NoError(t, err)
	require.NoError(t, j.Close())
	assert.GreaterOrEqual(t, commits.Load(), st.Commits)
	assert.GreaterOrEqual(t, requests.Load(), st.Requests)
	assert.Greater(t, st.Commits, int64(2))
}

// Stats count operations wherever they are stored.
func TestStatsCountWhereverKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	stats := func(j *sqlite.Journal) sqlite.Stats {
		t.Helper()
		s, err := j.Stats(t.Context())
		require.NoError(t, err)
		return s
	}
	fresh := stats(j)
	assert.Zero(t, fresh.Begun+fresh.Pending+fresh.InFlight+fresh.Unknown+fresh.Cancelled)
	assert.Zero(t, fresh.OldestPending)

	s, err := j.Join(t.Context())
	require.NoError(t, err)
	first := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
	leaveSome := func(name string, at time.Time) {
		for kind, n := range map[machine.EventKind]int{0: 1, machine.EventPark: 2, machine.EventMarkUnknown: 3, machine.EventCancel: 4} {
			for i := range n {
				ev := begin(fmt.Sprint(name, kind, i), s)
				ev.At = at
				begun, err := j.Apply(t.Context(), ev)
				require.NoError(t, err)
				if kind == 0 {
					continue
				}
				ev = complete(begun.Operation, s)
				ev.Kind, ev.Answer, ev.Delivered = kind, nil, false
				ev.Unsent, ev.Open = kind == machine.EventCancel, kind == machine.EventMarkUnknown
				_, err = j.Apply(t.Context(), ev)
				require.NoError(t, err)
			}
		}
	}
	leaveSome("old", first)
	check := func(j *sqlite.Journal, times, begun int64) {
		t.Helper()
		s := stats(j)
		assert.Equal(t, []int64{times, 2 * times, 3 * times, 4 * times}, []int64{s.InFlight, s.Pending, s.Unknown, s.Cancelled})
		assert.Equal(t, begun, s.Begun)
		assert.Equal(t, first, s.OldestPending)
	}
	check(j, 1, 10)
	others(t, j, s, "many")
	check(j, 1, 10+manyOthers)
	leaveSome("new", time.Now())
	check(j, 2, 20+manyOthers)
	check(j, 2, 20+manyOthers)

	st := stats(j)
	assert.Positive(t, st.WALBytes)
	assert.GreaterOrEqual(t, st.FileBytes, st.FreeBytes)
	assert.GreaterOrEqual(t, st.Requests, int64(2*manyOthers+20))
	assert.LessOrEqual(t, st.BatchP50, st.BatchMax)
	assert.Positive(t, st.CommitP50)
	assert.LessOrEqual(t, st.CommitP50, st.CommitP99)
	assert.LessOrEqual(t, st.CommitP99, st.CommitMax)

	require.NoError(t, j.Close())
	_, err = j.Stats(t.Context())
	require.ErrorIs(t, err, journal.ErrClosed)
}

// Damaged operations are counted with the others.
func TestStatsBesideADamagedOperation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	parked(t, path, "a", "b")
	j := open(t, path)
	b, err := j.Get(t.Context(), journal.Ref{ID: "b"})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	alter(t, path, "UPDATE onceward_rows SET record = zeroblob(length(record)) WHERE instr(record, CAST('key-of-a' AS BLOB)) > 0")
	j = open(t, path)
	st, err := j.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, int(st.Pending))
	assert.Equal(t, b.CreatedAt, st.OldestPending)
}

// parked leaves pending operations with these IDs.
func parked(t *testing.T, path string, ids ...string) {
	t.Helper()
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for _, id := range ids {
		begun, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		park := complete(begun.Operation, s)
		park.Kind, park.Answer, park.Unsent = machine.EventPark, nil, true
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
}

// A caller whose context has ended gets its error, each time.
func TestStatsWithAnExpiredContext(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 32 {
		_, err := j.Stats(ctx)
		require.ErrorIs(t, err, context.Canceled)
	}
}

// Stats of a backup that was not adopted say when it was made, whatever lies beside it.
func TestStatsOfABackup(t *testing.T) {
	path, backup := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "backup.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	require.NoError(t, j.Backup(t.Context(), backup))
	for range 2 {
		j := open(t, backup)
		st, err := j.Stats(t.Context())
		require.NoError(t, err)
		assert.Contains(t, st.Restored, "is the backup that was made at")
		require.NoError(t, j.Close())
		copyFile(t, path+"-sidecar", backup+"-sidecar")
	}
}
