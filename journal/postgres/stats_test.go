package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// Damaged operations are counted with the others.
func TestStatsBesideADamagedOperation(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	var last journal.Operation
	for i := range 2 {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		last = begun.Operation
		_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventPark, Handle: last.Handle, Ref: last.Ref, Claim: last.Claim, At: time.Now(), Due: time.Now(), Session: s.ID(), Unsent: true})
		require.NoError(t, err)
		_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: fmt.Sprint("ride-", i)}, At: time.Now(), Session: s.ID(), InputDigest: "d"})
		require.NoError(t, err)
	}
	server.Exec(t, fmt.Sprintf(zeroFacts, `"`+opts.Schema+`"`))
	server.Exec(t, `UPDATE "`+opts.Schema+`".flows SET state = 5 WHERE id = 'ride-0'`)
	stats, err := j.ReadStats(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 2, stats.Pending)
	assert.EqualValues(t, 1, stats.FlowsSetAside)
	assert.Equal(t, last.CreatedAt, stats.OldestPending)
}
