package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite"
)

// A damaged operation keeps no other from being reaped, and its segment is examined again.
func TestReapBesideADamagedOperation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage string
		least  int
	}{
		"in a row":   {"UPDATE onceward_operations SET facts = zeroblob(length(facts)) WHERE id = 'damaged'", 1000},
		"in a block": {"UPDATE onceward_blocks SET data = zeroblob(length(data)) WHERE first = (SELECT min(first) FROM onceward_blocks)", 500},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			parked(t, path, "damaged")
			j := open(t, path)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			others(t, j, s, "many")
			require.NoError(t, s.End(t.Context()))
			require.NoError(t, j.Close())
			alter(t, path, tc.damage)
			j = open(t, path)
			now := time.Now()
			for range 4 {
				now = now.Add(journal.Leap / 2)
				seenAt(t, j, now)
			}
			reap := func() int {
				n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: now, Keep: time.Hour}, 1e6)
				require.ErrorContains(t, err, "is passed over")
				return n
			}
			assert.GreaterOrEqual(t, reap(), tc.least)
			assert.Zero(t, reap())
		})
	}
}

// Operations beyond the limit stay as they are, though their block has others that are reaped.
func TestReapOfABlockAndNoMore(t *testing.T) {
	path, j, s := joined(t)
	then := time.Now().Add(-1000 * time.Hour)
	const many = 6 * format.BlockSize
	for n := range many {
		ev := begin(fmt.Sprint("op-", n), s)
		ev.At = then
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		done := complete(begun.Operation, s)
		done.At = then
		_, err = j.Apply(t.Context(), done)
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	seenAt(t, j, time.Now().Add(-journal.Confirmation))
	require.Equal(t, 6, one[int](t, anotherProcess(t, path), "SELECT count(*) FROM onceward_blocks"))
	for _, limit := range []int{format.BlockSize, 5} {
		n, err := reap(t, j, limit)
		require.NoError(t, err)
		assert.Equal(t, limit, n)
		assert.Empty(t, verify(t, j))
		for n := range many {
			_, err := j.Get(t.Context(), journal.Ref{ID: fmt.Sprint("op-", n)})
			require.NoError(t, err, n)
		}
	}
}

// meanwhile is an archive that calls do at the first write.
type meanwhile struct{ do func() }

func (w *meanwhile) Write(p []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return len(p), nil
}

// archiving is a journal with such an archive.
func archiving(t *testing.T) (path string, j *sqlite.Journal, s journal.Session, archive *meanwhile) {
	t.Helper()
	path, archive = filepath.Join(t.TempDir(), "journal.db"), new(meanwhile)
	j, err := sqlite.Open(path, sqlite.Options{Archive: archive})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	return path, j, s, archive
}

// If another process has reaped a block meanwhile, the block before it stays.
func TestReapOfABlockThatAnotherReaped(t *testing.T) {
	path, j, s, archive := archiving(t)
	then := time.Now().Add(-1000 * time.Hour)
	for n := range 2 * format.BlockSize {
		ev := begin(fmt.Sprint("op-", n), s)
		if ev.At = then; n < format.BlockSize {
			ev.Intent.Terms.Retention = 5000 * time.Hour
		}
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		done := complete(begun.Operation, s)
		done.At = then
		_, err = j.Apply(t.Context(), done)
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	seenAt(t, j, time.Now().Add(-journal.Confirmation))
	require.Equal(t, 2, one[int](t, anotherProcess(t, path), "SELECT count(*) FROM onceward_blocks"))
	archive.do = func() { alter(t, path, "DELETE FROM onceward_blocks WHERE first > 1") }
	n, err := reap(t, j, 100)
	require.NoError(t, err)
	assert.Zero(t, n)
	require.Nil(t, archive.do)
	for n := range format.BlockSize {
		_, err := j.Get(t.Context(), journal.Ref{ID: fmt.Sprint("op-", n)})
		require.NoError(t, err, n)
	}
}
