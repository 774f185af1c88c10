//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// waiting leaves a closed journal with that many due flows, with a step each.
func waiting(t *testing.T, many int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for n := range many {
		f := beginFlow(t, j, s, fmt.Sprint("flow-", n+1))
		recordStep(t, j, f, 1, "paid")
		_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventPark, Ref: f.Ref, At: time.Now(), Claim: f.Claim})
		require.NoError(t, err)
	}
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	return path
}

// takes claims flows, and returns those that it got: its own, and others.
func takes(t *testing.T, j *sqlite.Journal, s machine.Session, limit int, functions ...journal.FlowFunction) (mine, others []int64, err error) {
	t.Helper()
	results, err := j.ClaimFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventClaim, At: time.Now(), Session: s.ID(), Functions: functions}, limit)
	for _, r := range results {
		if r.Decision == machine.Execute {
			assert.Len(t, r.Flow.Steps, 1)
			mine = append(mine, r.Flow.Handle)
		} else {
			others = append(others, r.Flow.Handle)
		}
	}
	return mine, others, err
}

// A claim of flows takes the oldest ones, up to its limit.
func TestFlowClaimTakesTheOldest(t *testing.T) {
	path := waiting(t, 6)
	const damage = "UPDATE onceward_flows SET input = x'00' WHERE handle = 2"
	for name, row := range map[string]struct {
		damage       string
		limit        int
		can          []journal.FlowFunction
		mine, others []int64
		says         string
	}{
		"as many as there are":               {"", 6, []journal.FlowFunction{rideFunction}, []int64{1, 2, 3, 4, 5, 6}, nil, ""},
		"fewer":                              {"", 2, []journal.FlowFunction{rideFunction}, []int64{1, 2}, nil, ""},
		"past a damaged flow":                {damage, 2, []journal.FlowFunction{rideFunction}, []int64{1, 3}, nil, ""},
		"others alone":                       {"", 2, nil, nil, []int64{1, 2}, ""},
		"others past a damaged flow":         {damage, 6, nil, nil, []int64{1, 3, 4, 5, 6}, ""},
		"another that is damaged, and alone": {damage + "; DELETE FROM onceward_steps WHERE flow <> 2; DELETE FROM onceward_flows WHERE handle <> 2", 6, nil, nil, nil, "flow 2"},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "journal.db")
			for _, suffix := range []string{"", "-sidecar"} {
				copyFile(t, path+suffix, to+suffix)
			}
			if row.damage != "" {
				alter(t, to, row.damage)
			}
			j := open(t, to)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			mine, others, err := takes(t, j, s, row.limit, row.can...)
			if row.says != "" {
				require.ErrorContains(t, err, row.says)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, row.mine, mine)
			assert.Equal(t, row.others, others)
		})
	}
}

// A claim of flows returns other flows only within the rest of its limit.
func TestFlowClaimKeepsItsLimit(t *testing.T) {
	path := waiting(t, 3)
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for n := range 3 {
		result, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: fmt.Sprint("other-", n)}, At: time.Now(), Session: s.ID(),
			Function: journal.FlowFunction{Name: "other"}, InputDigest: "d"})
		require.NoError(t, err)
		_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventPark, Ref: result.Flow.Ref, At: time.Now(), Claim: 1,
			Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepDone, Name: "paid", At: time.Now()}}})
		require.NoError(t, err)
	}
	mine, others, err := takes(t, j, s, 4, rideFunction)
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2, 3}, mine)
	assert.Equal(t, []int64{4}, others)
}

// A claim does not pass over a flow because SQLite refuses a statement.
func TestFlowIsNotPassedOver(t *testing.T) {
	path := waiting(t, 2)
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	stop := refuse(t, path, "UPDATE ON onceward_flows WHEN new.handle = 1")
	_, _, err = takes(t, j, s, 2, rideFunction)
	require.ErrorContains(t, err, "refused by the test")
	stop()
	mine, _, err := takes(t, j, s, 2, rideFunction)
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2}, mine)
}

