//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// slow is a journal whose commits take as long as the test wants.
type slow struct {
	*sqlite.Journal
	journal.Session
	t    *testing.T
	path string
	disk *disk

	syncing chan struct{} // receives when the WAL is about to be synced
	results chan int32    // the sync's result
}

func openSlow(t *testing.T, opts sqlite.Options) *slow {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	disk := record(t, path)
	j, err := sqlite.Open(path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	session, err := j.Join(t.Context())
	require.NoError(t, err)
	require.False(t, has(t, j, "anything")) // from now on, a look-up of an ID does not wait for the writer
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

// quick makes commits quick again.
func (s *slow) quick() { s.disk.fault.Store(nil) }

// ask applies an event in another goroutine. The result arrives in the returned value.
func (s *slow) ask(ctx context.Context, ev journal.Event) *asked {
	a := &asked{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.result, a.err = s.Apply(ctx, ev)
	}()
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

// alone commits an event by itself.
func (s *slow) alone(ev journal.Event) journal.Operation {
	s.t.Helper()
	a := s.ask(s.t.Context(), ev)
	<-s.syncing
	s.results <- sqlite3.SQLITE_OK
	result, err := a.wait()
	require.NoError(s.t, err)
	return result.Operation
}

// together commits events together. Their commit is under way when it returns.
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

// reopens closes the journal, opens it again, and finds it intact.
func (s *slow) reopens() *sqlite.Journal {
	s.t.Helper()
	require.NoError(s.t, s.Close())
	j := open(s.t, s.path)
	require.Empty(s.t, verify(s.t, j))
	return j
}

// If another process begins an operation under the handle of a failed commit, it is found by its name.
func TestHandleOfAFailedCommitIsReused(t *testing.T) {
	s := openSlow(t, sqlite.Options{})
	theirs := s.elsewhere("theirs", 1)
	now := s.together(generate("a", s), generate("b", s))
	s.quick()
	s.results <- sqlite3.SQLITE_IOERR_FSYNC
	for _, a := range now {
		_, err := a.wait()
		require.Error(t, err)
	}
	theirs()
	result, err := s.Apply(t.Context(), generate("c", s))
	require.NoError(t, err)
	assert.EqualValues(t, 3, result.Operation.Handle)
	s.replays("theirs")
}

// replays finds an operation by its name once it is in a block.
func (s *slow) replays(id string) {
	s.t.Helper()
	require.NoError(s.t, sqlite.Fold(s.Journal))
	assert.True(s.t, has(s.t, s.Journal, id))
	again, err := s.Apply(s.t.Context(), begin(id, s))
	require.NoError(s.t, err)
	assert.Equal(s.t, journal.Replay, again.Decision)
	s.reopens()
}

// elsewhere returns a function with which another process begins and completes an operation, under the handle after
// newest.
func (s *slow) elsewhere(id string, newest int64) func() {
	s.t.Helper()
	rows := rowsOf(s.t, newest, id)
	other := anotherProcess(s.t, s.path)
	return func() {
		for _, records := range rows {
			_, err := other.ExecContext(s.t.Context(), `INSERT INTO onceward_log
				SELECT seq + 1, last_at, jumped_at, least_margin, ?1, folded, number + 1,
					sealed_log(?2, seq + 1, last_at, jumped_at, least_margin, ?1, folded, number + 1) FROM onceward_log ORDER BY seq DESC LIMIT 1`, newest+1, records)
			assert.NoError(s.t, err)
		}
	}
}

// rowsOf returns the records of the log's rows by which another process begins and completes an operation, if newest
// handles were given out before.
func rowsOf(t *testing.T, newest int64, id string) (rows [][]byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for n := range newest {
		_, err := j.Apply(t.Context(), generate(fmt.Sprint(n), s))
		require.NoError(t, err)
	}
	begun, err := j.Apply(t.Context(), begin(id, s))
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	log, err := anotherProcess(t, path).QueryContext(t.Context(), "SELECT records FROM onceward_log WHERE newest = ? ORDER BY seq", newest+1)
	require.NoError(t, err)
	defer log.Close()
	for log.Next() {
		var records []byte
		require.NoError(t, log.Scan(&records))
		rows = append(rows, records)
	}
	require.NoError(t, log.Err())
	require.Len(t, rows, 2)
	return rows
}

// A reported step can be read while its commit is under way.
func TestStepIsReadDuringItsCommit(t *testing.T) {
	s := openSlow(t, sqlite.Options{})
	slowly := s.disk.fault.Load()
	s.quick()
	f := beginFlow(t, s.Journal, s, "flow")
	recordStep(t, s.Journal, f, 1, "paid")
	s.disk.fault.Store(slowly)
	carries := s.ask(t.Context(), generate("a", s))
	<-s.syncing
	read := make(chan struct{})
	go func() {
		defer close(read)
		f, err := s.GetFlow(t.Context(), f.Ref)
		assert.NoError(t, err)
		assert.Len(t, f.Steps, 1)
	}()
	until(t, func() bool {
		select {
		case <-read:
			return true
		default:
			return sqlite.Queued(s.Journal) == 1
		}
	})
	s.quick()
	s.results <- sqlite3.SQLITE_OK
	_, err := carries.wait()
	require.NoError(t, err)
	<-read
}

// Large events go into as many commits as they need, though their operations have rows of their own.
func TestBatchIsBoundedByItsBytes(t *testing.T) {
	t.Parallel()
	s := openSlow(t, sqlite.Options{})
	var answers []journal.Event
	for _, id := range []string{"a", "b", "c"} {
		ev := complete(s.alone(begin(id, s)), s)
		ev.Answer.Body = noise(17 << 20) // two are over the limit
		answers = append(answers, ev)
	}
	folded := make(chan error, 1)
	go func() { folded <- sqlite.Fold(s.Journal) }()
	<-s.syncing
	s.results <- sqlite3.SQLITE_OK
	require.NoError(t, <-folded)
	all := s.together(answers...)
	assert.Equal(t, 1, sqlite.Queued(s.Journal))
	s.quick()
	s.results <- sqlite3.SQLITE_OK
	for _, a := range all {
		_, err := a.wait()
		require.NoError(t, err)
	}
}
