//go:build unix

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

// A backup that was not adopted does not count as intact, whatever statement fails once.
func TestBrokenStatementOfABackup(t *testing.T) {
	path, backup := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "backup.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	require.NoError(t, j.Backup(t.Context(), backup))
	copyFile(t, path+"-sidecar", backup+"-sidecar")
	b := newBreaker(t)
	j = open(t, backup)
	for n, failed := 0, true; failed; n++ {
		alter(t, backup, fmt.Sprint("PRAGMA user_version=", n+1)) // so that it is read again
		b.arm(n, interruptedRead)
		_, err := j.Join(t.Context())
		broke := b.disarm()
		require.Error(t, err, broke)
		_, err = j.Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored, broke)
		failed = broke != ""
	}
}
