package sqlite_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// A path may lead to a removed file, which no name would find again. Open refuses it.
func TestAFileThatHasNoNameAnyMoreIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal.db")
	leave(t, name)
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Remove(name))
	path := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	_, err = os.Stat(path)
	require.NoError(t, err)
	_, err = sqlite.Open(path, sqlite.Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, path)
}
