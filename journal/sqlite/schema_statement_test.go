//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"sync"
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

// Open makes a new file, or migrates an older one, in one commit that names the owner too. It then copies that from the
// WAL into the file. A file of this release is left alone.
func TestStatementsOfAMigration(t *testing.T) {
	b := newBreaker(t)
	for name, row := range map[string]struct {
		version, written int
	}{"new": {0, 1}, "of the first release": {1, 1}, "of the release before": {sqlite.SchemaVersion - 1, 1}, "of this release": {sqlite.SchemaVersion, 0}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			if row.version > 0 {
				require.NoError(t, os.WriteFile(path, nil, 0o600))
				require.NoError(t, sqlite.Make(path, row.version))
			}
			var mu sync.Mutex
			ran := map[string]int{}
			b.meanwhile(func(statement string) {
				mu.Lock()
				defer mu.Unlock()
				ran[statement]++
			})
			j, err := sqlite.Open(path, sqlite.Options{})
			b.meanwhile(nil)
			require.NoError(t, err)
			require.NoError(t, j.Close())
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, row.written, ran["UPDATE onceward_owner SET deployment = ?, machine = ?, boot = ?"])
			assert.Equal(t, row.written, ran["PRAGMA wal_checkpoint(TRUNCATE)"])
		})
	}
}
