package journaltest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// inEveryState leaves an operation in every state, named after the state, and returns the operations.
func inEveryState(c *caller) map[string]journal.Operation {
	begin := func(id string) journal.Operation { return c.begin(named(id)) }
	c.now = noon.Add(-48 * time.Hour)
	reap := c.of(machine.EventReap, c.completeDelivered(begin("reaped")))
	c.pass(noon)
	reap.At = noon
	c.decide(reap, machine.Recorded)
	begin("begun")
	c.generate("generated")
	c.park(begin("parked"), noon.Add(time.Hour))
	c.decide(c.of(machine.EventMarkUnknown, begin("in doubt")), machine.Recorded)
	cancel := c.of(machine.EventCancel, begin("cancelled"))
	cancel.Unsent, cancel.Delivered = true, true
	c.decide(cancel, machine.Recorded)
	resolve := c.of(machine.EventResolve, c.decide(c.of(machine.EventMarkUnknown, begin("resolved")), machine.Recorded))
	resolve.Resolution, resolve.Delivered = journal.Executed, true
	c.decide(resolve, machine.Recorded)
	c.completeDelivered(begin("completed"))
	all := map[string]journal.Operation{}
	for _, op := range c.list(journal.Filter{}) {
		all[op.ID] = c.get(op.Ref)
	}
	return all
}

var crashTests = []test{
	{"the next process finds every reported event", func(t *testing.T, h Harness) {
		if h.Crash == nil {
			t.Skip("the store keeps nothing")
		}
		before := inEveryState(newCaller(t, h.Journal))
		assert.Len(t, before, 8)
		next := h.Crash(t)
		for id, op := range before {
			got, err := next.Get(t.Context(), op.Ref)
			assert.NoError(t, err, id)
			assert.Equal(t, op, got, id)
		}
	}},
	{"the next process takes over the operations in flight, and none with an answer", func(t *testing.T, h Harness) {
		if h.Crash == nil {
			t.Skip("the store keeps nothing")
		}
		inEveryState(newCaller(t, h.Journal))
		c := newCaller(t, h.Crash(t))
		c.now = noon.Add(10 * time.Minute)
		taken := map[string]machine.Decision{}
		for _, result := range c.claim(100) {
			taken[result.Operation.ID] = result.Decision
		}
		assert.Equal(t, machine.Execute, taken["begun"])
		assert.NotContains(t, taken, "completed")
		assert.NotContains(t, taken, "reaped")
		for id, want := range map[string]machine.Decision{
			"begun": machine.Wait, "in doubt": machine.Stop, "resolved": machine.Replay, "completed": machine.Replay, "reaped": machine.Gone,
		} {
			c.decide(c.beginEvent(named(id)), want)
		}
	}},
}
