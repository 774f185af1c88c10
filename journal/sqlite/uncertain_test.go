//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A completed operation is never reported as absent while commits fail now and then.
func TestUncertainCommitHidesNothing(t *testing.T) {
	t.Parallel()
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	const many = 400 // all of them in the log alone
	for n := range many {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("invoice-", n), s))
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
	}
	require.False(t, has(t, j, "anything"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { sqlite.FailEverySecondCommit(ctx, j) })
	for range 4 {
		wg.Go(func() {
			defer cancel()
			for n := 0; n < 2000 && ctx.Err() == nil; n++ {
				_, err := j.Get(t.Context(), journal.Ref{ID: fmt.Sprint("invoice-", n%many)})
				if !assert.NotErrorIs(t, err, journal.ErrNotFound) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// Nothing is recorded in files that were moved away.
func TestUncertainFilesThatWereMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Rename(path, path+".away"))
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, os.Rename(path+".away", path))
	_, err = j.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.ErrorIs(t, err, journal.ErrNotFound, "who was told that nothing was recorded was told the truth")
	result, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	assert.Equal(t, journal.Execute, result.Decision)
}

// If the files are moved during a commit, its result is uncertain.
func TestUncertainCommitAsFilesAreMoved(t *testing.T) {
	s := openSlow(t, sqlite.Options{})
	moved := s.ask(t.Context(), begin("invoice-1", s))
	<-s.syncing // all checks before the commit are done
	require.NoError(t, os.Rename(s.path, s.path+".away"))
	s.quick()
	s.results <- sqlite3.SQLITE_OK
	_, err := moved.wait()
	require.Error(t, err)
	require.NotErrorIs(t, err, journal.ErrRestored, "that would say that nothing was recorded")
	assert.ErrorContains(t, err, "removed or replaced")
	require.NoError(t, os.Rename(s.path+".away", s.path))
	assert.True(t, has(t, s.Journal, "invoice-1"))
}

// Sessions that can't be started on a full disk leave no files.
func TestSessionsOnAFullDiskLeaveNoFiles(t *testing.T) {
	d := record(t, filepath.Join(t.TempDir(), "journal.db"))
	j := open(t, d.path)
	goOn(t, j, "before")
	d.fault.Store(failing(sqlite3.SQLITE_FULL, inWAL))
	for range 20 {
		_, err := j.Join(t.Context())
		require.ErrorContains(t, err, "the disk is full")
	}
	assert.Empty(t, sessionFiles(t, d.path))
	d.fault.Store(nil)
	goOn(t, j, "after")
}
