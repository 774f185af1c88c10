//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
