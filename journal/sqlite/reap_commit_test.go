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

// longAgo is when the operations of these tests were settled.
var longAgo = time.Now().Add(-1000 * time.Hour)

// ended begins an operation long ago, and ends it by an event of that kind.
func ended(t *testing.T, j *sqlite.Journal, s journal.Session, ev journal.Event, kind journal.EventKind) {
	t.Helper()
	ev.At = longAgo
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	end := complete(begun.Operation, s)
	if end.At, end.Kind = longAgo, kind; kind != journal.EventComplete {
		end.Answer, end.Unsent = nil, true
	}
	_, err = j.Apply(t.Context(), end)
	require.NoError(t, err)
}

// No commit of the reaper has more operations than its bound, and none has far fewer.
func TestReapCommitsAFewAtATime(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		many, size, least, most int
	}{
		"small ones": {250, 10, 3, 6},
		"large ones": {6, 600 << 10, 6, 9},
	} {
		for where, kind := range map[string]journal.EventKind{"in blocks": journal.EventComplete, "in rows": journal.EventCancel} {
			t.Run(name+" "+where, func(t *testing.T) {
				_, j, s := joined(t)
				body := noise(row.size)
				for n := range row.many {
					ev := begin(fmt.Sprint("op-", n), s)
					ev.Intent.Request.Body = body
					ended(t, j, s, ev, kind)
				}
				require.NoError(t, sqlite.Fold(j))
				seenAt(t, j, time.Now().Add(-journal.Confirmation))
				before := commitsOf(t, j)
				n, err := reap(t, j, 1000)
				require.NoError(t, err)
				require.Equal(t, row.many, n)
				commits := commitsOf(t, j) - before
				assert.GreaterOrEqual(t, commits, int64(row.least))
				assert.LessOrEqual(t, commits, int64(row.most))
			})
		}
	}
}

// Operations that are not due to be reaped take no place of those that are.
func TestReapSkipsKeptOperations(t *testing.T) {
	_, j, s := joined(t)
	for n := range 6 {
		ev := begin(fmt.Sprint("op-", n), s)
		if n < 3 {
			ev.Intent.Terms.Retention = 5000 * time.Hour
		}
		ended(t, j, s, ev, journal.EventCancel)
	}
	require.NoError(t, sqlite.Fold(j))
	seenAt(t, j, time.Now().Add(-journal.Confirmation))
	n, err := reap(t, j, 3)
	require.NoError(t, err)
	assert.Equal(t, 3, n)
}

// A pending operation stays in the log while others are reaped, since it is likely to change soon.
func TestReapLeavesTheLogAlone(t *testing.T) {
	path, j, s := joined(t)
	ended(t, j, s, begin("cancelled", s), journal.EventCancel)
	ended(t, j, s, begin("pending", s), journal.EventPark)
	seenAt(t, j, time.Now().Add(-journal.Confirmation))
	n, err := reap(t, j, 10)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.Empty(t, rowsIn(t, path, "handle", "onceward_operations"))
	assert.True(t, has(t, j, "pending"))
}

func TestReapTakesNothingButAReap(t *testing.T) {
	_, j, _ := joined(t)
	_, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventDeliver, At: time.Now()}, 1)
	var refused *journal.EventError
	require.ErrorAs(t, err, &refused)
}

// A segment is spent once nothing in it is left to reap, and not before. Operations that are kept, or still in the log,
// delay that.
func TestReapSpendsASegment(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		kept  int // number of the segment's last operations that are kept
		spent bool
	}{"whole": {0, true}, "all but one": {1, false}, "all but those in the log": {100, false}} {
		t.Run(name, func(t *testing.T) {
			path, j, s := joined(t)
			first := sqlite.SegmentSize - 1 - row.kept
			for n := range sqlite.SegmentSize - 1 {
				if n < first {
					ended(t, j, s, generate(fmt.Sprint("op-", n), s), journal.EventComplete)
					continue
				}
				ev := begin(fmt.Sprint("kept-", n), s)
				ev.Intent.Terms.Retention = 5000 * time.Hour
				ended(t, j, s, ev, journal.EventComplete)
			}
			if row.kept != 100 {
				require.NoError(t, sqlite.Fold(j))
			}
			seenAt(t, j, time.Now().Add(-journal.Confirmation))
			n, err := reap(t, j, 1<<20)
			require.NoError(t, err)
			assert.Equal(t, first, n)
			assert.Empty(t, verify(t, j))
			rows := rowsIn(t, path, "spent", "onceward_segments")
			require.Len(t, rows, 1)
			assert.Equal(t, row.spent, rows[0][0] == int64(1))
			require.NoError(t, sqlite.Fold(j))
			assert.Empty(t, verify(t, j))
		})
	}
}

// Operations after a sealed segment are reaped too, though the segment contains a damaged one.
func TestReapAfterASegmentThatIsDamaged(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	for n := range sqlite.SegmentSize {
		ended(t, j, s, begin(fmt.Sprint("op-", n), s), journal.EventCancel)
	}
	require.NoError(t, sqlite.Fold(j))
	alter(t, path, "UPDATE onceward_operations SET facts = zeroblob(length(facts)) WHERE id = 'op-0'")
	seenAt(t, j, time.Now().Add(-journal.Confirmation))
	n, err := reap(t, j, 1<<20)
	require.ErrorContains(t, err, "is passed over")
	assert.Equal(t, sqlite.SegmentSize-1, n)
}

// The tombstones of a spent segment are listed by every filter that matches them.
func TestReapLeavesTombstonesToBeListed(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	for n := range sqlite.SegmentSize - 1 {
		ev := generate(fmt.Sprint("op-", n), s)
		if n < 3 {
			ev = begin(fmt.Sprint("named-", n), s)
		}
		ended(t, j, s, ev, journal.EventComplete)
	}
	require.NoError(t, sqlite.Fold(j))
	seenAt(t, j, time.Now().Add(-journal.Confirmation))
	n, err := reap(t, j, 1<<20)
	require.NoError(t, err)
	require.Equal(t, sqlite.SegmentSize-1, n)
	require.Equal(t, int64(1), rowsIn(t, path, "spent", "onceward_segments")[0][0])
	scope, listed := "", 0
	for op, err := range j.List(t.Context(), journal.Filter{Scope: &scope}) {
		require.NoError(t, err)
		assert.True(t, op.Tombstone)
		listed++
	}
	assert.Equal(t, 3, listed)
	assert.Len(t, rowsIn(t, path, "first", "onceward_contents"), 1, "lists of other scopes pass over it")
	assert.Empty(t, verify(t, j))
}

// An operation that is damaged after it was archived is an error, and stays.
func TestReapOfAnOperationDamagedMeanwhile(t *testing.T) {
	path, j, s, archive := archiving(t)
	ended(t, j, s, begin("cancelled", s), journal.EventCancel)
	require.NoError(t, sqlite.Fold(j))
	seenAt(t, j, time.Now().Add(-journal.Confirmation))
	archive.do = func() {
		alter(t, path, "UPDATE onceward_operations SET facts = zeroblob(length(facts)) WHERE id = 'cancelled'")
	}
	n, err := reap(t, j, 100)
	require.Nil(t, archive.do)
	require.ErrorContains(t, err, "damaged", n)
	assert.Zero(t, n)
}
