//go:build unix

package sqlite_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A refused event of a flow returns nothing, not even the flow that it was refused for.
func TestFlowEventThatIsRefused(t *testing.T) {
	_, j, s := joined(t)
	f := beginFlow(t, j, s, "order-991")
	_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventFinish, Handle: f.Handle, At: time.Now(), Claim: f.Claim})
	require.NoError(t, err)
	result, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventGiveUp, Ref: f.Ref, At: time.Now()})
	require.ErrorIs(t, err, journal.ErrInvalidEvent)
	assert.Zero(t, result)
}

// No flow begins in a session that does not exist, or is over.
func TestFlowOfASessionThatIsNot(t *testing.T) {
	_, j, s := joined(t)
	require.NoError(t, s.End(t.Context()))
	for _, id := range []string{"nobody", s.ID()} {
		_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "order-991"}, At: time.Now(), Session: id,
			Function: rideFunction, InputDigest: "d"})
		require.ErrorIs(t, err, journal.ErrSessionLost, id)
	}
	_, err := j.GetFlow(t.Context(), journal.Ref{ID: "order-991"})
	require.ErrorIs(t, err, journal.ErrNotFound)
}

// If a session can't be probed, no process can tell whether it runs a flow. An event under its own claim is enough.
func TestFlowOfASessionThatCantBeProbed(t *testing.T) {
	path, j, s := joined(t)
	died, err := j.Join(t.Context())
	require.NoError(t, err)
	f := beginFlow(t, j, died, "order-991")
	sqlite.Kill(died)
	file := path + "-session-" + died.ID()
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Mkdir(file, 0o700))
	says := "can't tell whether session " + died.ID() + " is alive"
	taken, err := claimFlows(t, j, s)
	require.ErrorContains(t, err, says)
	assert.Empty(t, taken)
	_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: f.Ref, At: time.Now(), Session: s.ID(), Function: f.Function, InputDigest: f.InputDigest})
	require.ErrorContains(t, err, says)
	result, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventPark, Ref: f.Ref, At: time.Now(), Claim: f.Claim})
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, result.Decision)
}

// However many flows are passed over, no more than the limit are reaped.
func TestReapOfFlowsKeepsToItsLimit(t *testing.T) {
	path, j, s := joined(t)
	now := time.Now()
	for i, id := range []string{"a", "b", "c", "d", "e", "f"} {
		f := beginFlow(t, j, s, id)
		_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventFinish, Handle: f.Handle, Claim: f.Claim, At: now.Add(time.Duration(i) * time.Second)})
		require.NoError(t, err)
	}
	alter(t, path, "UPDATE onceward_flows SET input = x'00' WHERE id = 'a'")
	for _, want := range []int{2, 2, 1} {
		n, err := j.ReapFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventReap, At: now.Add(time.Hour), Keep: time.Minute}, 2)
		assert.Equal(t, want, n)
		if n == 2 { // there may be more, and an error would end the pass
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "flow 1")
	}
}
