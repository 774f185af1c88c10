package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// closes is a context that closes the journal just before it says whether it has ended.
type closes struct {
	context.Context
	j *sqlite.Journal
}

func (c *closes) Err() error            { _ = c.j.Close(); return nil }
func (c *closes) Done() <-chan struct{} { return nil }

// A reader gets ErrClosed while the journal is being closed, and waits for nothing.
func TestReadersOfAJournalThatIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	for n := range 10 {
		j, err := sqlite.Open(path, sqlite.Options{ReadOnly: n%2 == 0})
		require.NoError(t, err)
		if n < 2 {
			_, err := j.Stats(&closes{t.Context(), j})
			require.ErrorIs(t, err, journal.ErrClosed)
			continue
		}
		var reading sync.WaitGroup
		for range 16 {
			reading.Go(func() {
				for {
					if _, err := j.Stats(t.Context()); err != nil {
						assert.ErrorIs(t, err, journal.ErrClosed)
						return
					}
				}
			})
		}
		_, err = j.Stats(t.Context())
		require.NoError(t, err)
		require.NoError(t, j.Close())
		reading.Wait()
	}
}

// A missing table is an error for readers.
func TestReadersOfATableThatIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	alter(t, path, "DROP TABLE onceward_sessions")
	_, err := j.Stats(t.Context())
	require.ErrorContains(t, err, "onceward_sessions")
	_, err = j.Stats(t.Context())
	require.ErrorContains(t, err, "onceward_sessions", "each time")
}

// If a file was moved away, opening further connections for reading is an error.
func TestReadersOfAFileThatIsGone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open can't be moved")
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	require.NoError(t, os.Rename(path, path+"-elsewhere"))
	_, err := j.Stats(t.Context())
	require.ErrorContains(t, err, "open for reading")
	require.NoError(t, os.Rename(path+"-elsewhere", path))
	_, err = j.Stats(t.Context())
	require.NoError(t, err)
}
