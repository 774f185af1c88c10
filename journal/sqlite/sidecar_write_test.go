//go:build unix

package sqlite_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// besides lists the files beside the journal with that prefix after its name.
func besides(t *testing.T, path, suffix string) []string {
	t.Helper()
	names, err := filepath.Glob(path + suffix + "*")
	require.NoError(t, err)
	return names
}

// limitFiles lets no file of this process grow until restore is called.
func limitFiles(t *testing.T) (restore func()) {
	var before syscall.Rlimit
	assert.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	signal.Ignore(syscall.SIGXFSZ) // the test wants the write's own error
	assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: before.Max}))
	return func() { assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) }
}

// A sidecar that can't be written completely does not replace the earlier one.
func TestSidecarThatCantBeWritten(t *testing.T) {
	for name, row := range map[string]struct {
		breaks func(t *testing.T, path string) (mend func())
		is     error
		alone  bool // it changes the whole process
	}{
		"without the directory": {func(t *testing.T, path string) func() {
			away := filepath.Join(t.TempDir(), "away")
			require.NoError(t, os.Rename(filepath.Dir(path), away))
			return func() { require.NoError(t, os.Rename(away, filepath.Dir(path))) }
		}, fs.ErrNotExist, false},
		"without the file": {func(t *testing.T, path string) func() {
			require.NoError(t, os.Rename(path, path+"-away"))
			return func() { require.NoError(t, os.Rename(path+"-away", path)) }
		}, fs.ErrNotExist, false},
		"on a full disk": {func(t *testing.T, _ string) func() { return limitFiles(t) }, syscall.EFBIG, true},
	} {
		t.Run(name, func(t *testing.T) {
			if row.alone && !alone(t) {
				return
			}
			t.Cleanup(sqlite.MarkNever())
			path := filepath.Join(t.TempDir(), "in", "journal.db")
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			j := open(t, path)
			goOn(t, j, "invoice-1")
			require.NoError(t, sqlite.Mark(j))
			require.NoError(t, os.Remove(path+"-sidecar"))
			mend := row.breaks(t, path)
			err := sqlite.Mark(j)
			mend()
			require.ErrorIs(t, err, row.is)
			assert.Empty(t, besides(t, path, "-sidecar"), "nothing of a failed one is left")
			require.NoError(t, sqlite.Mark(j))
			assert.Equal(t, []string{path + "-sidecar"}, besides(t, path, "-sidecar"))
			require.NoError(t, j.Close())
			goOn(t, open(t, path), "invoice-2")
		})
	}
}

// A sidecar is written while the checkpointer moves the WAL, which uses one connection for both. If two goroutines use
// it at a time, it corrupts the memory of the process (https://pkg.go.dev/modernc.org/sqlite).
func TestSidecarBesideACheckpoint(t *testing.T) {
	t.Parallel()
	_, j, s := joined(t)
	committed := make(chan error)
	go func() {
		var err error
		for n := 0; n < soak.Times(300, 3000) && err == nil; n++ {
			ev := begin(fmt.Sprint("op-", n), s)
			ev.Intent.Request.Body = noise(60 << 10)
			_, err = j.Apply(t.Context(), ev)
		}
		committed <- err
	}()
	for {
		select {
		case err := <-committed:
			require.NoError(t, err)
			assert.Empty(t, verify(t, j))
			return
		default:
			require.NoError(t, sqlite.Mark(j))
		}
	}
}

// If its sidecar can't be made, a new journal does not begin.
func TestSidecarThatCantBeMade(t *testing.T) {
	if !alone(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	b := newBreaker(t)
	restore := func() {}
	b.meanwhile(func(statement string) {
		if strings.Contains(statement, "FROM onceward_backup") { // asked before the sidecar is made
			b.meanwhile(nil)
			restore = limitFiles(t)
		}
	})
	_, err := tryOpen(t, path)
	restore()
	require.ErrorContains(t, err, "its sidecar can't be written")
	require.ErrorIs(t, err, syscall.EFBIG)
	assert.Empty(t, besides(t, path, "-sidecar"))
}

// A sidecar that is up to date is not written again, and another process's later sidecar stays.
func TestSidecarThatAnotherWrote(t *testing.T) {
	t.Cleanup(sqlite.MarkNever())
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	require.NoError(t, sqlite.Mark(j))
	before, err := os.Stat(path + "-sidecar")
	require.NoError(t, err)
	require.NoError(t, sqlite.Mark(j))
	after, err := os.Stat(path + "-sidecar")
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "it was written again")

	written, err := os.ReadFile(path + "-sidecar")
	require.NoError(t, err)
	identity := identityOf(string(written))
	number := number(t, path, "SELECT max(number) FROM onceward_head")
	for _, says := range []string{
		fmt.Sprintf("onceward-sidecar 1 %s %d\n", identity, number+1000),
		fmt.Sprintf("onceward-sidecar 1 %s %d\n", "ANOTHERANOTHERANOTHERANOTH", number-1),
		fmt.Sprintf("onceward-sidecar 1 %s %d\n", "ANOTHERANOTHERANOTHERANOTH", number+1),
	} {
		require.NoError(t, os.WriteFile(path+"-sidecar", []byte(says), 0o600))
		require.NoError(t, sqlite.Mark(j))
		left, err := os.ReadFile(path + "-sidecar")
		require.NoError(t, err)
		assert.Equal(t, says, string(left))
	}
	// A process that has compared the journal with its sidecar goes on, whatever happens to the sidecar.
	require.NoError(t, os.WriteFile(path+"-sidecar", []byte("onceward-sid"), 0o600))
	_, err = anotherProcess(t, path).ExecContext(t.Context(), "PRAGMA busy_timeout=60000; CREATE TABLE notes (note)")
	require.NoError(t, err)
	goOn(t, j, "invoice-2")
	require.NoError(t, os.WriteFile(path+"-sidecar", written, 0o600))
}

// Operations that an application's transaction has recorded, and that are not taken in yet, count as history too.
func TestSidecarBesideAnOutbox(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	tx, err := application(t, path).Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	_, err = j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue("invoice-1"))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	for _, whole := range []bool{true, false} {
		to := filepath.Join(t.TempDir(), "journal.db")
		copyAll(t, path, to)
		if !whole {
			require.NoError(t, os.Remove(to+"-sidecar"))
		}
		j := open(t, to)
		_, err := j.Join(t.Context())
		if whole {
			require.NoError(t, err)
			assert.True(t, has(t, j, "invoice-1"))
			continue
		}
		require.ErrorIs(t, err, journal.ErrRestored)
		require.ErrorContains(t, err, "has history, and no sidecar")
		require.NoError(t, j.Adopt(t.Context()))
		goOn(t, j, "invoice-2")
	}
}
