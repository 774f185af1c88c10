//go:build unix

package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// If all files of a journal are gone and it has something to write at its end, Close returns an error.
func TestCloseWithoutAFile(t *testing.T) {
	path, j, s := joined(t)
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	for _, name := range filesOf(t, path) {
		require.NoError(t, os.Remove(name))
	}
	require.Error(t, j.Close())
	require.ErrorIs(t, j.Close(), journal.ErrClosed)
}

// If a session could not begin, its file does not stay.
func TestSessionNotBegunLeavesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	d := &unsyncable{careless: careless{filepath.Dir(path)}}
	t.Cleanup(watch(d))
	j := open(t, path)
	d.fails.Store(true)
	_, err := j.Join(t.Context())
	require.Error(t, err)
	assert.Empty(t, sessionFiles(t, path))
	d.fails.Store(false)
	_, err = j.Join(t.Context())
	require.NoError(t, err)
	assert.Len(t, sessionFiles(t, path), 1, "that of the new one")
}

// However long another process keeps the file, a writer waits no longer than ten seconds.
func TestBusyTimeoutEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	other := anotherProcess(t, path)
	synctest.Test(t, func(t *testing.T) {
		j := open(t, path)
		_, err := other.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventClock, At: time.Now()})
		require.ErrorContains(t, err, "another process")
		_, err = other.ExecContext(context.Background(), "ROLLBACK")
		require.NoError(t, err)
		require.NoError(t, j.Close())
	})
}
