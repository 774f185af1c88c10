//go:build unix

package rows_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Close ends a reader that waits for the turn. A reader of a restored journal asks for one.
func TestCloseWhileAReaderWaitsForItsTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, s := joined(t, path)
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.NoError(t, j.Close())
	require.NoError(t, os.Remove(path+"-sidecar"))
	synctest.Test(t, func(t *testing.T) {
		d := driver(t, path)
		theirs, err := d.BeginSQL(t.Context())
		require.NoError(t, err)
		closed, read := make(chan error, 1), make(chan error, 1)
		go func() { closed <- d.Close() }()
		synctest.Wait()
		ctx, end := context.WithCancel(t.Context())
		go func() {
			read <- d.Read(ctx, func(r rowstore.Reader) error {
				head, err := r.Head(ctx)
				assert.NotEmpty(t, head.Restored)
				return err
			})
		}()
		synctest.Wait()
		require.NoError(t, theirs.Rollback())
		synctest.Wait()
		assert.Len(t, closed, 1)
		end()
		require.NoError(t, <-closed)
		assert.NoError(t, <-read)
	})
}

// Close waits for a transaction of the journal's, however slow the disk is.
func TestCloseWaitsForOwnTransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) {
		d := driver(t, path)
		tx, head, _, err := d.Begin(t.Context(), rowstore.Keys{})
		require.NoError(t, err)
		closed := make(chan error, 1)
		go func() { closed <- d.Close() }()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Empty(t, closed)
		require.NoError(t, tx.Commit(t.Context(), head, nil))
		assert.NoError(t, <-closed)
	})
}
