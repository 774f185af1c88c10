package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// The application's own transaction has the same result, whether the application or the journal commits it.
func TestFlowStepOfAnOwnTransaction(t *testing.T) {
	path, j, s := joined(t)
	f := beginFlow(t, j, s, "order-991")
	require.NoError(t, sqlite.Flush(j))
	step := machine.FlowEvent{Kind: machine.FlowEventRecord, Ref: f.Ref, Session: s.ID(), Claim: f.Claim, At: time.Now(),
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

	t.Run("of the journal, after its end", func(t *testing.T) {
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
		require.ErrorContains(t, err, "is the transaction one of the journal's file?")
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

// If SQLite has rolled a transaction back, a caller that goes on with it commits nothing. The next transaction is
// intact.
func TestTransactionThatGoesOnAfterItsRollback(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	alter(t, path, "CREATE TABLE ledger (payee TEXT UNIQUE)")
	for range 2 {
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		own := tx.Driver().(*sql.Tx)
		_, err = own.Exec("INSERT INTO ledger VALUES ('ann')")
		require.NoError(t, err)
		_, err = own.Exec("INSERT OR ROLLBACK INTO ledger VALUES ('ann')")
		require.Error(t, err)
		_, err = own.Exec("INSERT INTO ledger VALUES ('eve')")
		require.Error(t, err)
		require.Error(t, tx.Commit(t.Context()))
	}
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	own := tx.Driver().(*sql.Tx)
	_, err = own.Exec("INSERT INTO ledger VALUES ('bob')")
	require.NoError(t, err)
	var payees string
	require.NoError(t, own.QueryRow("SELECT group_concat(payee) FROM ledger").Scan(&payees))
	assert.Equal(t, "bob", payees)
	require.NoError(t, tx.Commit(t.Context()))
}

// A transaction that waits for its turn as the journal is closed is still the application's, and Close waits for its end.
// None begins after that.
func TestTransactionAsTheFileIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		j := open(t, path)
		alter(t, path, "CREATE TABLE ledger (payee TEXT)")
		release := sqlite.HoldTurn(j)
		begun := make(chan *sql.Tx, 1)
		go func() {
			tx, err := j.BeginSQL(t.Context())
			assert.NoError(t, err)
			begun <- tx
		}()
		synctest.Wait()
		require.Equal(t, 1, sqlite.Turns(j))
		closed := make(chan error, 1)
		go func() { closed <- j.Close() }()
		synctest.Wait()
		require.Equal(t, 2, sqlite.Turns(j))
		_, err := j.BeginSQL(t.Context())
		require.ErrorIs(t, err, journal.ErrClosed)
		release()
		tx := <-begun
		assert.Empty(t, closed)
		_, err = tx.Exec("INSERT INTO ledger VALUES ('ann')")
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.NoError(t, <-closed)
		assert.Equal(t, 1, number(t, path, "SELECT count(*) FROM ledger"))
	})
}
