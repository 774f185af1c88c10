//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// If the WAL's size can't be read, Stats returns an error instead of zero.
func TestStatsBesideAnUnreadableWAL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	for range 4 { // as many as there are reading connections, so that each has opened it
		_, err := j.Stats(t.Context())
		require.NoError(t, err)
	}
	mend := loopWAL(t, path)
	_, err := j.Stats(t.Context())
	require.ErrorContains(t, err, path)
	mend()
	goOn(t, j, "invoice-1")
}

// loopWAL makes the name of the WAL a link to itself, until mend is called. Each step replaces the name at once, so
// that a connection that opens the WAL meanwhile makes no new one.
func loopWAL(t *testing.T, path string) (mend func()) {
	wal := path + "-wal"
	require.NoError(t, os.Link(wal, path+"-away"))
	require.NoError(t, os.Symlink(wal, path+"-loop"))
	require.NoError(t, os.Rename(path+"-loop", wal))
	return func() { require.NoError(t, os.Rename(path+"-away", wal)) }
}
