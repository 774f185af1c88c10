package memory_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/journaltest"
	"github.com/onceward/onceward/journal/memory"
)

func TestItKeepsThePromisesOfAJournal(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Harness { return harness(t, soak.Seed(t, 1)) })
}

func harness(t *testing.T, seed uint64) journaltest.Harness {
	j := memory.New()
	t.Cleanup(func() { _ = j.Close() })
	return journaltest.Harness{
		Journal: j,
		Seed:    seed,
		Kill:    func(t *testing.T, s machine.Session) { j.Kill(s.ID()) },
		Freeze:  func(t *testing.T, s machine.Session) func() { j.Kill(s.ID()); return func() {} },
	}
}

// A long history ends in the same state as in a map with Next, and every operation in it obeys the invariants.
func TestLongHistory(t *testing.T) {
	for name, seed := range map[string]uint64{
		"drawn": soak.Seed(t, 1),
		// The clock goes back to before the first send of a killed process's operation without a window.
		"a clock that goes back behind an operation that may have run": 17,
	} {
		t.Run(name, func(t *testing.T) { journaltest.LongHistory(t, harness(t, seed), soak.Times(300, 1500)) })
	}
}

// Kill leaves the session's operations to the next claim.
func TestKillLeavesTheSessionsOperations(t *testing.T) {
	j := memory.New()
	crashed, err := j.Join(t.Context())
	require.NoError(t, err)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	_, err = j.Apply(t.Context(), machine.Event{
		Kind: machine.EventBegin, Ref: journal.Ref{ID: "invoice-991/charge"}, At: now,
		Session: crashed.ID(), Intent: &machine.Intent{Fingerprint: "v1:f", Key: "k"},
	})
	require.NoError(t, err)
	j.Kill(crashed.ID())
	j.Kill("nobody")
	assert.True(t, crashed.Lost())

	next, err := j.Join(t.Context())
	require.NoError(t, err)
	results, err := j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: now, Session: next.ID()}, 10)
	require.NoError(t, err)
	require.Len(t, results, 1)
	assert.Equal(t, "invoice-991/charge", results[0].Operation.ID)
	assert.Equal(t, machine.Stop, results[0].Decision, "nothing is promised of its key")
}
