package sqlite_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// belongings are the suffixes of the files that belong to a journal.
var belongings = []string{"-journal", "-wal", "-shm", "-sidecar", "-sidecar-12", "-sidecars", "-session-", "-session-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "-session-wal"}

// A backup never takes the name of a file that belongs to a journal, by any path.
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

// A backup is refused beside files of an older database, which would count as its own.
func TestBackupBesideLeftoverFiles(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	for _, suffix := range []string{"-journal", "-wal"} {
		to := filepath.Join(t.TempDir(), "backup.db")
		require.NoError(t, os.WriteFile(to+suffix, []byte("left"), 0o600))
		err := j.Backup(t.Context(), to)
		require.ErrorIs(t, err, fs.ErrExist)
		assert.ErrorContains(t, err, to+suffix)
	}
}

// A journal is neither made nor opened under the name of a file that belongs to another journal.
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

// Open refuses a name at once if the names of the files beside it would be too long.
func TestNameThatIsTooLong(t *testing.T) {
	name := func(length int) string { return filepath.Join(t.TempDir(), strings.Repeat("j", length)) }
	for _, length := range []int{221, 225, 230, 240, 255} { // the name of a file has up to 255 bytes, and the longest suffix has 35
		path := name(length)
		_, err := sqlite.Open(path, sqlite.Options{})
		require.ErrorIs(t, err, sqlite.ErrNotJournal)
		assert.ErrorContains(t, err, fmt.Sprintf("has %d bytes, and may have 220", length))
		require.NoFileExists(t, path)
	}
	goOn(t, open(t, name(220)), "invoice-1")
}
