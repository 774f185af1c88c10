//go:build unix

package sqlite_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// If a session's file can't be made, Join's error says so, and no file is left.
func TestJoinWhereNoFileCanBeMade(t *testing.T) {
	for name, what := range map[string]func(path string) string{
		"without the directory": filepath.Dir,
		"without the file":      func(path string) string { return path },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "in", "journal.db")
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			j := open(t, path)
			away := filepath.Join(t.TempDir(), "away")
			require.NoError(t, os.Rename(what(path), away))
			for range 3 {
				_, err := j.Join(t.Context())
				require.ErrorIs(t, err, fs.ErrNotExist)
				require.ErrorContains(t, err, "start a session")
			}
			assert.Empty(t, sessionFiles(t, path))
			require.NoError(t, os.Rename(away, what(path)))
			assert.Empty(t, sessionFiles(t, path))
			goOn(t, j, "invoice-1")
		})
	}
}

// If a session fails to begin while its journal is closed, its file belongs to no session. The next session's journal
// removes it.
func TestJoinThatFailsAsItsJournalIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	d := &unsyncable{careless: careless{filepath.Dir(path)}}
	t.Cleanup(watch(d))
	j := open(t, path)
	release := sqlite.Hold(j)
	joined, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := j.Join(t.Context())
		joined <- err
	}()
	for sqlite.Queued(j) < 1 {
		runtime.Gosched()
	}
	go func() { closed <- j.Close() }()
	for sqlite.Queued(j) < 2 {
		runtime.Gosched()
	}
	d.fails.Store(true)
	release()
	require.Error(t, <-joined)
	<-closed
	d.fails.Store(false)
	require.Len(t, sessionFiles(t, path), 1)
	goOn(t, open(t, path), "invoice-1")
	assert.Empty(t, sessionFiles(t, path))
}

// If it can't be read whether a session exists, it is neither lost nor dead.
func TestBrokenStatementOfASession(t *testing.T) {
	t.Parallel()
	others := func(st *stage) error {
		_, err := anotherProcess(t, st.path).ExecContext(t.Context(), "PRAGMA busy_timeout=60000; UPDATE onceward_sessions SET id = id")
		return err
	}
	newScene(t).breaks(t, map[string]deed{
		"begin after another has written": func(st *stage) error {
			if err := others(st); err != nil {
				return err
			}
			return st.apply(begin("new", st.s))
		},
		"begin what a dead session holds": func(st *stage) error { return st.apply(begin("row in flight", st.s)) },
	})
}
