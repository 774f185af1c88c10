//go:build unix

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// Names are found, whatever fails as a segment ends. Around a segment's end, each operation is begun by a commit that
// fails, and then by one that succeeds.
func TestSegmentsAreSealedDespiteFailures(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	var there, lost []string
	for _, end := range []int{sqlite.SegmentSize, 2 * sqlite.SegmentSize, 3 * sqlite.SegmentSize} {
		sideBySide(end-4-newest(t, path), func(i int) {
			begun, err := j.Apply(t.Context(), generate(fmt.Sprint(end, "-", i), s))
			if assert.NoError(t, err) {
				_, err = j.Apply(t.Context(), complete(begun.Operation, s))
				assert.NoError(t, err)
			}
		})
		for n := range 8 {
			name := fmt.Sprint("invoice-", end, "-", n)
			if end != 2*sqlite.SegmentSize || n%2 == 0 { // no call looks for a name meanwhile
				require.False(t, has(t, j, name))
			}
			stop := refuse(t, path, "INSERT ON onceward_log")
			ev := generate("lost "+name, s)
			_, err := j.Apply(t.Context(), ev)
			require.ErrorContains(t, err, "refused by the test")
			stop()
			_, err = j.Apply(t.Context(), generate(name, s))
			require.NoError(t, err)
			there, lost = append(there, name), append(lost, "lost "+name)
			if newest(t, path)%sqlite.SegmentSize == sqlite.SegmentSize-1 {
				assert.Empty(t, verify(t, j), "with the segment's last")
			}
		}
	}
	for range 2 {
		for i := range there {
			result, err := j.Apply(t.Context(), begin(there[i], s))
			require.NoError(t, err)
			assert.Equal(t, journal.Wait, result.Decision, there[i])
			isOneCandidate(t, j, there[i])
			assert.False(t, has(t, j, lost[i]), lost[i])
		}
		assert.Empty(t, verify(t, j))
		require.NoError(t, sqlite.Fold(j))
	}
}

// newest is the latest handle that was given out.
func newest(t *testing.T, path string) (handle int) {
	t.Helper()
	require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), "SELECT newest FROM onceward_log ORDER BY seq DESC LIMIT 1").Scan(&handle))
	return handle
}

// The latest operations stay in the log, and earlier ones do not.
func TestLogKeepsTheLatestOperations(t *testing.T) {
	t.Parallel()
	const kept = 512 // keepRecent
	for name, row := range map[string]struct {
		body, times    int
		fewest, latest int // operations that only the log has
	}{
		"small ones":       {10, soak.Times(700, 1300), kept, kept + 40},
		"of four kilobyte": {4 << 10, soak.Times(700, 1300), kept, kept + 40},
		"large ones":       {1 << 20, 20, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			path, j, s := joined(t)
			body := noise(row.body)
			for i := range row.times {
				ev := generate(fmt.Sprint("op-", i), s)
				ev.Intent.Request.Body = body
				begun, err := j.Apply(t.Context(), ev)
				require.NoError(t, err)
				_, err = j.Apply(t.Context(), complete(begun.Operation, s))
				require.NoError(t, err)
			}
			var rows, newest, folded int
			require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(),
				"SELECT (SELECT count(*) FROM onceward_log), newest, folded FROM onceward_log ORDER BY seq DESC LIMIT 1").Scan(&rows, &newest, &folded))
			assert.GreaterOrEqual(t, newest-folded, row.fewest)
			assert.LessOrEqual(t, newest-folded, row.latest)
			assert.LessOrEqual(t, rows, 2*(newest-folded)+60, "what speaks of others alone is removed")
		})
	}
}

func TestABlockHasNoMoreThanItMay(t *testing.T) {
	path, j, s := joined(t)
	for i := range 16 {
		ev := generate(fmt.Sprint("op-", i), s)
		ev.Intent.Request.Body = noise(20 << 10)
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	var blocks, largest int
	require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), "SELECT count(*), max(length(data)) FROM onceward_blocks").Scan(&blocks, &largest))
	assert.Equal(t, 6, blocks, "three in each")
	assert.LessOrEqual(t, largest, 64<<10)
}

// An operation that changed after it was folded is read in its present state.
func TestFoldedAndChangedIsReadAsItIs(t *testing.T) {
	_, j, s := joined(t)
	ev := begin("invoice-1", s)
	ev.Intent.Alias = aliasOf("invoice-1")
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	done := complete(begun.Operation, s)
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	for _, ref := range []journal.Ref{ev.Ref, ev.Intent.Alias} {
		op, err := j.Get(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, journal.StateCompleted, op.State)
	}
	done.Answer = &journal.Answer{Status: 201, Body: []byte("another")}
	_, err = j.Apply(t.Context(), done) // by its handle
	require.NoError(t, err)
	op, err := j.Get(t.Context(), ev.Ref)
	require.NoError(t, err)
	assert.Equal(t, "paid invoice-1", string(op.Answer.Body), "the first answer stays")
}

// The latest time is written by itself once it has moved on by more than an hour.
func TestLatestTimeIsWrittenAfterAnHour(t *testing.T) {
	for ahead, written := range map[time.Duration]bool{time.Hour: false, time.Hour + time.Millisecond: true} {
		path, j, s := joined(t)
		begun, err := j.Apply(t.Context(), begin("invoice-1", s))
		require.NoError(t, err)
		var last time.Time
		for n := 1; n <= 4; n++ { // in steps, so that none is a jump
			last = seenAt(t, j, begun.Last.Add(time.Duration(n)*ahead/4)).Last
		}
		copied := filepath.Join(t.TempDir(), "journal.db")
		for _, name := range filesOf(t, path) { // as it is found after a kill
			if suffix := name[len(path):]; suffix != "-shm" {
				copyFile(t, name, copied+suffix)
			}
		}
		result := seenAt(t, open(t, copied), begun.Last)
		assert.Equal(t, written, result.Last.Equal(last), ahead)
	}
}

