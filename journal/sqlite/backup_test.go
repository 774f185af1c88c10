package sqlite_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A backup of a journal in use contains every event that was reported before it.
func TestBackupOfAJournalInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, to := filepath.Join(dir, "journal.db"), filepath.Join(dir, "backup.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	others(t, j, s, "before")
	held, err := j.Apply(t.Context(), begin("held", s))
	require.NoError(t, err)
	bookmark, err := j.SetBookmark(t.Context(), journal.Bookmark{Name: "feed", At: held.Operation.CreatedAt, Note: []byte("evt_1")})
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		others(t, j, s, "meanwhile")
	}()
	require.NoError(t, j.Backup(t.Context(), to))
	<-done

	info, err := os.Stat(to)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	parts, err := filepath.Glob(to + "?*")
	require.NoError(t, err)
	assert.Empty(t, parts, "nothing else is left beside it")

	copied := open(t, to)
	require.Empty(t, verify(t, copied))
	for i := range manyOthers {
		op, err := copied.Get(t.Context(), journal.Ref{ID: fmt.Sprint("before-", i)})
		require.NoError(t, err)
		assert.Equal(t, journal.StateCompleted, op.State)
	}
	_, err = copied.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	assert.Regexp(t, `is the backup that was made at 20..-.*, after commit \d+`, err.Error())
	marked, err := copied.Bookmark(t.Context(), "feed")
	require.NoError(t, err)
	assert.Equal(t, bookmark, marked)
	marked.Note = nil
	_, err = copied.SetBookmark(t.Context(), marked)
	require.ErrorIs(t, err, journal.ErrRestored)

	require.NoError(t, copied.Adopt(t.Context()))
	_, err = copied.SetBookmark(t.Context(), marked)
	require.NoError(t, err)
	op, err := copied.Get(t.Context(), held.Operation.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StatePending, op.State)
	assert.True(t, op.MayHaveRun)
	goOn(t, copied, "after")
	require.NoError(t, copied.Close())
	copied = open(t, to)
	goOn(t, copied, "it is a journal as any other")
	require.Empty(t, verify(t, copied))
}

// A backup without an open operation still has to be adopted.
func TestBackupWithNothingOpen(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "journal.db"), filepath.Join(dir, "backup.db")
	j := open(t, path)
	goOn(t, j, "completed")
	require.NoError(t, j.Backup(t.Context(), to))
	require.NoError(t, j.Close())
	for range 3 {
		copied := open(t, to)
		_, err := copied.Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored, "it was not adopted")
		assert.Regexp(t, `after commit [1-9]`, err.Error())
		again := filepath.Join(t.TempDir(), "again.db") // a copy of a copy knows the commit, too
		require.NoError(t, copied.Backup(t.Context(), again))
		require.NoError(t, copied.Close())
		to = again
	}
	// The backup is put back in the journal's place, beside its sidecar, though nothing was missing.
	copyFile(t, to, path)
	j = open(t, path)
	_, err := j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, j.Adopt(t.Context()))
	goOn(t, j, "after")
	// A backup of an adopted journal is a backup of its own.
	again := filepath.Join(dir, "again.db")
	require.NoError(t, j.Backup(t.Context(), again))
	copied := open(t, again)
	_, err = copied.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
}

func TestBackupNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	j := open(t, filepath.Join(dir, "journal.db"))
	there := filepath.Join(dir, "there.db")
	require.NoError(t, os.WriteFile(there, []byte("mine"), 0o600))
	err := j.Backup(t.Context(), there)
	require.ErrorIs(t, err, fs.ErrExist)
	assert.ErrorContains(t, err, there)
	content, err := os.ReadFile(there)
	require.NoError(t, err)
	assert.Equal(t, "mine", string(content))

	for _, suffix := range []string{"-wal", "-journal"} { // of an older database, which would count as the backup's
		to := filepath.Join(dir, "beside"+suffix[1:])
		require.NoError(t, os.WriteFile(to+suffix, nil, 0o600))
		require.ErrorIs(t, j.Backup(t.Context(), to), fs.ErrExist)
	}
	require.ErrorIs(t, j.Backup(t.Context(), filepath.Join(dir, "no", "such.db")), fs.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	to := filepath.Join(dir, "backup.db")
	require.ErrorIs(t, j.Backup(ctx, to), context.Canceled)
	assert.NoFileExists(t, to)
	require.NoError(t, j.Close())
	require.ErrorIs(t, j.Backup(t.Context(), to), journal.ErrClosed)
}

