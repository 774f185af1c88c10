package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// Links can lead to a file whose direct path would be too long. The files beside it could not be named, so it is
// refused.
func TestOpenWherePathsAreTooLong(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		long := strings.Repeat(strings.Repeat("d", 250)+"/", 7)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, long), 0o700))
		require.NoError(t, os.Symlink(long, filepath.Join(dir, "link")))
		dir = filepath.Join(dir, "link")
	}
	path := filepath.Join(dir, "journal.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	for name, opts := range map[string]sqlite.Options{"new": {}, "existing": {Existing: true}, "read-only": readOnly} {
		_, err := sqlite.Open(path, opts)
		require.ErrorIs(t, err, syscall.ENAMETOOLONG, name)
		assert.ErrorContains(t, err, path, name)
	}
}
