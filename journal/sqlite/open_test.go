package sqlite_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// alter runs a statement on a file. If a journal has the file open, alter waits for it.
func alter(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "PRAGMA busy_timeout=10000; "+statement)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	for name, row := range map[string]struct {
		make func(t *testing.T, path string)
		is   error
		says string
	}{
		"a directory": {func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, sqlite.ErrNotJournal, "directory"},
		"text": {func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("invoices\n"), 1000), 0o600))
		}, sqlite.ErrNotJournal, "not a SQLite database"},
		"a database with other tables under our names": {func(t *testing.T, path string) { alter(t, path, "CREATE TABLE Onceward_notes (id)") },
			sqlite.ErrNotJournal, "something named Onceward_notes"},
		"a database in another encoding": {func(t *testing.T, path string) {
			alter(t, path, "PRAGMA encoding='UTF-16le'; CREATE TABLE invoices (id)")
		},
			sqlite.ErrNotJournal, "UTF-16le"},
		"a newer release's journal": {func(t *testing.T, path string) {
			require.NoError(t, open(t, path).Close())
			alter(t, path, "UPDATE onceward_head SET version = 99")
		}, journal.ErrVersion, "layout 99"},
		"a journal of a development version": {func(t *testing.T, path string) {
			alter(t, path, "CREATE TABLE onceward_schema (one INTEGER PRIMARY KEY, version INTEGER); CREATE TABLE onceward_log (seq INTEGER PRIMARY KEY)")
		}, journal.ErrVersion, "give another path"},
		"a journal without a version": {func(t *testing.T, path string) {
			require.NoError(t, open(t, path).Close())
			alter(t, path, "DELETE FROM onceward_head")
		}, nil, "restore a backup"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			row.make(t, path)
			before, _ := os.ReadFile(path)
			_, err := sqlite.Open(path, sqlite.Options{})
			if row.is != nil {
				require.ErrorIs(t, err, row.is)
			}
			assert.ErrorContains(t, err, row.says)
			assert.ErrorContains(t, err, path)
			after, _ := os.ReadFile(path)
			assert.Equal(t, before, after, "it was left alone")
		})
	}
}

func TestOpenNamesUnwritablePaths(t *testing.T) {
	_, err := sqlite.Open(filepath.Join(t.TempDir(), "no", "such", "journal.db"), sqlite.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)

	dir := t.TempDir()
	require.NoError(t, open(t, filepath.Join(dir, "earlier.db")).Close())
	require.NoError(t, os.Chmod(dir, 0o555))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // otherwise user nobody can't reach it
	t.Cleanup(asNobody(t))
	_, err = sqlite.Open(filepath.Join(dir, "journal.db"), sqlite.Options{})
	require.ErrorIs(t, err, os.ErrPermission)
	assert.ErrorContains(t, err, "can be written")
}

func TestOpenReportsADamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.NoError(t, j.Close())

	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := 8192; i < len(content); i++ { // all pages except the first
		content[i] = 0xa5
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
	j, err = sqlite.Open(path, sqlite.Options{})
	if err == nil {
		t.Cleanup(func() { _ = j.Close() })
		_, err = j.Join(t.Context())
	}
	require.Error(t, err)
	assert.ErrorContains(t, err, "damaged")
	assert.ErrorContains(t, err, "restore a backup")
}

func TestPragmasAreReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "any.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, sqlite.Dial(path, "synchronous", "FULL", "2"))
	err := sqlite.Dial(path, "synchronous", "FUL", "2")
	require.ErrorContains(t, err, "reads back as 1, not 2")
	err = sqlite.Dial(path, "jurnal_mode", "WAL", "wal")
	require.Error(t, err)
}

func TestFilesAreTheOwnersOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a journal?#%.db")
	j := open(t, path)
	_, err := j.Join(t.Context())
	require.NoError(t, err)
	modes := func() {
		names := filesOf(t, path)
		assert.GreaterOrEqual(t, len(names), 4, "the journal, its -wal, its -shm and the session's file")
		for _, name := range names {
			info, err := os.Stat(name)
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
		}
	}
	modes()
	require.NoError(t, j.Close())
	require.NoError(t, os.Chmod(path, 0o644))
	open(t, path)
	modes()
}

func TestOpensOfOneFileInAProcess(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "journal.db"), filepath.Join(dir, "link.db")
	first := open(t, path)
	require.NoError(t, os.Symlink(path, link))
	second := open(t, link)
	s, err := first.Join(t.Context())
	require.NoError(t, err)
	own, err := second.Join(t.Context())
	require.NoError(t, err)
	result, err := second.Apply(t.Context(), begin("invoice-1", own))
	require.NoError(t, err)
	assert.Equal(t, machine.Execute, result.Decision)
	result, err = first.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	assert.Equal(t, machine.Wait, result.Decision, "the other's session is alive")

	require.NoError(t, s.End(t.Context()))
	require.NoError(t, first.Close())
	_, err = first.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.ErrorIs(t, err, journal.ErrClosed)
	_, err = second.Get(t.Context(), journal.Ref{ID: "invoice-1"})
	require.NoError(t, err)
	require.NoError(t, own.End(t.Context()))
	require.NoError(t, second.Close())
	names, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	assert.Equal(t, []string{path, path + "-sidecar"}, names, "nothing else is left beside it")
}

// A file may be opened by a link to its folder, and is refused under a second name.
func TestFileByAnotherName(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.Symlink(dir, other))
	j := open(t, filepath.Join(dir, "journal.db"))
	goOn(t, j, "invoice-1")
	assert.True(t, has(t, open(t, filepath.Join(other, "..", filepath.Base(other), "journal.db")), "invoice-1"))

	linked := filepath.Join(dir, "linked.db")
	require.NoError(t, os.Link(filepath.Join(dir, "journal.db"), linked))
	_, err := sqlite.Open(linked, sqlite.Options{})
	require.ErrorIs(t, err, sqlite.ErrSecondName)
	assert.ErrorContains(t, err, "second name")
	require.NoFileExists(t, linked+"-wal")
}

func TestALinkToWhereNoFileIsYetIsFollowed(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	path, link := filepath.Join(elsewhere, "journal.db"), filepath.Join(dir, "link.db")
	require.NoError(t, os.Symlink(path, link))
	relative := filepath.Join(dir, "relative.db")
	require.NoError(t, os.Symlink("link.db", relative))
	j := open(t, relative)
	goOn(t, j, "invoice-1")
	assert.FileExists(t, path)
	assert.FileExists(t, path+"-sidecar")

	require.NoError(t, os.Symlink(filepath.Join(dir, "none", "journal.db"), filepath.Join(dir, "astray.db")))
	_, err := sqlite.Open(filepath.Join(dir, "astray.db"), sqlite.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, filepath.Join("none", "journal.db"))
}
