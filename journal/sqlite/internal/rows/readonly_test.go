//go:build unix

package rows_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/location"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
)

var errToRead = errors.New("opened to read")

// openToRead opens a file beside its users.
func openToRead(t *testing.T, path string) *rowstore.Store {
	t.Helper()
	j, err := triedToRead(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func triedToRead(ctx context.Context, path string) (*rowstore.Store, error) {
	d, err := rows.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	j, err := rowstore.OpenToRead(ctx, d, nil, errToRead)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return j, nil
}

// paid begins and completes an operation in a session of its own.
func paid(t *testing.T, j *rowstore.Store, id string) {
	t.Helper()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	result, err := j.Apply(t.Context(), begin(id, s))
	require.NoError(t, err)
	require.Equal(t, machine.Execute, result.Decision)
	ev := complete(result.Operation, s)
	ev.Delivered = true
	_, err = j.Apply(t.Context(), ev)
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
}

// leave makes a journal with one completed operation that no process has open.
func leave(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	paid(t, j, "invoice-1")
	require.NoError(t, j.Close())
	return path
}

// surroundings describes a journal's files: inodes, owners, modes and sizes.
func surroundings(t *testing.T, path string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	there := make(map[string]string)
	for _, name := range names {
		info, err := os.Stat(name)
		require.NoError(t, err)
		sys := info.Sys().(*syscall.Stat_t)
		is := fmt.Sprint(sys.Uid, " ", sys.Gid, " ", info.Mode())
		if name != path+"-sidecar" { // the writing process replaces it now and then
			is += fmt.Sprint(" ", sys.Ino, " ", info.Size())
		}
		there[filepath.Base(name)] = is
	}
	return there
}

// A file that is written while it is read without a lock is read again, even if its size is the same.
func TestReadOnlyReadsChangedPagesAgain(t *testing.T) {
	path := leave(t)
	d, err := rows.OpenReadOnly(path)
	require.NoError(t, err)
	defer d.Close()
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	reads := 0
	read := func(r rowstore.Reader) error {
		if reads++; reads < 3 {
			require.NoError(t, os.WriteFile(path, whole, 0o600))
			at := time.Now().Add(time.Duration(reads) * time.Minute)
			require.NoError(t, os.Chtimes(path, at, at))
		}
		_, err := r.Head(t.Context())
		return err
	}
	require.NoError(t, d.Read(t.Context(), read))
	assert.Equal(t, 3, reads)
	reads = -100
	require.ErrorContains(t, d.Read(t.Context(), read), "try again")
}

// A read that waits for a connection ends with its context.
func TestReadOnlyEndsWithItsContext(t *testing.T) {
	d, err := rows.OpenReadOnly(leave(t))
	require.NoError(t, err)
	defer d.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var nest func(depth int) error
	nest = func(depth int) error {
		return d.Read(ctx, func(rowstore.Reader) error {
			if depth == 4 {
				cancel()
			}
			return nest(depth + 1)
		})
	}
	require.ErrorIs(t, nest(1), context.Canceled)
}

// A file without a journal, or with one of another layout, is refused and stays as it is.
func TestExistingMakesNothing(t *testing.T) {
	inDB := func(t *testing.T, path, text string) {
		db, err := sql.Open("sqlite", "file:"+path)
		require.NoError(t, err)
		defer db.Close()
		_, err = db.Exec(text)
		require.NoError(t, err)
	}
	for what, row := range map[string]struct {
		make func(t *testing.T, path string)
		is   error
	}{
		"an empty file": {func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o600)) }, location.ErrNotJournal},
		"another file": {func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte(fmt.Sprintf("%1024d", 1)), 0o600))
		}, location.ErrNotJournal},
		"the application's tables": {func(t *testing.T, path string) { inDB(t, path, "CREATE TABLE invoices (id)") }, location.ErrNotJournal},
		"its tables and a WAL": {func(t *testing.T, path string) {
			inDB(t, path, "PRAGMA journal_mode=WAL; CREATE TABLE invoices (id)")
		}, location.ErrNotJournal},
		"another's table": {func(t *testing.T, path string) { inDB(t, path, "CREATE TABLE OnceWard_invoices (id)") }, location.ErrNotJournal},
		"another encoding": {func(t *testing.T, path string) {
			inDB(t, path, "PRAGMA encoding='UTF-16'; CREATE TABLE invoices (id); DROP TABLE invoices")
		}, location.ErrNotJournal},
		"another layout": {func(t *testing.T, path string) {
			require.NoError(t, open(t, path).Close())
			execute(t, path, "UPDATE onceward_head SET version = 99")
		}, journal.ErrVersion},
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "app.db")
			row.make(t, path)
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			before := surroundings(t, path)
			opens := map[string]func() error{
				"read-only": func() error { _, err := rows.OpenReadOnly(path); return err },
				"existing":  func() error { _, err := rows.Open(path, rows.Options{Existing: true}); return err },
			}
			for name, opened := range opens {
				require.ErrorIs(t, opened(), row.is, name)
				again, err := os.ReadFile(path)
				require.NoError(t, err)
				assert.True(t, bytes.Equal(content, again), name)
				assert.Equal(t, before, surroundings(t, path), name)
			}
		})
	}
	path := leave(t)
	j, err := rows.Open(path, rows.Options{Existing: true})
	require.NoError(t, err)
	require.NoError(t, j.Close())
}
