//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// slow is a journal whose commits take as long as the test likes.
type slow struct {
	*sqlite.Journal
	journal.Session
	t    *testing.T
	path string
	disk *disk

	syncing chan struct{} // receives when the WAL is about to be synced
	results chan int32    // what that returns
	asked   sync.WaitGroup
}

func openSlow(t *testing.T, opts *sqlite.Options) *slow {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	disk := record(t, path)
	j, err := sqlite.Open(path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	session, err := j.Join(t.Context())
	require.NoError(t, err)
	require.False(t, has(t, j, "anything")) // from now on, who looks for an ID does not wait for the writer
	s := &slow{Journal: j, Session: session, t: t, path: path, disk: disk, syncing: make(chan struct{}), results: make(chan int32)}
	fault := func(what diskDid, file string) int32 {
		if what != synced || file != "-wal" {
			return sqlite3.SQLITE_OK
		}
		s.syncing <- struct{}{}
		return <-s.results
	}
	disk.fault.Store(&fault)
	return s
}

// quick ends that.
func (s *slow) quick() { s.disk.fault.Store(nil) }

// ask applies an event beside the test, and returns where its result will be.
func (s *slow) ask(ctx context.Context, ev journal.Event) *asked {
	a := &asked{done: make(chan struct{})}
	s.asked.Go(func() {
		defer close(a.done)
		a.result, a.err = s.Apply(ctx, ev)
	})
	return a
}

type asked struct {
	done   chan struct{}
	result journal.Result
	err    error
}

func (a *asked) wait() (journal.Result, error) {
	<-a.done
	return a.result, a.err
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		require.NoError(t, t.Context().Err())
		runtime.Gosched()
	}
}

// alone has an event committed by itself.
func (s *slow) alone(ev journal.Event) journal.Operation {
	s.t.Helper()
	a := s.ask(s.t.Context(), ev)
	<-s.syncing
	s.results <- sqlite3.SQLITE_OK
	result, err := a.wait()
	require.NoError(s.t, err)
	return result.Operation
}

// together has events committed together, by a commit that is under way when it returns.
func (s *slow) together(evs ...journal.Event) (all []*asked) {
	s.t.Helper()
	first := s.ask(s.t.Context(), generate("first", s))
	<-s.syncing
	for i, ev := range evs {
		all = append(all, s.ask(s.t.Context(), ev))
		until(s.t, func() bool { return sqlite.Queued(s.Journal) == i+1 })
	}
	s.results <- sqlite3.SQLITE_OK
	_, err := first.wait()
	require.NoError(s.t, err)
	<-s.syncing
	return all
}

// meanwhile has operations begun until the writer has all of them, while a commit is
// under way.
func (s *slow) meanwhile(ids ...string) (all []*asked) {
	s.t.Helper()
	for _, id := range ids {
		before := sqlite.Begun(s.Journal)
		all = append(all, s.ask(s.t.Context(), generate(id, s)))
		until(s.t, func() bool { return sqlite.Begun(s.Journal) == before+1 })
	}
	return all
}

// commits lets the commit under way do that, and n more.
func (s *slow) commits(n int) {
	for range n {
		s.results <- sqlite3.SQLITE_OK
		<-s.syncing
	}
	s.quick()
	s.results <- sqlite3.SQLITE_OK
}

// reopens closes the journal, opens it again, and finds it whole.
func (s *slow) reopens() *sqlite.Journal {
	s.t.Helper()
	require.NoError(s.t, s.Close())
	j := open(s.t, s.path)
	require.Empty(s.t, verify(s.t, j))
	return j
}

func has(t *testing.T, j *sqlite.Journal, id string) bool {
	t.Helper()
	_, err := j.Get(t.Context(), journal.Ref{ID: id})
	if err != nil {
		require.ErrorIs(t, err, journal.ErrNotFound)
	}
	return err == nil
}

