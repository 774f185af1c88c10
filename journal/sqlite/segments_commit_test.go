//go:build unix

package sqlite_test

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// nearTheEnd makes a journal whose first segment lacks that many operations.
func nearTheEnd(t *testing.T, lacking int) (path string, names []string) {
	t.Helper()
	path, j, s := joined(t)
	for n := range sqlite.SegmentSize - 1 - lacking {
		names = append(names, fmt.Sprint("first-", n))
	}
	does(t, j, s, names)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	return path, names
}

// does begins and completes operations with these names, which also have second names. Some keep a row of their own.
func does(t *testing.T, j *sqlite.Journal, s journal.Session, names []string) {
	t.Helper()
	sideBySide(len(names), func(i int) {
		ev := begin(names[i], s)
		ev.Intent.Alias = aliasOf(names[i])
		begun, err := j.Apply(t.Context(), ev)
		if assert.NoError(t, err) && assert.Equal(t, journal.Execute, begun.Decision, names[i]) {
			ev := complete(begun.Operation, s)
			ev.Delivered = i%3 > 0
			_, err = j.Apply(t.Context(), ev)
			assert.NoError(t, err)
		}
	})
}

// enqueued reports whether a transaction of the application finds an operation by that name and by its second one.
func enqueued(t *testing.T, j *sqlite.Journal, name string) bool {
	t.Helper()
	var found []bool
	for _, ref := range []journal.Ref{aliasOf(name), {ID: name}} {
		tx, err := j.BeginSQL(t.Context())
		require.NoError(t, err)
		ev := enqueue(name)
		ev.Ref = ref
		result, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
		require.NoError(t, tx.Rollback())
		require.NoError(t, err, name)
		found = append(found, result.Decision != journal.Recorded)
	}
	require.Equal(t, found[0], found[1], name)
	return found[0]
}

// Operations of a failed commit around the end of a segment are forgotten. Those that are begun in their places are
// found.
func TestSegmentWhoseCommitFails(t *testing.T) {
	t.Parallel()
	const lacking = 6
	first, names := nearTheEnd(t, lacking)
	for i, failing := range []int{lacking - 1, lacking, lacking + 1, lacking + 2} {
		for k, looked := range []string{"never", "before", "after", "before and after"} {
			if i%2 != k%2 && !soak.On() {
				continue
			}
			t.Run(fmt.Sprint(failing, " fail, looked ", looked), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "journal.db")
				copyAll(t, first, path)
				j := open(t, path)
				sqlite.Preloaded(j)
				s, err := j.Join(t.Context())
				require.NoError(t, err)
				if looked == "before" || looked == "before and after" {
					require.False(t, has(t, j, "none"))
				}
				failBegins(t, j, s, failing)
				if looked == "after" || looked == "before and after" {
					require.False(t, has(t, j, "none"))
					require.False(t, enqueued(t, j, "none"))
				}
				var again []string
				for n := range sqlite.SegmentSize + 10 {
					again = append(again, fmt.Sprint("again-", n))
				}
				does(t, j, s, again[:lacking-2])
				require.NoError(t, sqlite.Fold(j))
				for _, name := range again[:lacking-2] {
					assert.True(t, enqueued(t, j, name), name)
					assert.True(t, has(t, j, name), name)
				}
				does(t, j, s, again[lacking-2:])
				require.NoError(t, sqlite.Fold(j))
				for n := range failing {
					name := fmt.Sprint("failed-", n)
					assert.False(t, has(t, j, name), name)
					assert.Empty(t, sqlite.Candidates(j, journal.Ref{ID: name}), name)
				}
				for _, name := range append(names[len(names)-20:], again...) {
					isOneCandidate(t, j, name)
				}
				for _, name := range []string{names[0], again[0], again[lacking], again[len(again)-1]} {
					assert.True(t, enqueued(t, j, name), name)
				}
				assert.Empty(t, verify(t, j))
			})
		}
	}
}

// failBegins makes a commit fail in which that many operations begin.
func failBegins(t *testing.T, j *sqlite.Journal, s journal.Session, many int) {
	t.Helper()
	release := sqlite.Hold(j)
	var failing sync.WaitGroup
	for n := range many {
		failing.Go(func() {
			_, err := j.Apply(t.Context(), begin(fmt.Sprint("failed-", n), s))
			assert.Error(t, err)
		})
	}
	for sqlite.Queued(j) < many {
		runtime.Gosched()
	}
	failing.Go(func() { sqlite.FailCommit(j) })
	for sqlite.Queued(j) < many+1 {
		runtime.Gosched()
	}
	release()
	failing.Wait()
}

