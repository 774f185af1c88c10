package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// A file that no process has open has no WAL, whose size is zero.
func TestStatsWithoutAWAL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	j, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	st, err := j.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, st.WALBytes)
	assert.Positive(t, st.FileBytes)
}
