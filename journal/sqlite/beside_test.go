package sqlite_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// belongings are what is written behind a journal's name for the files that belong to it.
var belongings = []string{"-journal", "-wal", "-shm", "-sidecar", "-sidecar-12", "-sidecars", "-session-", "-session-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "-session-wal"}

// A backup is never given the name of a file that belongs to a journal, by whatever path.
func TestBackupBesideAJournal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a-wal-session-journal.db")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	j := open(t, path)
	goOn(t, j, "invoice-1")
	before := filesOf(t, path)
	for _, suffix := range belongings {
		for _, to := range []string{path + suffix, filepath.Join(link, filepath.Base(path)+suffix), dir + "/../" + filepath.Base(dir) + "/" + filepath.Base(path) + suffix} {
			err := j.Backup(t.Context(), to)
			require.Error(t, err, to)
			if _, exists := os.Lstat(to); exists != nil {
				require.ErrorIs(t, err, fs.ErrInvalid, to)
			}
		}
	}
	assert.Equal(t, before, filesOf(t, path))
	goOn(t, j, "invoice-2")
	require.NoError(t, j.Backup(t.Context(), path+"-backup"), "any other name will do")
	require.NoError(t, j.Close())
	goOn(t, open(t, path), "invoice-3")
}

// What is left of an older file would be taken for the backup's own.
func TestBackupBesideWhatIsLeft(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	for _, suffix := range []string{"-journal", "-wal"} {
		to := filepath.Join(t.TempDir(), "backup.db")
		require.NoError(t, os.WriteFile(to+suffix, []byte("left"), 0o600))
		err := j.Backup(t.Context(), to)
		require.ErrorIs(t, err, fs.ErrExist)
		assert.ErrorContains(t, err, to+suffix)
	}
}

// A journal is not made, or opened, under such a name.
func TestJournalBesideAnother(t *testing.T) {
	path := madeAndClosed(t)
	copied := contents(t, path)[path]
	for _, suffix := range belongings {
		_, err := sqlite.Open(path+suffix, sqlite.Options{})
		require.ErrorIs(t, err, sqlite.ErrNotJournal, suffix)
		assert.ErrorContains(t, err, "belongs to "+path)
		if suffix != "-sidecar" {
			require.NoFileExists(t, path+suffix)
			require.NoError(t, os.WriteFile(path+suffix, []byte(copied), 0o600))
			for _, opts := range []sqlite.Options{{}, {Existing: true}, {ReadOnly: true}} {
				_, err = sqlite.Open(path+suffix, opts)
				require.ErrorIs(t, err, sqlite.ErrNotJournal, suffix)
			}
			require.NoError(t, os.Remove(path+suffix))
		}
	}
	goOn(t, open(t, path), "invoice-2")
	alone := filepath.Join(t.TempDir(), "payments-journal")
	goOn(t, open(t, alone), "invoice-1")
}
