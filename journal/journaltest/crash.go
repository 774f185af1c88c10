package journaltest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/journal"
)

// inEveryState leaves an operation in every state, named after it, and returns them.
func inEveryState(c *caller) map[string]journal.Operation {
	begin := func(id string) journal.Operation { return c.begin(named(id)) }
	c.now = noon.Add(-48 * time.Hour)
	reap := c.of(journal.EventReap, c.completeDelivered(begin("reaped")))
	c.pass(noon)
	reap.At = noon
	c.decide(reap, journal.Recorded)
	begin("begun")
	c.generate("generated")
	c.park(begin("parked"), noon.Add(time.Hour))
	c.decide(c.of(journal.EventDoubt, begin("in doubt")), journal.Recorded)
	cancel := c.of(journal.EventCancel, begin("cancelled"))
	cancel.Unsent, cancel.Delivered = true, true
	c.decide(cancel, journal.Recorded)
	resolve := c.of(journal.EventResolve, c.decide(c.of(journal.EventDoubt, begin("resolved")), journal.Recorded))
	resolve.Resolution, resolve.Delivered = journal.Executed, true
	c.decide(resolve, journal.Recorded)
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
		taken := map[string]journal.Decision{}
		for _, result := range c.claim(100) {
			taken[result.Operation.ID] = result.Decision
		}
		assert.Equal(t, journal.Execute, taken["begun"])
		assert.NotContains(t, taken, "completed")
		assert.NotContains(t, taken, "reaped")
		for id, want := range map[string]journal.Decision{
			"begun": journal.Wait, "in doubt": journal.Stop, "resolved": journal.Replay, "completed": journal.Replay, "reaped": journal.Gone,
		} {
			c.decide(c.beginEvent(named(id)), want)
		}
	}},
}
