package journaltest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

func (c *caller) reap(keep time.Duration, limit int) int {
	c.t.Helper()
	ev := c.event(machine.EventReap)
	ev.Keep = keep
	n, err := c.journal.Reap(c.t.Context(), ev, limit)
	require.NoError(c.t, err)
	return n
}

var reapTests = []test{
	{"shrinks named operations to tombstones and removes the rest", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.completeDelivered(c.begin(named("named")))
		c.completeDelivered(c.generate("generated"))
		ev := c.beginEvent(named("cancelled"))
		cancel := c.of(machine.EventCancel, c.decide(ev, machine.Execute))
		cancel.Unsent, cancel.Delivered = true, true
		c.decide(cancel, machine.Recorded)

		c.pass(noon.Add(25 * time.Hour))
		assert.Equal(t, 0, c.reap(26*time.Hour, 10), "their keep has not passed")
		assert.Equal(t, 3, c.reap(25*time.Hour, 10))
		assert.Equal(t, 0, c.reap(25*time.Hour, 10))

		tomb := c.get(named("named"))
		assert.True(t, tomb.Tombstone)
		assert.Nil(t, tomb.Answer)
		assert.Equal(t, journal.Request{}, tomb.Request)
		for _, id := range []string{"generated", "cancelled"} {
			_, err := h.Journal.Get(t.Context(), named(id))
			assert.ErrorIs(t, err, journal.ErrNotFound, id)
		}
		c.decide(c.beginEvent(named("named")), machine.Gone)
		c.decide(c.beginEvent(named("cancelled")), machine.Execute)
		assert.Equal(t, []string{"named", "cancelled"}, ids(c.list(journal.Filter{})))
	}},
	{"never takes operations that are open, unknown, undelivered or remembered by the provider", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.begin(named("in flight"))
		c.park(c.begin(named("pending")), noon)
		c.decide(c.of(machine.EventMarkUnknown, c.begin(named("unknown"))), machine.Recorded)
		c.complete(c.begin(named("undelivered")))
		ev := c.beginEvent(named("long retention"))
		ev.Intent.Terms.Retention = 90 * 24 * time.Hour
		c.completeDelivered(c.decide(ev, machine.Execute))
		c.pass(noon.Add(80 * 24 * time.Hour))
		assert.Equal(t, 0, c.reap(0, 100))
		c.pass(noon.Add(90 * 24 * time.Hour))
		assert.Equal(t, 1, c.reap(0, 100))
		assert.Len(t, c.list(journal.Filter{}), 5)
	}},
	{"takes at most the limit, and the rest the next time", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		for i := range 25 {
			ev := c.beginEvent(named(fmt.Sprint("kept-", i)))
			ev.Intent.Terms.Retention = 1000 * 24 * time.Hour
			c.completeDelivered(c.decide(ev, machine.Execute))
			c.completeDelivered(c.generate(fmt.Sprint("op-", i)))
		}
		c.pass(noon.Add(100 * 24 * time.Hour))
		assert.Equal(t, 0, c.reap(0, 0))
		assert.Equal(t, 10, c.reap(0, 10))
		assert.Equal(t, 10, c.reap(0, 10))
		assert.Equal(t, 5, c.reap(0, 10))
		assert.Equal(t, 0, c.reap(0, 10))
		assert.Len(t, c.list(journal.Filter{}), 25)
	}},
	{"an event of another kind is refused", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		_, err := h.Journal.Reap(t.Context(), c.event(machine.EventClaim), 1)
		assert.ErrorIs(t, err, journal.ErrInvalidEvent)
	}},
}
