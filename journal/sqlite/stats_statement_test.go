//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A WAL of which the size can't be told is none of no size.
func TestStatsBesideAWALThatCantBeLookedAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	for range 4 { // so many connections read: each has opened it then
		_, err := j.Stats(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, os.Rename(path+"-wal", path+"-away"))
	require.NoError(t, os.Symlink(path+"-wal", path+"-wal"))
	_, err := j.Stats(t.Context())
	require.ErrorContains(t, err, "look at the WAL")
	require.ErrorContains(t, err, path)
	require.NoError(t, os.Remove(path+"-wal"))
	require.NoError(t, os.Rename(path+"-away", path+"-wal"))
	goOn(t, j, "invoice-1")
}
