package journaltest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// keeper returns the journal as a machine.HookKeeper.
func keeper(t *testing.T, j machine.Store) machine.HookKeeper {
	t.Helper()
	k, ok := j.(machine.HookKeeper)
	if !ok {
		t.Skip("the store does not remember that there is a hook")
	}
	return k
}

var hookTests = []test{
	{"remember that outcomes are for a hook", func(t *testing.T, h Harness) {
		k := keeper(t, h.Journal)
		has := func(k machine.HookKeeper) bool {
			has, err := k.HasHook(t.Context())
			require.NoError(t, err)
			return has
		}
		assert.False(t, has(k))
		for _, kept := range []bool{false, true, true, false, true} {
			require.NoError(t, k.KeepHook(t.Context(), kept))
			assert.Equal(t, kept, has(k))
		}
		if h.Reopen != nil {
			require.NoError(t, k.Close())
			assert.True(t, has(keeper(t, h.Reopen(t))))
		}
	}},
	{"leave an outcome to another program's hook", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		left := c.of(machine.EventComplete, c.begin(named("invoice-1")))
		left.Answer, left.HookElsewhere = &journal.Answer{Status: 200}, true
		res := c.apply(left)
		require.Equal(t, machine.Recorded, res.Decision)
		assert.Empty(t, res.Operation.Holder)
		assert.False(t, res.Operation.Delivered)
		claim := machine.Event{Kind: machine.EventClaim, At: noon, Session: c.session.ID(), HookElsewhere: true, Delivered: true}
		results, err := h.Journal.Claim(t.Context(), claim, 10)
		require.NoError(t, err)
		assert.Empty(t, results, "a program without the hook passes over it")
		assert.False(t, c.get(named("invoice-1")).Delivered)
		claim.HookElsewhere, claim.Delivered = false, false
		results, err = h.Journal.Claim(t.Context(), claim, 10)
		require.NoError(t, err)
		require.Len(t, results, 1)
		assert.Equal(t, machine.Offer, results[0].Decision)
	}},
}
