//go:build unix

package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// If one commit removes operations of several segments, each segment records its own.
func TestRemovedFromTwoSegments(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	for n := range sqlite.SegmentSize {
		ended(t, j, s, begin(fmt.Sprint("op-", n), s), journal.EventCancel)
	}
	require.NoError(t, sqlite.Fold(j))
	seenAt(t, j, time.Now().Add(-journal.Confirmation))
	seenAt(t, j, time.Now())
	db := application(t, path)
	release := sqlite.Hold(j)
	var removed []chan error
	names := []string{"op-0", "op-1", fmt.Sprint("op-", sqlite.SegmentSize-1)}
	for n, name := range names {
		removed = append(removed, queued(t, j, n, func() error {
			_, err := j.Apply(t.Context(), journal.Event{Kind: journal.EventReap, Ref: journal.Ref{ID: name}, At: time.Now()})
			return err
		}))
	}
	release()
	for n, err := range removed {
		require.NoError(t, <-err, names[n])
		assert.False(t, has(t, j, names[n]))
		result, _, err := wouldEnqueue(t, j, db, enqueue(names[n]))
		require.NoError(t, err)
		assert.Equal(t, journal.Recorded, result.Decision, names[n])
	}
	assert.Empty(t, verify(t, j))

	alter(t, path, "DELETE FROM onceward_operations; DELETE FROM onceward_blocks")
	_, _, err := wouldEnqueue(t, j, db, enqueue("op-2"))
	require.ErrorContains(t, err, "damaged", "nobody removed it")
	alter(t, path, "UPDATE onceward_removed SET bits = x'00'")
	_, _, err = wouldEnqueue(t, j, db, enqueue(names[0]))
	require.ErrorContains(t, err, "damaged", "it can't be told whether anybody did")
}

// A segment's unreadable record of its removed operations is not overwritten. No further operation of the segment is
// removed.
func TestRemovalBesideADamagedMap(t *testing.T) {
	for _, damaged := range []string{"zeroblob(length(bits))", "x'00'"} {
		path, j, s := joined(t)
		for _, id := range []string{"a", "b"} {
			ended(t, j, s, begin(id, s), journal.EventCancel)
		}
		require.NoError(t, sqlite.Fold(j))
		seenAt(t, j, time.Now().Add(-journal.Confirmation))
		seenAt(t, j, time.Now())
		removes := func(id string) error {
			_, err := j.Apply(t.Context(), journal.Event{Kind: journal.EventReap, Ref: journal.Ref{ID: id}, At: time.Now()})
			return err
		}
		require.NoError(t, removes("a"))
		require.False(t, has(t, j, "a"))
		alter(t, path, "UPDATE onceward_removed SET bits = "+damaged)
		require.ErrorContains(t, removes("b"), "damaged")
		assert.True(t, has(t, j, "b"))
	}
}
