package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// A claim for one provider finds its own operations amid the backlog of another one, wherever they are.
func TestClaimThroughAForeignBacklog(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	const many = 700
	multiply(t, j, many)
	server.Exec(t, `UPDATE "`+opts.Schema+`".operations SET provider = 'foreign' WHERE handle % 150 <> 149`)
	var ours []int64
	rows, err := server.Conn(t).Query(t.Context(), `SELECT handle FROM "`+opts.Schema+`".operations WHERE provider = 'ledger' ORDER BY handle`)
	require.NoError(t, err)
	ours, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	require.Greater(t, len(ours), 3)
	s := join(t, j)
	claimed := func(limit int, from ...string) (handles []int64) {
		results, err := j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: time.Now(), Session: s.ID(), From: append([]string{}, from...)}, limit)
		require.NoError(t, err)
		for _, r := range results {
			handles = append(handles, r.Operation.Handle)
		}
		return handles
	}
	assert.Empty(t, claimed(10, "another"))
	assert.Empty(t, claimed(10))
	assert.Equal(t, ours[:1], claimed(1, "ledger"))
	assert.Equal(t, ours[1:], claimed(10, "another", "ledger"))
	assert.Empty(t, claimed(10, "ledger"))
}
