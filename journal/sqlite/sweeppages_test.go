//go:build unix

package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// halfSwept is a journal whose operations were first sent by a clock 30 hours ahead. The clock was reset. The sweep
// can't finish: the last operations are not swept until stop is called.
func halfSwept(t *testing.T) (path string, j *sqlite.Journal, s journal.Session, now time.Time, stop func()) {
	t.Helper()
	path, j, s = joined(t)
	now = time.Now().Truncate(time.Millisecond).UTC()
	far := now.Add(30 * time.Hour)
	seenAt(t, j, now)
	seenAt(t, j, far)
	seenAt(t, j, far.Add(journal.Confirmation))
	for i := range 5 {
		ev := begin(fmt.Sprint("op-", i), s)
		ev.At = far.Add(journal.Confirmation)
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		park := complete(begun.Operation, s)
		park.Kind, park.Answer, park.Open, park.At = journal.EventPark, nil, true, ev.At
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	stop = refuse(t, path, "DELETE ON onceward_sweeps")
	require.NoError(t, j.ResetClock(t.Context(), now))
	require.True(t, sqlite.Sweeping(j))
	return path, j, s, now, stop
}

// A begin of an operation that the sweep has not reached yet is decided as if it had, also by the next process.
func TestBeginDuringASweep(t *testing.T) {
	defer sqlite.SweepAtOnce(2)()
	path, j, s, now, stop := halfSwept(t)
	stored, err := j.Get(t.Context(), journal.Ref{ID: "op-4"})
	require.NoError(t, err)
	require.False(t, stored.WindowClosed)
	copied := afterAKill(t, path)
	ask := func(j *sqlite.Journal, s journal.Session) {
		for i := range 5 {
			ev := begin(fmt.Sprint("op-", i), s)
			ev.At = now.Add(time.Second)
			result, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
			assert.Equal(t, journal.Stop, result.Decision, "it is not known when it was sent")
			assert.True(t, result.Operation.WindowClosed)
		}
	}
	ask(j, s)
	stop()
	until(t, func() bool { return !sqlite.Sweeping(j) })
	assert.Empty(t, verify(t, j))

	next := open(t, copied)
	require.True(t, sqlite.Sweeping(next))
	s, err = next.Join(t.Context())
	require.NoError(t, err)
	ask(next, s)
	alter(t, copied, "DROP TRIGGER refuse")
	until(t, func() bool { return !sqlite.Sweeping(next) })
	assert.Empty(t, verify(t, next))
}

// An operation that changed during a sweep is not swept again.
func TestChangeDuringASweep(t *testing.T) {
	defer sqlite.SweepAtOnce(2)()
	_, j, s, now, stop := halfSwept(t)
	ev := begin("op-4", s)
	ev.At = now.Add(time.Second)
	result, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	require.Equal(t, journal.Stop, result.Decision)
	op := result.Operation
	resolve := journal.Event{Kind: journal.EventResolve, Ref: op.Ref, Handle: op.Handle, Claim: op.Claim, Generation: op.Generation, At: now.Add(time.Minute),
		Resolution: journal.SendAgain, Key: "another key", By: "ana", Cause: "it is not there"}
	_, err = j.Apply(t.Context(), resolve)
	require.NoError(t, err)
	ev.At = now.Add(time.Hour)
	result, err = j.Apply(t.Context(), ev)
	require.NoError(t, err)
	require.Equal(t, journal.Execute, result.Decision)
	before := result.Operation
	require.True(t, sqlite.Sweeping(j))
	stop()
	until(t, func() bool { return !sqlite.Sweeping(j) })
	after, err := j.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	assert.False(t, after.WindowClosed)
	assert.Equal(t, before.FirstSentAt, after.FirstSentAt)
	assert.Equal(t, before.UpdatedAt, after.UpdatedAt)
	for i := range 4 {
		swept, err := j.Get(t.Context(), journal.Ref{ID: fmt.Sprint("op-", i)})
		require.NoError(t, err)
		assert.True(t, swept.WindowClosed)
	}
	assert.Empty(t, verify(t, j))
}

// An operation that a transaction of the application enqueues during a sweep is swept too.
func TestEnqueueDuringASweep(t *testing.T) {
	defer sqlite.SweepAtOnce(2)()
	path, j, _, now, stop := halfSwept(t)
	tx, err := application(t, path).Begin()
	require.NoError(t, err)
	ev := enqueue("new")
	ev.At = now.Add(time.Second)
	_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.NoError(t, sqlite.Flush(j))
	stop()
	until(t, func() bool { return !sqlite.Sweeping(j) })
	op, err := j.Get(t.Context(), ev.Ref)
	require.NoError(t, err)
	assert.Equal(t, ev.At, op.CreatedAt)
	assert.Empty(t, verify(t, j))
}

// No process uses a damaged record of a sweep.
func TestDamagedSweep(t *testing.T) {
	defer sqlite.SweepAtOnce(2)()
	path, j, _, _, _ := halfSwept(t)
	require.NoError(t, j.Close())
	alter(t, path, "UPDATE onceward_sweeps SET position = position + 1")
	_, err := sqlite.Open(path, sqlite.Options{})
	require.ErrorContains(t, err, "damaged")
	j, err = sqlite.Open(path, sqlite.Options{ReadOnly: true})
	require.NoError(t, err)
	assert.Contains(t, fmt.Sprint(verify(t, j)), "onceward_sweeps")
	require.NoError(t, j.Close())
}

// A journal that sweeps its operations one by one answers every event like one that sweeps all at once, whatever the
// clock does meanwhile.
func TestSweepsOneByOneOrAtOnce(t *testing.T) {
	seed := soak.Seed(t, 1)
	results := make([][2][]journal.Result, soak.Times(2, 100))
	for way, atOnce := range []int{1000, 1} {
		restore := sqlite.SweepAtOnce(atOnce)
		t.Run(fmt.Sprint(atOnce), func(t *testing.T) { // returns once all of its subtests have ended
			for n := range results {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { results[n][way] = sweptHistory(t, rand.New(rand.NewPCG(seed, uint64(n)))) })
				})
			}
		})
		restore()
	}
	for n, ways := range results {
		require.Len(t, ways[1], len(ways[0]), "history %d", n)
		for i, want := range ways[0] {
			require.Equal(t, want, ways[1][i], "history %d, event %d", n, i)
		}
	}
}

