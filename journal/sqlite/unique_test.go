package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// refusesTwice asserts that a look-up goes by an index that refuses a second row.
func refusesTwice(t *testing.T, look, by, insert string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	open(t, path)
	other := anotherProcess(t, path)
	rows, err := other.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+look)
	require.NoError(t, err)
	require.True(t, rows.Next())
	var id, parent, unused int
	var plan string
	require.NoError(t, rows.Scan(&id, &parent, &unused, &plan))
	require.False(t, rows.Next())
	require.NoError(t, rows.Close())
	assert.Contains(t, plan, by)
	tx, err := other.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), insert)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), insert)
	assert.ErrorContains(t, err, "UNIQUE constraint failed")
}

// In any race, the file itself refuses a second row with a name, by the index that look-ups use.
func TestUniqueNameByAnIndex(t *testing.T) {
	refusesTwice(t, "SELECT handle FROM onceward_names WHERE digest = x'01'", "USING PRIMARY KEY (digest=?)", "INSERT INTO onceward_names (digest, handle) VALUES (x'01', 7)")
}

// The file itself refuses a second row with a tenant's key likewise.
func TestUniqueKeyOfATenantByAnIndex(t *testing.T) {
	refusesTwice(t, "SELECT facts FROM onceward_receipts WHERE scope = 't acme' AND key = 'a'", "USING INDEX onceward_receipts_key (scope=? AND key=?)",
		"INSERT INTO onceward_receipts (scope, key, place, state, ends_at, facts) VALUES ('t acme', 'a', '', 1, 0, x'')")
}
