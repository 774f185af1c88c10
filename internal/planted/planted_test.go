package planted_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// A planted journal has operations in every state. The command's tests plant journals in the other stores.
func TestPlant(t *testing.T) {
	j := memory.New()
	session, err := planted.Plant(t.Context(), j, time.Now())
	require.NoError(t, err)
	states := map[string]journal.State{}
	second := 0
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		states[op.ID] = op.State
		second += op.SecondEffects
	}
	assert.Equal(t, map[string]journal.State{
		planted.Completed: journal.StateCompleted, planted.Unknown: journal.StateUnknown, planted.Closing: journal.StatePending,
		planted.Unsent: journal.StatePending, planted.Cancelled: journal.StateCancelled, planted.Twice: journal.StateCompleted,
		planted.Held: journal.StateInFlight, planted.Hostile: journal.StateUnknown, planted.Long: journal.StateUnknown,
	}, states)
	assert.Equal(t, 1, second)
	require.NoError(t, session.End(t.Context()))
	require.NoError(t, j.Close())
}
