//go:build unix

package rows_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tempfiles"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
)

func TestMain(m *testing.M) { os.Exit(tempfiles.InMemory(m.Run)) }

func driver(t *testing.T, path string) *rows.Driver {
	t.Helper()
	d, err := rows.Open(path, rows.Options{})
	require.NoError(t, err)
	return d
}

func open(t *testing.T, path string) *rowstore.Store {
	t.Helper()
	return over(t, driver(t, path))
}

func over(t *testing.T, d *rows.Driver) *rowstore.Store {
	t.Helper()
	s, err := rowstore.Open(t.Context(), d, rowstore.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// copied returns the path of a copy of a journal's files, as a kill of all its processes would leave them.
func copied(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "journal.db")
	names, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	for _, name := range names {
		if suffix := strings.TrimPrefix(name, path); suffix != "-shm" {
			copyFile(t, name, to+suffix)
		}
	}
	return to
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.Create(to)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}