// If another process changed an operation, memory's copy is not used.
func TestChangedByAnotherIsNotFromMemory(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	require.NoError(t, sqlite.Change(path, begun.Operation.Ref, func(op *journal.Operation) { op.Claim = 7 }))
	result, err := j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	assert.EqualValues(t, 7, result.Operation.Claim)
	alter(t, path, "DELETE FROM onceward_sessions")
	_, err = j.Apply(t.Context(), begin("invoice-2", s))
	require.ErrorIs(t, err, journal.ErrSessionLost)
	assert.True(t, s.Lost())
}

// Two names with one hash are two names.
func TestNameThatCollides(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	db := application(t, path)
	sideBySide(4*sqlite.SegmentSize, func(i int) {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("op-", i), s))
		if assert.NoError(t, err) && i%2 == 0 { // the others have rows of their own
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			assert.NoError(t, err)
		}
	})
	require.NoError(t, sqlite.Fold(j))
	require.False(t, has(t, j, "none"))
	looking, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	defer looking.Close()
	var names []string
	for n := 0; len(names) < 8; n++ {
		name := fmt.Sprint("name-", n)
		if len(sqlite.Candidates(j, journal.Ref{ID: name})) == 0 {
			continue
		}
		names = append(names, name)
		require.False(t, has(t, j, name))
		require.False(t, has(t, looking, name))
		enqueued, _, err := wouldEnqueue(t, j, db, enqueue(name))
		require.NoError(t, err)
		require.Equal(t, journal.Recorded, enqueued.Decision, name)
		result, err := j.Apply(t.Context(), begin(name, s))
		require.NoError(t, err)
		require.Equal(t, journal.Execute, result.Decision)
		_, err = j.Apply(t.Context(), complete(result.Operation, s))
		require.NoError(t, err)
	}
	sideBySide(sqlite.SegmentSize, func(i int) { // they end up in a sealed segment
		_, err := j.Apply(t.Context(), generate(fmt.Sprint("other-", i), s))
		assert.NoError(t, err)
	})
	require.NoError(t, sqlite.Fold(j))
	require.False(t, has(t, j, "none"))
	for _, name := range names {
		require.Greater(t, len(sqlite.Candidates(j, journal.Ref{ID: name})), 1, name)
		assert.True(t, has(t, j, name), name)
	}
}

// A name whose block is missing is an error, and never an absence.
func TestNameWhoseBlockIsMissing(t *testing.T) {
	for _, where := range []string{"known", "opened since", "begun at once"} {
		t.Run(where, func(t *testing.T) {
			path, j, s := joined(t)
			begun, err := j.Apply(t.Context(), begin("invoice-1", s))
			require.NoError(t, err)
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			require.NoError(t, err)
			require.NoError(t, sqlite.Fold(j))
			if where == "known" {
				require.True(t, has(t, j, "invoice-1"))
			}
			if where != "known" {
				require.NoError(t, j.Close())
			}
			alter(t, path, "DELETE FROM onceward_blocks")
			if where != "known" {
				j = open(t, path)
				s, err = j.Join(t.Context())
				require.NoError(t, err)
			}
			if where != "begun at once" {
				for range 2 {
					_, err = j.Get(t.Context(), begun.Operation.Ref)
					require.ErrorContains(t, err, "damaged")
				}
			}
			_, err = j.Apply(t.Context(), begin("invoice-1", s))
			require.ErrorContains(t, err, "damaged")
		})
	}
}

// A reaped name whose block is missing is an error too, both for a begin and for an enqueue.
func TestReapedNameWhoseBlockIsMissing(t *testing.T) {
	path, j, s := joined(t)
	ripe(t, j, 2*sqlite.SegmentSize+100)
	_, err := reap(t, j, 1<<20)
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	db := application(t, path)
	enqueues := func(id string) (journal.Decision, error) {
		tx, err := db.Begin()
		require.NoError(t, err)
		defer tx.Rollback()
		res, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue(id))
		return res.Decision, err
	}
	names := []string{"named-2", fmt.Sprint("named-", sqlite.SegmentSize+300), fmt.Sprint("named-", 2*sqlite.SegmentSize+50)}
	for _, name := range names {
		decision, err := enqueues(name)
		require.NoError(t, err)
		require.NotEqual(t, journal.Recorded, decision, name)
	}
	alter(t, path, "DELETE FROM onceward_blocks; DELETE FROM onceward_operations")
	for _, name := range names {
		_, err := enqueues(name)
		require.ErrorContains(t, err, "damaged", name)
		_, err = j.Apply(t.Context(), begin(name, s))
		require.ErrorContains(t, err, "damaged", name)
	}
}

// An operation with an unreadable request is not claimed by a begin.
func TestBeginOfARequestThatIsGone(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	park := complete(begun.Operation, s)
	park.Kind, park.Answer, park.Open, park.Delivered = journal.EventPark, nil, true, false
	_, err = j.Apply(t.Context(), park)
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	alter(t, path, "UPDATE onceward_operations SET request_body = NULL")
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.ErrorContains(t, err, "damaged")
	_, err = j.Join(t.Context()) // this commits whatever the failed begin has left
	require.NoError(t, err)
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		assert.Equal(t, journal.StatePending, op.State)
		assert.EqualValues(t, 1, op.Claim)
	}
}

// The answer to an unreadable request is still recorded.
func TestAnswerToARequestThatIsGone(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	alter(t, path, "UPDATE onceward_operations SET request_body = NULL")
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		assert.Equal(t, journal.StateCompleted, op.State)
	}
}
