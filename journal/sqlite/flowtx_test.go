package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A transaction of the application's own is committed by itself or by the journal, alike.
func TestFlowStepOfAnOwnTransaction(t *testing.T) {
	path, j, s := joined(t)
	f := beginFlow(t, j, s, "order-991")
	require.NoError(t, sqlite.Flush(j))
	step := journal.FlowEvent{Kind: journal.FlowEventRecord, Ref: f.Ref, Session: s.ID(), Claim: f.Claim, At: time.Now(),
		Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepLocal, Name: "book", At: time.Now()}}}
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	own := sqlite.Tx(tx)
	_, err = j.ApplyFlowTx(t.Context(), own, step)
	require.NoError(t, err)
	require.NoError(t, own.Commit(t.Context()))
	require.Error(t, own.Commit(t.Context()), "it is over")
	f, err = j.GetFlow(t.Context(), f.Ref)
	require.NoError(t, err)
	assert.Len(t, f.Steps, 1)

	t.Run("of the journal's, which is over", func(t *testing.T) {
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		require.NoError(t, tx.Rollback(t.Context()))
		require.Error(t, tx.Commit(t.Context()))
	})
	t.Run("of another database", func(t *testing.T) {
		tx, err := application(t, filepath.Join(t.TempDir(), "app.db")).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer tx.Rollback()
		_, err = j.ApplyFlowTx(t.Context(), sqlite.Tx(tx), step)
		require.ErrorContains(t, err, "is the transaction one of the journal's database?")
	})
	t.Run("for a flow that is damaged", func(t *testing.T) {
		alter(t, path, "UPDATE onceward_flows SET input = x'00'")
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context())
		_, err = j.ApplyFlowTx(t.Context(), tx, step)
		require.ErrorContains(t, err, "damaged")
	})
}
