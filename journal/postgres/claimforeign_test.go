package postgres_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// A claim for one provider goes through the backlog of another one in several commits. It finds its own operations
// wherever they are.
func TestClaimThroughAForeignBacklog(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	var commits atomic.Int64
	opts.Committed = func(int, time.Duration) { commits.Add(1) }
	j := open(t, server, opts)
	postgres.ClaimScans(j, 100)
	const many = 700
	multiply(t, server, opts, j, many)
	server.Exec(t, `UPDATE "`+opts.Schema+`".operations SET provider = 'foreign' WHERE handle % 150 <> 149`)
	var ours []int64
	rows, err := server.Conn(t).Query(t.Context(), `SELECT handle FROM "`+opts.Schema+`".operations WHERE provider = 'ledger' ORDER BY handle`)
	require.NoError(t, err)
	ours, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	require.Greater(t, len(ours), 3)
	s := join(t, j)
	claimed := func(limit int, from ...string) (handles []int64) {
		results, err := j.Claim(t.Context(), journal.Event{Kind: journal.EventClaim, At: time.Now(), Session: s.ID(), From: append([]string{}, from...)}, limit)
		require.NoError(t, err)
		for _, r := range results {
			handles = append(handles, r.Operation.Handle)
		}
		return handles
	}
	before := commits.Load()
	assert.Empty(t, claimed(10, "another"))
	assert.GreaterOrEqual(t, commits.Load()-before, int64(many/100), "each commit goes through a hundred")
	assert.Empty(t, claimed(10))
	assert.Equal(t, ours[:1], claimed(1, "ledger"))
	assert.Equal(t, ours[1:], claimed(10, "another", "ledger"))
	assert.Empty(t, claimed(10, "ledger"))
}
