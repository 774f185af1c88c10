//go:build unix

package rows_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
)

func nothing(ctx context.Context) error { return ctx.Err() }

// A backup of a journal in use has everything that was reported before it, and is marked as a copy.
func TestBackupOfAJournalInUse(t *testing.T) {
	path, to := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "backup.db")
	d := driver(t, path)
	j := over(t, d)
	execute(t, path, "CREATE TABLE orders (id TEXT); INSERT INTO orders VALUES ('991')")
	for n := range 20 {
		paid(t, j, fmt.Sprint("before-", n))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 20 {
			paid(t, j, fmt.Sprint("meanwhile-", n))
		}
	}()
	require.NoError(t, d.Backup(t.Context(), to, nothing))
	<-done
	info, err := os.Stat(to)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	parts, err := filepath.Glob(to + "?*")
	require.NoError(t, err)
	assert.Empty(t, parts, "nothing else is left beside it")

	copied := openToRead(t, to)
	require.Empty(t, verify(t, copied))
	for n := range 20 {
		requirePaid(t, copied, fmt.Sprint("before-", n))
	}
	execute(t, to, "DELETE FROM orders WHERE id = '991'")
	for range 2 { // however often it is opened
		j := open(t, to)
		_, err = j.Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		assert.Regexp(t, `is the backup that was made at 20..-.*, after commit \d+`, err.Error())
		require.NoError(t, j.Close())
	}
	again := filepath.Join(t.TempDir(), "again.db")
	second := driver(t, to)
	defer second.Close()
	require.NoError(t, second.Backup(t.Context(), again, nothing))
	_, theirs := open(t, again).Join(t.Context())
	require.ErrorIs(t, theirs, journal.ErrRestored)
	assert.Regexp(t, `after commit [1-9]`, theirs.Error(), "a copy of a copy knows the commit, too")
}

// A reader makes the same backup, beside a writer and alone.
func TestBackupByAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	w := open(t, path)
	paid(t, w, "invoice-1")
	looking, err := rows.OpenReadOnly(path)
	require.NoError(t, err)
	defer looking.Close()
	for _, name := range []string{"beside", "alone"} {
		to := filepath.Join(t.TempDir(), name)
		before := surroundings(t, path)
		require.NoError(t, looking.Backup(t.Context(), to, nil))
		assert.Equal(t, before, surroundings(t, path), name)
		requirePaid(t, openToRead(t, to), "invoice-1")
		_, err := open(t, to).Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		_ = w.Close()
	}
}

// A backup never overwrites a file, and belongs to no other journal.
func TestBackupNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	d := driver(t, path)
	defer d.Close()
	there := filepath.Join(dir, "there.db")
	require.NoError(t, d.Backup(t.Context(), there, nothing))
	content, err := os.ReadFile(there)
	require.NoError(t, err)
	err = d.Backup(t.Context(), there, nothing)
	require.ErrorIs(t, err, fs.ErrExist)
	assert.ErrorContains(t, err, there)
	again, err := os.ReadFile(there)
	require.NoError(t, err)
	assert.Equal(t, string(content), string(again))
	for _, suffix := range []string{"-wal", "-journal"} {
		to := filepath.Join(dir, "beside"+suffix[1:])
		require.NoError(t, os.WriteFile(to+suffix, nil, 0o600))
		require.ErrorIs(t, d.Backup(t.Context(), to, nothing), fs.ErrExist)
	}
	require.ErrorIs(t, d.Backup(t.Context(), path+"-wal", nothing), fs.ErrExist)
	require.ErrorIs(t, d.Backup(t.Context(), filepath.Join(dir, "no", "such.db"), nothing), fs.ErrNotExist)
}

// A backup whose context ends leaves no file, and the next one removes those of a crash.
func TestBackupThatIsGivenUp(t *testing.T) {
	path := leave(t)
	d := driver(t, path)
	defer d.Close()
	dir := t.TempDir()
	to := filepath.Join(dir, "backup.db")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.Backup(ctx, to, nothing), context.Canceled)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	part := to + ".part-copy"
	for _, name := range []string{part, part + "-journal"} {
		require.NoError(t, os.WriteFile(name, []byte("a crash left it"), 0o600))
	}
	lock := flock.New(part, flock.SetFlag(os.O_RDWR))
	held, err := lock.TryLock()
	require.NoError(t, err)
	require.True(t, held)
	require.ErrorIs(t, d.Backup(t.Context(), to, nothing), fs.ErrExist, "another process makes it")
	require.NoError(t, lock.Close())
	require.NoError(t, d.Backup(t.Context(), to, nothing))
	names, err := filepath.Glob(to + "*")
	require.NoError(t, err)
	assert.Equal(t, []string{to}, names)
}

// A backup that can't be marked fails, and leaves no file.
func TestBackupOfADamagedHead(t *testing.T) {
	path := leave(t)
	d := driver(t, path)
	defer d.Close()
	execute(t, path, "UPDATE onceward_head SET sum = sum + 1")
	to := filepath.Join(t.TempDir(), "backup.db")
	require.ErrorContains(t, d.Backup(t.Context(), to, nothing), "back up to "+to)
	names, err := filepath.Glob(to + "*")
	require.NoError(t, err)
	assert.Empty(t, names)
}
