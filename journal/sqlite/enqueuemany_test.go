//go:build unix

package sqlite_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// The outbox queries of an enqueue use an index, so that an enqueue takes no longer in a large transaction.
func TestOutboxIsReadByItsIndices(t *testing.T) {
	path, _, _ := joined(t)
	for query, args := range map[string][]any{
		sqlite.NewestInOutbox: {0},
		"SELECT 1 FROM onceward_outbox WHERE " + sqlite.OutboxOf + " ORDER BY seq":             {1, 3},
		"SELECT 1 FROM onceward_outbox WHERE id = ? AND scope = ? AND parent = ? ORDER BY seq": {"", "", ""},
	} {
		assert.Contains(t, planOf(t, anotherProcess(t, path), query, args...), "SEARCH onceward_outbox USING", query)
	}
}

// A transaction reads the writes of another process once, and all of its enqueues know them.
func TestEnqueueOfManyBesideAnotherProcess(t *testing.T) {
	path, j, _ := joined(t)
	db := application(t, path)
	goOn(t, j, "invoice-1")
	_, in, out := startTalking(t, "begin", path)
	for round := range 2 {
		_, err := io.WriteString(in, "1\n")
		require.NoError(t, err)
		require.True(t, out.Scan())
		tx, err := db.Begin()
		require.NoError(t, err)
		for n := range 3 {
			ours, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue(fmt.Sprint("order-", round, n)))
			require.NoError(t, err)
			assert.Equal(t, journal.Recorded, ours.Decision)
			ev := enqueue(fmt.Sprint("theirs-", round))
			theirs, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
			require.NoError(t, err)
			assert.NotEqual(t, journal.Recorded, theirs.Decision, "it is there already")
			assert.NotZero(t, theirs.Operation.Handle)
		}
		require.NoError(t, tx.Commit())
	}
	assert.Empty(t, verify(t, j))
	for round := range 2 {
		for n := range 3 {
			assert.True(t, has(t, j, fmt.Sprint("order-", round, n)))
		}
	}
}