// A backup keeps the application's tables in the file.
func TestBackupKeepsTheApplicationsTables(t *testing.T) {
	dir := t.TempDir()
	j := open(t, filepath.Join(dir, "journal.db"))
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "CREATE TABLE invoices (id INTEGER PRIMARY KEY, paid INTEGER); INSERT INTO invoices VALUES (991, 1)")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.Empty(t, verify(t, j), "the application's own tables are none of the journal's business")
	to := filepath.Join(dir, "backup.db")
	require.NoError(t, j.Backup(t.Context(), to))
	var paid int
	require.NoError(t, anotherProcess(t, to).QueryRowContext(t.Context(), "SELECT paid FROM invoices WHERE id = 991").Scan(&paid))
	assert.Equal(t, 1, paid)
}

func TestABackupToARelativePathIsMadeBesideIt(t *testing.T) {
	if !alone(t) {
		return
	}
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	goOn(t, j, "invoice-1")
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("TMPDIR", filepath.Join(dir, "none")) // otherwise it might be on another device
	part := filepath.Join(dir, "backup.db.part-copy")
	for _, name := range []string{part, part + "-journal"} {
		require.NoError(t, os.WriteFile(name, []byte("a crash left it"), 0o600))
	}
	lock := flock.New(part, flock.SetFlag(os.O_RDWR))
	held, err := lock.TryLock()
	require.NoError(t, err)
	require.True(t, held)
	require.ErrorIs(t, j.Backup(t.Context(), "backup.db"), fs.ErrExist, "another process makes it")
	assert.FileExists(t, part)
	require.NoError(t, lock.Close())
	require.NoError(t, j.Backup(t.Context(), "backup.db"))
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(dir, "backup.db")}, names)
}

// A backup whose context ends leaves no file.
func TestBackupThatIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	j := open(t, filepath.Join(dir, "journal.db"))
	release := sqlite.Hold(j)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- j.Backup(ctx, filepath.Join(dir, "backup.db")) }()
	for sqlite.Queued(j) == 0 {
		runtime.Gosched()
	}
	parts, err := filepath.Glob(filepath.Join(dir, "backup*"))
	require.NoError(t, err)
	require.NotEmpty(t, parts)
	cancel()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	release()
	parts, err = filepath.Glob(filepath.Join(dir, "backup*"))
	require.NoError(t, err)
	assert.Empty(t, parts)

	require.ErrorIs(t, j.Backup(&endsSoon{Context: t.Context()}, filepath.Join(dir, "backup.db")), context.Canceled)
	assert.NoFileExists(t, filepath.Join(dir, "backup.db"), "it ended as the copy was made")
}

// endsSoon is a context that ends when its error is read for the second time.
type endsSoon struct {
	context.Context
	asked atomic.Int32
}

func (c *endsSoon) Err() error {
	if c.asked.Add(1) > 1 {
		return context.Canceled
	}
	return nil
}

// A backup fails if the journal can't be read, or if the backup can't be put in its place.
func TestBackupThatCantBeMade(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "journal.db"), filepath.Join(dir, "backup.db")
	j := open(t, path)
	require.NoError(t, os.Rename(path, path+".away"))
	require.ErrorContains(t, j.Backup(t.Context(), to), "can't be opened")
	require.NoError(t, os.Rename(path+".away", path))

	release := sqlite.Hold(j)
	made := make(chan error, 1)
	go func() { made <- j.Backup(t.Context(), to) }()
	for sqlite.Queued(j) == 0 {
		runtime.Gosched()
	}
	require.NoError(t, os.MkdirAll(filepath.Join(to, "somebody else's"), 0o700))
	release()
	require.Error(t, <-made)
	parts, err := filepath.Glob(to + ".part*")
	require.NoError(t, err)
	assert.Empty(t, parts)
}
