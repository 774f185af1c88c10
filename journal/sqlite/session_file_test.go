//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If a session's file can't be made, Join's error says so, and no file is left.
func TestJoinWhereNoFileCanBeMade(t *testing.T) {
	for name, what := range map[string]func(path string) string{
		"without the directory": filepath.Dir,
		"without the file":      func(path string) string { return path },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "in", "journal.db")
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			j := open(t, path)
			away := filepath.Join(t.TempDir(), "away")
			require.NoError(t, os.Rename(what(path), away))
			for range 3 {
				_, err := j.Join(t.Context())
				require.ErrorContains(t, err, path)
				require.ErrorContains(t, err, "check that its directory exists")
			}
			assert.Empty(t, sessionFiles(t, path))
			require.NoError(t, os.Rename(away, what(path)))
			assert.Empty(t, sessionFiles(t, path))
			goOn(t, j, "invoice-1")
		})
	}
}
