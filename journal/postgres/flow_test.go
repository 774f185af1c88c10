package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// A claim passes over a damaged flow, and reports it if there is no other flow.
func TestFlowsBesideADamagedOne(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	for i := range 3 {
		_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: fmt.Sprint("ride-", i)}, At: time.Now(), Session: s.ID(), InputDigest: "d"})
		require.NoError(t, err)
	}
	server.Exec(t, `UPDATE "`+opts.Schema+`".flows SET claim = 7 WHERE id = 'ride-0'`)
	require.NoError(t, postgres.Kill(t.Context(), s))
	next := join(t, j)
	claim := machine.FlowEvent{Kind: machine.FlowEventClaim, At: time.Now(), Session: next.ID(), Functions: []journal.FlowFunction{{}}}
	for _, want := range []string{"ride-1", "ride-2"} {
		results, err := j.ClaimFlows(t.Context(), claim, 1)
		require.NoError(t, err)
		require.Len(t, results, 1)
		assert.Equal(t, want, results[0].Flow.ID)
	}
	_, err := j.ClaimFlows(t.Context(), claim, 1)
	require.ErrorContains(t, err, "is passed over")
}

// A damaged flow keeps no other flow from being reaped.
func TestReapsFlowsBesideADamagedOne(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	for i := range 3 {
		ev := machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: fmt.Sprint("ride-", i)}, At: time.Now(), Session: s.ID(), InputDigest: "d"}
		begun, err := j.ApplyFlow(t.Context(), ev)
		require.NoError(t, err)
		ev.Kind, ev.Handle, ev.Claim = machine.FlowEventFinish, begun.Flow.Handle, begun.Flow.Claim
		completed, err := j.ApplyFlow(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, machine.Recorded, completed.Decision)
	}
	server.Exec(t, `UPDATE "`+opts.Schema+`".flows SET claim = 7 WHERE id = 'ride-0'`)
	reap := func() (int, error) {
		return j.ReapFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventReap, At: time.Now().Add(time.Second), Keep: time.Millisecond}, 2)
	}
	n, err := reap()
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	_, err = reap()
	require.ErrorContains(t, err, "is passed over")
}