// If another process ends a segment, it is read, and the next segment has none of its operations.
func TestSegmentThatAnotherEnds(t *testing.T) {
	t.Parallel()
	const lacking = 6
	first, names := nearTheEnd(t, lacking)
	for i, theirs := range []int{lacking - 1, lacking, lacking + 1, lacking + 2} {
		for k, failing := range []int{0, 3, 20} {
			if i%2 != k%2 && !soak.On() {
				continue
			}
			t.Run(fmt.Sprint(theirs, " of theirs after ", failing, " of ours that fail"), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "journal.db")
				copyAll(t, first, path)
				j := open(t, path)
				s, err := j.Join(t.Context())
				require.NoError(t, err)
				_, in, out := startTalking(t, "begin", path)
				does(t, j, s, []string{"ours"})
				require.False(t, has(t, j, "none"))
				if failing > 0 {
					failBegins(t, j, s, failing)
				}
				_, err = io.WriteString(in, fmt.Sprintln(theirs-1))
				require.NoError(t, err)
				require.True(t, out.Scan())
				require.Equal(t, "begun", out.Text())
				if failing != 3 { // without a look-up of its name
					_, err := j.Apply(t.Context(), generate("generated", s))
					require.NoError(t, err)
				}
				all := append([]string{"ours"}, names[len(names)-20:]...)
				for n := range theirs - 1 {
					all = append(all, fmt.Sprint("theirs-", n))
				}
				require.NoError(t, sqlite.Fold(j))
				for _, name := range all {
					assert.True(t, enqueued(t, j, name), name)
				}
				for _, name := range all {
					isOneCandidate(t, j, name)
				}
				require.NoError(t, in.Close())
				var ours []string
				for n := range sqlite.SegmentSize + 10 {
					ours = append(ours, fmt.Sprint("ours-", n))
				}
				does(t, j, s, ours)
				require.NoError(t, sqlite.Fold(j))
				for _, name := range append(all, ours...) {
					isOneCandidate(t, j, name)
				}
				assert.Empty(t, verify(t, j))
			})
		}
	}
}

// If a segment can't be written, the operation that would end it does not begin.
func TestSegmentThatIsRefused(t *testing.T) {
	t.Parallel()
	first, names := nearTheEnd(t, 1)
	for _, refused := range []string{"INSERT ON onceward_segments", "INSERT ON onceward_contents"} {
		path := filepath.Join(t.TempDir(), "journal.db")
		copyAll(t, first, path)
		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		stop := refuse(t, path, refused)
		_, err = j.Apply(t.Context(), generate("last", s))
		require.ErrorContains(t, err, "refused by the test", refused)
		stop()
		does(t, j, s, []string{"after-0", "after-1"})
		require.NoError(t, sqlite.Fold(j))
		for _, name := range []string{names[len(names)-1], "after-0", "after-1"} {
			assert.True(t, enqueued(t, j, name), name)
			assert.True(t, has(t, j, name), name)
		}
		assert.Empty(t, verify(t, j), refused)
	}
}

// A look-up by name waits for no writer, neither after a failed commit nor after the end of a segment.
func TestSegmentsDoNotWaitForWriters(t *testing.T) {
	path, names := nearTheEnd(t, 6)
	j := open(t, path)
	sqlite.Preloaded(j)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	other := anotherProcess(t, path)
	finds := func(names ...string) {
		t.Helper()
		_, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		require.NoError(t, err)
		for _, name := range names {
			assert.True(t, has(t, j, name), name)
		}
		assert.False(t, has(t, j, "none"))
		_, err = other.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
	}
	require.False(t, has(t, j, "none"))
	finds(names[0], names[len(names)-1])
	failBegins(t, j, s, 3)
	finds(names[0], names[len(names)-1])
	var more []string
	for n := range 10 {
		more = append(more, fmt.Sprint("more-", n))
		_, err := j.Apply(t.Context(), generate(more[n], s)) // no call looks for it
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	finds(append(more, names[0], names[len(names)-1])...)
}
