package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

// Who reads as the journal is closed is told so, and waits for nobody.
func TestReadersOfAJournalThatIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	goOn(t, open(t, path), "invoice-1")
	for range 10 {
		j := open(t, path)
		require.True(t, has(t, j, "invoice-1"))
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
		_, err := j.Stats(t.Context())
		require.NoError(t, err)
		require.NoError(t, j.Close())
		reading.Wait()
	}
}

// A table that is gone is an error for who reads it.
func TestReadersOfATableThatIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	alter(t, path, "DROP TABLE onceward_backup")
	_, err := j.Stats(t.Context())
	require.ErrorContains(t, err, "onceward_backup")
	_, err = j.Stats(t.Context())
	require.ErrorContains(t, err, "onceward_backup", "each time")
}