// Reading a damaged flow is an error.
func TestFlowThatIsDamagedIsAnError(t *testing.T) {
	path := waiting(t, 2)
	for _, damage := range []string{"UPDATE onceward_flows SET version = version + 1 WHERE handle = 1", "UPDATE onceward_steps SET result = x'00' WHERE flow = 1"} {
		to := filepath.Join(t.TempDir(), "journal.db")
		for _, suffix := range []string{"", "-sidecar"} {
			copyFile(t, path+suffix, to+suffix)
		}
		alter(t, to, damage)
		j := open(t, to)
		_, err := j.GetFlow(t.Context(), journal.Ref{ID: "flow-1"})
		require.ErrorContains(t, err, "damaged", damage)
		_, err = j.GetFlow(t.Context(), journal.Ref{ID: "flow-2"})
		require.NoError(t, err, damage)
		for _, err = range j.ListFlows(t.Context(), journal.FlowFilter{}) {
			if err != nil {
				break
			}
		}
		require.ErrorContains(t, err, "damaged", damage)
	}
}

func TestAListOfFlowsEndsWithItsContext(t *testing.T) {
	j := open(t, waiting(t, 600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var err error
	for _, err = range j.ListFlows(ctx, journal.FlowFilter{}) {
		if err != nil {
			break
		}
		n++
		cancel()
	}
	require.ErrorIs(t, err, context.Canceled)
	assert.Less(t, n, 600, "what was read before")
}

// Damaged flows that ended first keep no other flow from being reaped, however low the limit.
func TestReapPastDamagedFlows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	now := time.Now()
	for i, id := range []string{"a", "b", "c", "d"} {
		f := beginFlow(t, j, s, id)
		ev := machine.FlowEvent{Kind: machine.FlowEventFinish, Handle: f.Handle, Session: s.ID(), Claim: f.Claim, At: now.Add(time.Duration(i) * time.Second)}
		_, err := j.ApplyFlow(t.Context(), ev)
		require.NoError(t, err)
	}
	alter(t, path, "UPDATE onceward_flows SET input = x'00' WHERE id < 'c'")
	reap := machine.FlowEvent{Kind: machine.FlowEventReap, At: now.Add(time.Hour), Keep: time.Minute}
	for _, want := range []int{1, 1, 0} {
		n, err := j.ReapFlows(t.Context(), reap, 1)
		assert.Equal(t, want, n)
		if n == 1 { // there may be more, and an error would end the pass
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "flow 1")
	}
}

// A flow can be parked though its session lost its file, or its steps are damaged.
func TestFlowIsParkedThoughDamaged(t *testing.T) {
	path, j, s := joined(t)
	f := beginFlow(t, j, s, "order-991")
	recordStep(t, j, f, 1, "paid")
	require.NoError(t, sqlite.Flush(j))
	alter(t, path, "UPDATE onceward_steps SET result = x'00'")
	sqlite.Kill(s)
	alter(t, path, "DELETE FROM onceward_sessions")
	result, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventPark, Ref: f.Ref, At: time.Now(), Claim: f.Claim})
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, result.Decision)
}

// An unreadable flow still exists, and is not begun a second time.
func TestDamagedFlowIsNotBegunAgain(t *testing.T) {
	path, j, s := joined(t)
	f := beginFlow(t, j, s, "order-991")
	require.NoError(t, sqlite.Flush(j))
	alter(t, path, "UPDATE onceward_flows SET tombstone = 2")
	for _, kind := range []machine.FlowEventKind{machine.FlowEventBegin, machine.FlowEventPark, machine.FlowEventGiveUp} {
		_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: kind, Ref: f.Ref, At: time.Now(), Claim: f.Claim, Session: s.ID(), Function: f.Function, InputDigest: f.InputDigest})
		require.ErrorContains(t, err, "damaged", kind)
	}
}
