package journaltest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

var sessionTests = []test{
	{"IDs are never the same", func(t *testing.T, h Harness) {
		seen := map[string]bool{}
		for range 20 {
			s, err := h.Journal.Join(t.Context())
			require.NoError(t, err)
			assert.GreaterOrEqual(t, len(s.ID()), 16)
			assert.NotContains(t, seen, s.ID())
			assert.False(t, s.Lost())
			seen[s.ID()] = true
			require.NoError(t, s.End(t.Context()))
		}
	}},
	{"begin and claim need a live session", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		require.NoError(t, c.session.End(t.Context()))
		require.NoError(t, c.session.End(t.Context()), "ending it twice is harmless")
		_, err := h.Journal.Apply(t.Context(), c.beginEvent(named("invoice-1")))
		assert.ErrorIs(t, err, journal.ErrSessionLost)
		_, err = h.Journal.Claim(t.Context(), c.event(machine.EventClaim), 1)
		assert.ErrorIs(t, err, journal.ErrSessionLost)
		ev := c.event(machine.EventClaim)
		ev.Ref = named("invoice-1")
		_, err = h.Journal.Apply(t.Context(), ev)
		assert.ErrorIs(t, err, journal.ErrSessionLost)
		for _, id := range []string{"", "made up"} {
			ev := c.beginEvent(named("invoice-1"))
			ev.Session = id
			_, err = h.Journal.Apply(t.Context(), ev)
			assert.ErrorIs(t, err, journal.ErrSessionLost)
		}
		_, err = h.Journal.Get(t.Context(), named("invoice-1"))
		assert.ErrorIs(t, err, journal.ErrNotFound)
	}},
	{"an ended session's operations are left for others, and its late answers still count", func(t *testing.T, h Harness) {
		c, other := newCaller(t, h.Journal), newCaller(t, h.Journal)
		a, b := c.begin(named("a")), c.begin(named("b"))
		require.NoError(t, c.session.End(t.Context()))
		second := other.decide(other.beginEvent(named("a")), machine.Execute)
		assert.EqualValues(t, 2, second.Claim)
		c.decide(c.of(machine.EventPark, a), machine.Stale)
		c.complete(a)
		c.complete(b)
		assert.Equal(t, journal.StateCompleted, other.get(named("a")).State)
		assert.Equal(t, []string{"a", "b"}, claimed(other.claim(10)), "the answers that the ended one had nobody to give to")
	}},
	{"a lost session may report its operations' results, until another session has them", func(t *testing.T, h Harness) {
		c, other := newCaller(t, h.Journal), newCaller(t, h.Journal)
		held := map[machine.EventKind]journal.Operation{}
		for _, kind := range []machine.EventKind{machine.EventPark, machine.EventMarkUnknown, machine.EventCancel} {
			held[kind] = c.begin(named(kind.String()))
		}
		taken := c.begin(named("taken"))
		require.NoError(t, c.session.End(t.Context()))
		for kind, op := range held {
			ev := c.of(kind, op)
			ev.Unsent, ev.Due = kind != machine.EventMarkUnknown, noon.Add(time.Hour)
			c.decide(ev, machine.Recorded)
		}
		assert.Equal(t, journal.StatePending, c.get(named("park")).State)
		assert.Equal(t, journal.StateUnknown, c.get(named("doubt")).State)
		assert.Equal(t, journal.StateCancelled, c.get(named("cancel")).State)
		other.decide(other.beginEvent(named("taken")), machine.Execute)
		c.decide(c.of(machine.EventPark, taken), machine.Stale)
		assert.Equal(t, journal.StateInFlight, c.get(named("taken")).State)
	}},
	{"a dead session's operation is taken over by the first asker", func(t *testing.T, h Harness) {
		if h.Kill == nil {
			t.Skip("the store's sessions can't be killed")
		}
		c, other := newCaller(t, h.Journal), newCaller(t, h.Journal)
		first := c.begin(named("a"))
		other.decide(other.beginEvent(named("a")), machine.Wait)
		assert.Empty(t, other.claim(10))
		h.Kill(t, c.session)
		op := other.decide(other.beginEvent(named("a")), machine.Execute)
		assert.EqualValues(t, 2, op.Claim)
		assert.Equal(t, other.session.ID(), op.Holder)
		assert.Equal(t, first.Request.Body, op.Request.Body)
		third := newCaller(t, h.Journal)
		third.decide(third.beginEvent(named("a")), machine.Wait)
		assert.True(t, c.session.Lost())
		_, err := h.Journal.Apply(t.Context(), c.beginEvent(named("b")))
		assert.ErrorIs(t, err, journal.ErrSessionLost)
	}},
	{"a session whose journal was closed before it ended counts as dead", func(t *testing.T, h Harness) {
		if h.Reopen == nil {
			t.Skip("the store keeps nothing")
		}
		c := newCaller(t, h.Journal)
		c.begin(named("a"))
		next := newCaller(t, h.Reopen(t))
		results := next.claim(10)
		require.Len(t, results, 1)
		assert.Equal(t, machine.Execute, results[0].Decision)
		assert.Equal(t, []byte(`{"amount":100}`), results[0].Operation.Request.Body)
		assert.NoError(t, c.session.End(t.Context()))
	}},
	{"a second journal on the store sees live sessions and dead ones", func(t *testing.T, h Harness) {
		if h.Open == nil || h.Kill == nil {
			t.Skip("the store has no second journal, or its sessions can't be killed")
		}
		c, other := newCaller(t, h.Journal), newCaller(t, h.Open(t))
		c.begin(named("a"))
		other.decide(other.beginEvent(named("a")), machine.Wait)
		assert.Empty(t, other.claim(10))
		h.Kill(t, c.session)
		assert.Equal(t, []string{"a"}, claimed(other.claim(10)))
		assert.Equal(t, other.session.ID(), c.get(named("a")).Holder)
	}},
}
