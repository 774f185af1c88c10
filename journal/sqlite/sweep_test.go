//go:build unix

package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// parkedAhead is an open journal with a flow that was parked for an hour by a clock a hundred hours ahead of now. It
// also has an operation with an answer. Askers' clocks have been right again since now. The first asker at
// now.Add(machine.Confirmation) confirms them.
func parkedAhead(t *testing.T) (path string, j *sqlite.Journal, s machine.Session, f journal.Flow, now time.Time) {
	t.Helper()
	path, j, s = joined(t)
	now = time.Now().Truncate(time.Millisecond).UTC()
	ahead := now.Add(100 * time.Hour)
	ev := begin("invoice-1", s)
	ev.At = ahead
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.At = ahead
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	result, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "ahead"}, At: ahead, Session: s.ID(),
		Function: rideFunction, InputDigest: "d"})
	require.NoError(t, err)
	f = result.Flow
	_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventPark, Ref: f.Ref, At: ahead, Due: ahead.Add(time.Hour), Claim: f.Claim})
	require.NoError(t, err)
	seenAt(t, j, now)
	return path, j, s, f, now
}

// A flow that a clock ahead has parked is due as long after now as it was to wait.
func TestFlowParkedAhead(t *testing.T) {
	due := func(t *testing.T, j *sqlite.Journal, f journal.Flow) time.Time {
		f, err := j.GetFlow(t.Context(), f.Ref)
		require.NoError(t, err)
		return f.DueAt
	}
	t.Run("once the clock that is behind is confirmed", func(t *testing.T) {
		_, j, _, f, now := parkedAhead(t)
		assert.Equal(t, now.Add(101*time.Hour), due(t, j, f))
		seenAt(t, j, now.Add(machine.Confirmation))
		assert.Equal(t, now.Add(time.Hour), due(t, j, f))
	})
	t.Run("once the clock is reset", func(t *testing.T) {
		_, j, _, f, now := parkedAhead(t)
		require.NoError(t, j.ResetClock(t.Context(), now.Add(time.Minute)))
		assert.Equal(t, now.Add(time.Hour+time.Minute), due(t, j, f))
	})
	t.Run("though another is damaged", func(t *testing.T) {
		path, j, s, f, now := parkedAhead(t)
		other := beginFlow(t, j, s, "another")
		_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventPark, Ref: other.Ref, At: now, Due: now.Add(200 * time.Hour), Claim: other.Claim})
		require.NoError(t, err)
		alter(t, path, "UPDATE onceward_flows SET input = x'00' WHERE id = 'another'")
		require.NoError(t, j.ResetClock(t.Context(), now.Add(time.Minute)))
		assert.Equal(t, now.Add(time.Hour+time.Minute), due(t, j, f))
	})
}

// If a statement of a sweep is refused, the clock has moved all the same, and the next claim goes on with the sweep.
func TestSweepThatIsRefused(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(j *sqlite.Journal, s machine.Session, at time.Time) error{
		"apply": func(j *sqlite.Journal, s machine.Session, at time.Time) error {
			ev := begin("invoice-2", s)
			ev.At = at
			_, err := j.Apply(t.Context(), ev)
			return err
		},
		"claim": func(j *sqlite.Journal, s machine.Session, at time.Time) error {
			ev := claim(s)
			ev.At = at
			_, err := j.Claim(t.Context(), ev, 1)
			return err
		},
		"reap": func(j *sqlite.Journal, _ machine.Session, at time.Time) error {
			_, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: at}, 1)
			return err
		},
		"reset the clock": func(j *sqlite.Journal, _ machine.Session, at time.Time) error { return j.ResetClock(t.Context(), at) },
		"begin a flow": func(j *sqlite.Journal, s machine.Session, at time.Time) error {
			_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "new"}, At: at, Session: s.ID(),
				Function: rideFunction, InputDigest: "d"})
			return err
		},
		"claim flows": func(j *sqlite.Journal, s machine.Session, at time.Time) error {
			_, err := j.ClaimFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventClaim, At: at, Session: s.ID(), Functions: []journal.FlowFunction{rideFunction}}, 1)
			return err
		},
		"reap flows": func(j *sqlite.Journal, _ machine.Session, at time.Time) error {
			_, err := j.ReapFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventReap, At: at}, 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, j, s, f, now := parkedAhead(t)
			at := now.Add(machine.Confirmation)
			stop := refuse(t, path, "UPDATE ON onceward_flows")
			if err := ask(j, s, at); name == "reset the clock" {
				require.ErrorContains(t, err, "refused by the test")
			} else {
				require.NoError(t, err)
			}
			due := func() time.Time {
				f, err := j.GetFlow(t.Context(), f.Ref)
				require.NoError(t, err)
				return f.DueAt
			}
			assert.Equal(t, now.Add(101*time.Hour), due())
			stop()
			ev := claim(s)
			ev.At = at
			require.Eventually(t, func() bool {
				_, err := j.Claim(t.Context(), ev, 1)
				require.NoError(t, err)
				return !due().After(at.Add(time.Hour))
			}, time.Minute, time.Millisecond)
			assert.Empty(t, verify(t, j))
		})
	}
}
