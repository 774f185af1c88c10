//go:build unix

package sqlite_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A reader takes a journal's leftover files as they are.
func TestReadOnlyOfLeftoverFiles(t *testing.T) {
	lived := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, lived)
	goOn(t, j, "invoice-1")
	for name, row := range map[string]struct {
		leave func(path string)
		finds bool
	}{
		"an empty -wal": {leave: func(path string) {
			require.NoError(t, open(t, path).Close())
			require.NoError(t, os.WriteFile(path+"-wal", nil, 0o600))
		}, finds: true},
		"an empty -shm": {leave: func(path string) {
			require.NoError(t, open(t, path).Close())
			require.NoError(t, os.WriteFile(path+"-shm", nil, 0o600))
		}, finds: true},
		"a -wal and an empty -shm": {leave: func(path string) {
			require.NoError(t, os.WriteFile(path+"-shm", nil, 0o600))
		}, finds: true},
		"a -wal alone": {leave: func(string) {}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			copyAll(t, lived, path)
			row.leave(path)
			before := surroundings(t, path)
			looking, err := sqlite.Open(path, readOnly)
			if !row.finds {
				require.ErrorContains(t, err, "open it once without Options.ReadOnly")
				return
			}
			require.NoError(t, err)
			defer looking.Close()
			op, err := looking.Get(t.Context(), journal.Ref{ID: "invoice-1"})
			require.NoError(t, err)
			assert.Equal(t, journal.StateCompleted, op.State)
			assert.Equal(t, before, surroundings(t, path))
		})
	}
}

// A missing file and a replaced file are different errors.
func TestReadOnlyOfARemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	leave(t, path)
	j, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	defer j.Close()
	require.NoError(t, os.Rename(path, path+"-elsewhere"))
	_, err = j.Stats(t.Context())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, os.Rename(path+"-elsewhere", path))
	_, err = j.Stats(t.Context())
	require.NoError(t, err)
}

// If it can't be read whether a file beside the journal exists, that is an error, and not an absence.
func TestReadOnlyBesideALoop(t *testing.T) {
	for _, suffix := range []string{"-wal", "-shm"} {
		path := filepath.Join(t.TempDir(), "journal.db")
		leave(t, path)
		j, err := sqlite.Open(path, readOnly)
		require.NoError(t, err)
		defer j.Close()
		require.NoError(t, os.Symlink(path+suffix, path+suffix))
		_, err = j.Get(t.Context(), journal.Ref{ID: "completed"})
		require.ErrorIs(t, err, syscall.ELOOP, suffix)
	}
}

// If the -wal file of a connection was removed, the connection reads on without it.
func TestReadOnlyAfterTheLastWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	w := open(t, path)
	goOn(t, w, "invoice-1")
	j, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	defer j.Close()
	reads := func() {
		t.Helper()
		for range 8 { // each of its connections
			op, err := j.Get(t.Context(), journal.Ref{ID: "invoice-1"})
			require.NoError(t, err)
			require.Equal(t, "paid invoice-1", string(op.Answer.Body))
		}
	}
	reads()
	require.NoError(t, w.Close())
	reads()
	moveWAL(t, path, "TRUNCATE")
	for _, suffix := range []string{"-wal", "-shm"} {
		require.NoError(t, os.Remove(path+suffix))
	}
	reads()
	assert.NoFileExists(t, path+"-wal")
}

// A path that can't be resolved, and a file with two names, are refused.
func TestReadOnlyRefusesAPath(t *testing.T) {
	if !alone(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	leave(t, path)
	require.NoError(t, os.Link(path, path+"-second"))
	_, err := sqlite.Open(path, readOnly)
	require.ErrorContains(t, err, "name")
	require.NoError(t, os.Remove(path+"-second"))

	gone := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(gone, 0o700))
	t.Chdir(gone)
	require.NoError(t, os.Remove(gone))
	_, err = sqlite.Open("journal.db", readOnly)
	require.ErrorContains(t, err, "getwd")
}

// A reader needs the permission to read alone, beside a writer and after it. Without that, each call is an error.
func TestReadOnlyWithoutPermissionToWrite(t *testing.T) {
	for name, alone := range map[string]bool{"beside": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{dir, filepath.Dir(dir)} { // its entries can be looked up
				require.NoError(t, os.Chmod(name, 0o755))
			}
			path := filepath.Join(dir, "journal.db")
			w := open(t, path)
			goOn(t, w, "invoice-1")
			if alone {
				require.NoError(t, w.Close())
			}
			for _, name := range []string{path, path + "-wal", path + "-shm"} {
				if err := os.Chmod(name, 0o444); !alone {
					require.NoError(t, err)
				}
			}
			root := asNobody(t)
			j, err := sqlite.Open(path, readOnly)
			root()
			require.NoError(t, err)
			defer j.Close()
			assert.True(t, has(t, j, "invoice-1"))

			require.NoError(t, os.Chmod(path, 0))
			root = asNobody(t)
			defer root()
			_, err = sqlite.Open(path, readOnly)
			require.ErrorContains(t, err, "unable to open")
		})
	}
}
