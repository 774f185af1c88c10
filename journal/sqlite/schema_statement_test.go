//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// If Open can't read what kind of file it is, it neither makes a journal in it nor migrates it.
func TestBrokenStatementOfAMigration(t *testing.T) {
	b := newBreaker(t)
	for name, version := range map[string]int{"new": 0, "of an earlier release": 1} {
		t.Run(name, func(t *testing.T) {
			for n, failed := 0, true; failed; n++ {
				path := filepath.Join(t.TempDir(), "journal.db")
				if version > 0 {
					require.NoError(t, os.WriteFile(path, nil, 0o600))
					require.NoError(t, sqlite.Make(path, version))
				}
				b.arm(n, false)
				j, err := sqlite.Open(path, sqlite.Options{})
				broke := b.disarm()
				if failed = broke != ""; broke != "SELECT identity, epoch FROM onceward_journal" { // of the file alone: if it can't be read, other checks decide
					assert.Equal(t, failed, err != nil, "statement %d: %s", n, broke)
				}
				assert.NotErrorIs(t, err, sqlite.ErrNotJournal, broke)
				if err == nil {
					require.NoError(t, j.Close())
				}
				j = open(t, path)
				goOn(t, j, "invoice-1")
				assert.Empty(t, verify(t, j), broke)
				require.NoError(t, j.Close())
				assert.Equal(t, 0x4f6e6365, number(t, path, "PRAGMA application_id"), broke)
			}
		})
	}
}