func TestWhatArrivesDuringACommitIsAppliedMeanwhileAndSharesTheNext(t *testing.T) {
	s := openSlow(t, nil)
	now := s.together(generate("a", s), generate("b", s))
	next := s.meanwhile("c", "d", "e")
	for _, id := range []string{"a", "c"} {
		assert.False(t, has(t, s.Journal, id), "%s is not committed", id)
	}
	n := 0
	for range s.List(t.Context(), journal.Filter{}) {
		n++
	}
	assert.Equal(t, 1, n, "nor are others")
	s.commits(1)
	for _, a := range append(now, next...) {
		_, err := a.wait()
		require.NoError(t, err)
	}
	j := s.reopens()
	for _, id := range []string{"first", "a", "b", "c", "d", "e"} {
		assert.True(t, has(t, j, id), id)
	}
}

func TestReadersSeeWhatWasCommittedAndNotWhatBecameOfItMeanwhile(t *testing.T) {
	s := openSlow(t, nil)
	op := s.alone(generate("parked", s))
	park := complete(op, s)
	park.Kind, park.Answer = journal.EventPark, nil
	now := s.together(park, generate("a", s))
	again := generate("parked", s)
	again.New = false
	claimed := s.ask(t.Context(), again)
	until(t, func() bool { return sqlite.Queued(s.Journal) == 0 })
	s.meanwhile("b")
	s.results <- sqlite3.SQLITE_OK
	<-s.syncing // the next
	_, err := now[0].wait()
	require.NoError(t, err)
	op, err = s.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.Pending, op.State)
	s.quick()
	s.results <- sqlite3.SQLITE_OK
	result, err := claimed.wait()
	require.NoError(t, err)
	assert.Equal(t, journal.Execute, result.Decision)
	op, err = s.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	assert.EqualValues(t, 2, op.Claim)
}

func TestACommitThatFailsTakesNothingWithItThatWasAppliedMeanwhile(t *testing.T) {
	s := openSlow(t, nil)
	now := s.together(generate("a", s), generate("b", s))
	next := s.meanwhile("c", "d")
	s.quick()
	s.results <- sqlite3.SQLITE_IOERR_FSYNC
	for _, a := range now {
		_, err := a.wait()
		require.ErrorContains(t, err, "the disk reports an error")
	}
	handles := map[int64]bool{}
	for _, a := range next {
		result, err := a.wait()
		require.NoError(t, err)
		handles[result.Operation.Handle] = true
	}
	assert.Equal(t, map[int64]bool{2: true, 3: true}, handles, "those of the commit that failed are given out again")
	c, err := next[0].wait()
	require.NoError(t, err)
	_, err = s.Apply(t.Context(), complete(c.Operation, s))
	require.NoError(t, err)
	j := s.reopens()
	for id, there := range map[string]bool{"first": true, "a": false, "b": false, "c": true, "d": true} {
		assert.Equal(t, there, has(t, j, id), id)
	}
}

func TestDeliveriesThatWereAppliedDuringACommitThatFailsAreRecordedByTheNext(t *testing.T) {
	s := openSlow(t, nil)
	op := s.alone(generate("delivered", s))
	answer := complete(op, s)
	answer.Delivered = false
	s.alone(answer)

	now := s.together(generate("a", s), generate("b", s))
	_, err := s.Apply(t.Context(), journal.Event{Kind: journal.EventDeliver, Ref: op.Ref, Handle: op.Handle, At: time.Now(), Outcome: journal.Completed})
	require.NoError(t, err)
	next := s.meanwhile("c", "d")
	s.quick()
	s.results <- sqlite3.SQLITE_IOERR_FSYNC
	for _, a := range now {
		_, err := a.wait()
		require.Error(t, err)
	}
	for _, a := range next {
		_, err := a.wait()
		require.NoError(t, err)
	}
	op, err = s.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	assert.True(t, op.Delivered)
}

