//go:build unix

package rows_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/internal/tempfiles"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/journaltest"
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

func harness(t *testing.T) journaltest.Harness {
	path := filepath.Join(t.TempDir(), "journal.db")
	first := open(t, path)
	return journaltest.Harness{
		Journal: first,
		Seed:    soak.Seed(t, 1),
		Open:    func(t *testing.T) machine.Store { return open(t, path) },
		Reopen:  func(t *testing.T) machine.Store { _ = first.Close(); return open(t, path) },
		Kill:    func(t *testing.T, s machine.Session) { rowstore.Kill(s) },
		Freeze:  func(t *testing.T, s machine.Session) func() { rowstore.Kill(s); return func() {} },
		Crash:   func(t *testing.T) machine.Store { return open(t, copied(t, path)) },
		Restored: func(t *testing.T) machine.Store {
			_ = first.Close()
			require.NoError(t, os.Remove(path+"-sidecar"))
			return open(t, path)
		},
	}
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

func TestLongHistory(t *testing.T) {
	journaltest.LongHistory(t, harness(t), soak.Times(100, 1500))
}
