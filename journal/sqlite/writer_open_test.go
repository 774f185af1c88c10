package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// A journal without a table that its writer needs from the start can't be opened.
func TestOpenWithAMissingTable(t *testing.T) {
	for name, damage := range map[string]string{
		"a table":                "DROP TABLE onceward_answers",
		"the key of the hashes":  "UPDATE onceward_journal SET hash_key = zeroblob(4)",
		"the row of the journal": "DELETE FROM onceward_journal",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			leave(t, path)
			alter(t, path, damage)
			_, err := sqlite.Open(path, sqlite.Options{})
			require.Error(t, err)
			require.ErrorContains(t, err, path)
		})
	}
}