func TestWhatWasAppliedMeanwhileIsAppliedAnewWhereAnotherProcessWroteBetween(t *testing.T) {
	s := openSlow(t, nil)
	other := anotherProcess(t, s.path)
	now := s.together(generate("a", s), generate("b", s))
	next := s.meanwhile("c", "d")

	// It comes between the two commits: when the writer moves the WAL into the file.
	ahead := time.Now().Add(time.Minute).UnixMilli()
	var once sync.Once
	var err error
	between := func(what diskDid, file string) int32 {
		if what == wrote && file == "" {
			once.Do(func() {
				_, err = other.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO log
					SELECT seq + 1, %d, least_margin, newest, folded, number + 1, NULL FROM log ORDER BY seq DESC LIMIT 1`, ahead))
			})
		}
		return sqlite3.SQLITE_OK
	}
	sqlite.CheckpointSoon(s.Journal)
	s.disk.fault.Store(&between)
	s.results <- sqlite3.SQLITE_OK
	for _, a := range now {
		result, err := a.wait()
		require.NoError(t, err)
		assert.Less(t, result.Last.UnixMilli(), ahead)
	}
	for _, a := range next {
		result, err := a.wait()
		require.NoError(t, err)
		assert.Equal(t, ahead, result.Last.UnixMilli(), "it was decided by what the other wrote")
	}
	require.NoError(t, err)
	s.quick()
	j := s.reopens()
	for _, id := range []string{"first", "a", "b", "c", "d"} {
		assert.True(t, has(t, j, id), id)
	}
}

func TestARefusalDuringACommitIsToldOnceThatHasLanded(t *testing.T) {
	for name, row := range map[string]struct {
		result int32
		state  journal.State
	}{
		"and of what it made":          {sqlite3.SQLITE_OK, journal.InFlight},
		"and of nothing if that fails": {sqlite3.SQLITE_IOERR_FSYNC, journal.Absent},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSlow(t, nil)
			now := s.together(generate("a", s), generate("b", s))
			var landed atomic.Bool
			asked := make(chan error, 1)
			go func() { // an answer to a claim that nobody has
				_, err := s.Apply(t.Context(), journal.Event{Kind: journal.EventComplete, Ref: journal.Ref{ID: "a"}, At: time.Now(),
					Session: s.ID(), Claim: 7, Answer: &journal.Answer{Status: 200}})
				assert.True(t, landed.Load())
				asked <- err
			}()
			until(t, func() bool { return sqlite.Queued(s.Journal) == 0 })
			next := s.meanwhile("c")
			landed.Store(true)
			s.quick()
			s.results <- row.result
			var refused *journal.EventError
			require.ErrorAs(t, <-asked, &refused)
			assert.Equal(t, row.state, refused.State)
			for _, a := range now {
				_, err := a.wait()
				assert.Equal(t, row.result == sqlite3.SQLITE_OK, err == nil)
			}
			_, err := next[0].wait()
			require.NoError(t, err)
		})
	}
}

func TestACloseDuringACommitWaitsForWhatWasAppliedMeanwhile(t *testing.T) {
	s := openSlow(t, nil)
	now := s.together(generate("a", s), generate("b", s))
	next := s.meanwhile("c", "d")
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	until(t, func() bool { _, err := s.Get(t.Context(), journal.Ref{ID: "first"}); return err != nil })
	s.quick()
	s.results <- sqlite3.SQLITE_OK
	require.NoError(t, <-closed)
	for _, a := range append(now, next...) {
		_, err := a.wait()
		require.NoError(t, err)
	}
	j := open(t, s.path)
	for _, id := range []string{"a", "b", "c", "d"} {
		assert.True(t, has(t, j, id), id)
	}
}

func TestWhatACallerThatLeftHadAppliedMeanwhileIsNotAppliedAnew(t *testing.T) {
	s := openSlow(t, nil)
	now := s.together(generate("a", s), generate("b", s))
	next := s.meanwhile("c")
	ctx, leave := context.WithCancel(t.Context())
	before := sqlite.Begun(s.Journal)
	left := s.ask(ctx, generate("left", s))
	until(t, func() bool { return sqlite.Begun(s.Journal) == before+1 })
	leave()
	_, err := left.wait()
	require.ErrorIs(t, err, context.Canceled)
	s.quick()
	s.results <- sqlite3.SQLITE_IOERR_FSYNC
	for _, a := range now {
		_, err := a.wait()
		require.Error(t, err)
	}
	_, err = next[0].wait()
	require.NoError(t, err)
	assert.False(t, has(t, s.Journal, "left"))
}

func TestAStormOfCallersHearsTheTruthWhileCommitsFailAndAnotherProcessWrites(t *testing.T) {
	random := seeded(t)
	path := filepath.Join(t.TempDir(), "journal.db")
	disk := record(t, path)
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	var mu sync.Mutex
	faults := rand.New(rand.NewPCG(random.Uint64(), 0))
	fault := func(what diskDid, file string) int32 {
		mu.Lock()
		defer mu.Unlock()
		if file == "-wal" && (what == synced || what == wrote) && faults.IntN(40) == 0 {
			return sqlite3.SQLITE_FULL
		}
		return sqlite3.SQLITE_OK
	}
	disk.fault.Store(&fault)
	other := anotherProcess(t, path)
	_, err = other.ExecContext(t.Context(), "PRAGMA busy_timeout=5000")
	require.NoError(t, err)

	const each = 60
	told := make(map[string]journal.State)
	var failed, left atomic.Int64
	var callers sync.WaitGroup
	for g := range 32 {
		random := rand.New(rand.NewPCG(random.Uint64(), 0))
		callers.Go(func() {
			for n := range each {
				id := fmt.Sprint(g, "-", n)
				tell := func(state journal.State) {
					mu.Lock()
					defer mu.Unlock()
					told[id] = state
				}
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(8) == 0 {
					go cancel()
				}
				ev := generate(id, s)
				if random.IntN(4) == 0 {
					ev = begin(id, s)
				}
				begun, err := j.Apply(ctx, ev)
				cancel()
				if err != nil {
					if ctx.Err() != nil {
						left.Add(1)
					}
					failed.Add(1)
					continue
				}
				tell(journal.InFlight)
				ev = complete(begun.Operation, s)
				ev.Delivered = false
				result, err := j.Apply(t.Context(), ev)
				if err != nil {
					tell(journal.Absent) // it may have landed
					failed.Add(1)
					continue
				}
				assert.Equal(t, journal.Recorded, result.Decision)
				tell(journal.Completed)
				if random.IntN(2) == 0 {
					_, err := j.Apply(t.Context(), journal.Event{Kind: journal.EventDeliver, Ref: begun.Operation.Ref,
						Handle: begun.Operation.Handle, At: time.Now(), Outcome: journal.Completed})
					assert.NoError(t, err)
				}
				if g == 0 && n%10 == 0 {
					_, _ = other.ExecContext(t.Context(), `INSERT INTO log SELECT seq + 1, last_at, least_margin, newest, folded, number + 1, NULL
						FROM log ORDER BY seq DESC LIMIT 1`) // which may fail, too
				}
			}
		})
	}
	callers.Wait()
	disk.fault.Store(nil)
	t.Logf("%d callers failed or left (%d), %d were told of success", failed.Load(), left.Load(), len(told))
	assert.Positive(t, failed.Load())
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	j = open(t, path)
	require.Empty(t, verify(t, j))
	handles := make(map[int64]string)
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		assert.Empty(t, handles[op.Handle], "two have one handle")
		handles[op.Handle] = op.ID
	}
	for id, state := range told {
		op, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err, id)
		if state == journal.Completed {
			assert.Equal(t, state, op.State, id)
			assert.Equal(t, "paid "+id, string(op.Answer.Body))
		}
	}
}
