package mapdb_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/mapdb"
)

func TestOfTwoTransactionsThatWaitForEachOtherOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mapdb.New().Open()
		of := func(handle int64) rowstore.Keys {
			return rowstore.Keys{Handles: []int64{handle}, Lock: rowstore.WaitLock}
		}
		begin := func(handle int64) rowstore.Tx {
			tx, _, _, err := d.Begin(t.Context(), of(handle))
			require.NoError(t, err)
			return tx
		}
		tx := begin(0)
		require.NoError(t, tx.Commit(t.Context(), rowstore.Head{}, []*rowstore.Change{
			{Row: &rowstore.Row{Handle: 1}, Insert: true}, {Row: &rowstore.Row{Handle: 2}, Insert: true},
		}))
		a, b := begin(1), begin(2)
		waits := make(chan error)
		go func() {
			_, err := a.Find(t.Context(), of(2))
			waits <- err
		}()
		synctest.Wait()
		_, err := b.Find(t.Context(), of(1))
		require.ErrorIs(t, err, rowstore.ErrLocked)
		b.Rollback()
		assert.NoError(t, <-waits)
		a.Rollback()
	})
}
