//go:build unix

package rows_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
)

// A driver remembers the head that it has written. The head is as another driver reads it, to the millisecond.
func TestHeadIsAsItIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	headOf := func(d *rows.Driver) rowstore.Head {
		tx, head, _, err := d.Begin(t.Context(), rowstore.Keys{})
		require.NoError(t, err)
		tx.Rollback()
		return head
	}
	d := driver(t, path)
	tx, head, _, err := d.Begin(t.Context(), rowstore.Keys{})
	require.NoError(t, err)
	at := time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.FixedZone("there", 3600))
	head.Clock.Last, head.Clock.Ahead, head.Clock.LeastMargin, head.Naming = at, at, time.Hour, "header"
	require.NoError(t, tx.Commit(t.Context(), head, nil))
	remembered := headOf(d)
	assert.Equal(t, at.UTC().Truncate(time.Millisecond), remembered.Clock.Last)

	tx, head, _, err = d.Begin(t.Context(), rowstore.Keys{})
	require.NoError(t, err)
	head.Naming = "another"
	require.Error(t, tx.Commit(t.Context(), head, []*rowstore.Change{{Row: &rowstore.Row{Handle: 1}}}), "there is no such row")
	assert.Equal(t, remembered, headOf(d), "a transaction that failed has changed nothing")

	require.NoError(t, d.Close())
	again := driver(t, path)
	assert.Equal(t, remembered, headOf(again))
	require.NoError(t, again.Close())
}