// sweptHistory returns the results of a history of one journal, and then its operations.
func sweptHistory(t *testing.T, random *rand.Rand) (results []journal.Result) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := sqlite.Open(path, sqlite.Options{})
	require.NoError(t, err)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	swept := func() {
		for sqlite.Sweeping(j) {
			continue
		}
	}
	now := schemaFileTime
	known := make(map[string]journal.Operation)
	for step := range 700 {
		now = now.Add(time.Duration(random.IntN(60)) * time.Second)
		id := fmt.Sprint("op-", random.IntN(60))
		op := known[id]
		var ev journal.Event
		switch random.IntN(12) {
		case 0:
			now = now.Add(time.Duration(random.IntN(80)-20) * time.Hour)
			continue
		case 1:
			now = now.Add(journal.Confirmation)
			continue
		case 2:
			require.NoError(t, j.ResetClock(t.Context(), now))
			continue
		case 3:
			require.NoError(t, sqlite.Fold(j))
			continue
		case 4, 5:
			ev = complete(op, s)
			ev.Kind, ev.Answer, ev.Open, ev.Due = journal.EventPark, nil, true, now.Add(time.Duration(random.IntN(48))*time.Hour)
		case 6:
			ev = complete(op, s)
			ev.Kind, ev.Answer, ev.Unsent = journal.EventCancel, nil, true
		case 7:
			ev = journal.Event{Kind: journal.EventClock}
		default:
			ev = begin(id, s)
		}
		ev.At = now
		if step%150 == 149 { // the next process goes on
			require.NoError(t, s.End(t.Context()))
			require.NoError(t, j.Close())
			j, err = sqlite.Open(path, sqlite.Options{})
			require.NoError(t, err)
			s, err = j.Join(t.Context())
			require.NoError(t, err)
			continue
		}
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		if result.Operation.Handle != 0 {
			known[id] = result.Operation
		}
		result.Operation.Holder = ""
		result.Operation.Request = journal.Request{}
		results = append(results, result)
	}
	swept()
	for _, op := range listed(t, j, journal.Filter{}) {
		op.Holder = ""
		results = append(results, journal.Result{Operation: op})
	}
	assert.Empty(t, verify(t, j))
	require.NoError(t, j.Close())
	return results
}

// A cancelled operation that a transaction enqueues again during an old sweep is due at the transaction's time.
func TestRepeatedEnqueueDuringASweep(t *testing.T) {
	defer sqlite.SweepAtOnce(2)()
	path, j, s := joined(t)
	now := time.Now().Truncate(time.Millisecond).UTC()
	for i := range 5 {
		ev := begin(fmt.Sprint("op-", i), s)
		ev.At = now
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		cancel := complete(begun.Operation, s)
		cancel.Kind, cancel.Answer, cancel.Unsent, cancel.At = journal.EventCancel, nil, true, now
		_, err = j.Apply(t.Context(), cancel)
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	stop := refuse(t, path, "DELETE ON onceward_sweeps")
	require.NoError(t, j.ResetClock(t.Context(), now))
	require.True(t, sqlite.Sweeping(j))
	tx, err := application(t, path).Begin()
	require.NoError(t, err)
	ev := enqueue("op-4")
	ev.At = now.Add(7 * 24 * time.Hour)
	ev.Due = ev.At.Add(3 * 24 * time.Hour)
	result, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
	require.NoError(t, err)
	require.Equal(t, journal.Recorded, result.Decision)
	require.NoError(t, tx.Commit())
	require.NoError(t, sqlite.Flush(j))
	stop()
	until(t, func() bool { return !sqlite.Sweeping(j) })
	op, err := j.Get(t.Context(), ev.Ref)
	require.NoError(t, err)
	assert.Equal(t, ev.Due, op.DueAt)
	assert.Equal(t, ev.At, op.UpdatedAt)
	assert.Empty(t, verify(t, j))
}
