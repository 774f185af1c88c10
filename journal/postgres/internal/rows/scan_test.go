package rows_test

import (
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// A scan has the oldest due operations, whether few or many are due. When they became due does not matter.
func TestScanOfDueOperations(t *testing.T) {
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	d := driver(t, server, schema)
	defer d.Close()
	// Of each two operations, one is due at its handle's distance from 2,000, and the other never.
	server.Exec(t, strings.ReplaceAll(`INSERT INTO {{s}}.operations SELECT h, 1, NULL, CASE WHEN h % 2 = 0 THEN 2000 - h ELSE 1000000 END, NULL, false, false,
		CASE WHEN h % 4 = 0 THEN 'one' ELSE 'other' END::bytea, '' FROM pg_catalog.generate_series(1, 1900) h`, "{{s}}", pgx.Identifier{schema}.Sanitize()))
	scan := func(by, after int64, limit int, providers ...string) (handles []int64) {
		require.NoError(t, d.Read(t.Context(), func(r rowstore.Reader) error {
			places, err := r.Scan(t.Context(), rowstore.Scan{Index: rowstore.Pending, By: by, After: rowstore.Position{Handle: after}, Providers: providers, Limit: limit})
			for _, at := range places {
				handles = append(handles, at.Handle)
			}
			return err
		}))
		return handles
	}
	assert.Equal(t, []int64{2, 4, 6}, scan(2000, 0, 3), "many are due")
	assert.Equal(t, []int64{8, 10, 12}, scan(2000, 6, 3))
	assert.Equal(t, []int64{4, 8, 12}, scan(2000, 0, 3, "one"), "fewer are due of one provider")
	assert.Equal(t, []int64{1800, 1802, 1804}, scan(200, 0, 3), "few are due")
	assert.Equal(t, []int64{1898, 1900}, scan(2000, 1896, 3))
	assert.Empty(t, scan(math.MaxInt64, 1900, 3))
	assert.Empty(t, scan(50, 0, 3))
}
