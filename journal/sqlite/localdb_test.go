package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite/internal/localdb"
)

// A commit that fails ends the transaction, and the next one begins.
func TestCommitThatFails(t *testing.T) {
	var d localdb.Database
	defer func() { assert.NoError(t, d.Close()) }()
	path, begun, over := filepath.Join(t.TempDir(), "any.db"), 0, 0
	begin := func(statement string) *sql.Tx {
		tx, err := d.Begin(t.Context(), path, time.Second, func() { over++ })
		require.NoError(t, err)
		require.Equal(t, begun, over, "each that began before is over")
		begun++
		_, err = tx.ExecContext(t.Context(), statement)
		require.NoError(t, err)
		return tx
	}
	require.NoError(t, begin("CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a INTEGER REFERENCES a DEFERRABLE INITIALLY DEFERRED)").Commit())
	require.ErrorContains(t, begin("INSERT INTO b VALUES (1)").Commit(), "FOREIGN KEY constraint failed")
	tx := begin("INSERT INTO a VALUES (1)")
	var n int
	require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM b").Scan(&n))
	assert.Zero(t, n)
	require.NoError(t, tx.Commit())
	require.NoError(t, begin("INSERT INTO b VALUES (1)").Rollback())
	require.NoError(t, begin("INSERT INTO a VALUES (2)").Commit())
}
