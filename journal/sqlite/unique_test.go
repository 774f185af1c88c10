package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// planOf returns the plan of a query, a line for each step.
func planOf(t *testing.T, c *sql.Conn, query string, args ...any) string {
	t.Helper()
	rows, err := c.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	require.NoError(t, err)
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, detail)
	}
	require.NoError(t, rows.Err())
	return strings.Join(plan, "\n")
}

// In any race, the file itself refuses a second row with a name, by the index that look-ups use.
func TestUniqueNameByAnIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	open(t, path)
	other := anotherProcess(t, path)
	for table, row := range map[string]struct{ index, which, insert string }{
		"onceward_operations": {"onceward_operations_identity", "identified = 1 AND ",
			`INSERT INTO onceward_operations (scope, parent, id, naming, identified, provider, state, delivered, tombstone, facts)
			VALUES ('', '', 'invoice-1', 1, 1, '', 1, 0, 0, x'')`},
		"onceward_flows": {"onceward_flows_identity", "", ""},
	} {
		t.Run(table, func(t *testing.T) {
			plan := planOf(t, other, "SELECT handle FROM "+table+" WHERE "+row.which+"id = ? AND scope = ? AND parent = ?", "invoice-1", "", "")
			assert.Contains(t, plan, "USING COVERING INDEX "+row.index+" (id=? AND scope=? AND parent=?)")
			var unique bool
			require.NoError(t, other.QueryRowContext(t.Context(), `SELECT "unique" FROM pragma_index_list(?) WHERE name = ?`, table, row.index).Scan(&unique))
			assert.True(t, unique)
			if row.insert == "" {
				return
			}
			tx, err := other.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			_, err = tx.ExecContext(t.Context(), row.insert)
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), row.insert)
			assert.ErrorContains(t, err, "UNIQUE constraint failed")
		})
	}
}
