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

var clockTests = []test{
	{"the last time never goes back", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		result := c.apply(c.beginEvent(named("a")))
		assert.Equal(t, noon, result.Last)
		c.now = noon.Add(-time.Minute)
		result = c.apply(c.beginEvent(named("b")))
		assert.Equal(t, noon, result.Last)
		c.now = noon.Add(time.Minute)
		result = c.apply(c.beginEvent(named("c")))
		assert.Equal(t, noon.Add(time.Minute), result.Last)
		c.now = noon
		c.complete(result.Operation)
		if h.Reopen == nil {
			return
		}
		next := newCaller(t, h.Reopen(t))
		next.now = noon.Add(-time.Hour)
		assert.Equal(t, noon.Add(time.Minute), next.apply(next.beginEvent(named("d"))).Last)
	}},
	{"the last time is the store's, not the asker's", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		ev := c.beginEvent(named("a"))
		ev.Last = noon.Add(1000 * time.Hour)
		assert.Equal(t, noon, c.apply(ev).Last)
		c.now = noon.Add(time.Minute)
		ev = c.beginEvent(named("b"))
		ev.Last = noon.Add(-1000 * time.Hour)
		result := c.apply(ev)
		assert.Equal(t, noon.Add(time.Minute), result.Last)
		assert.Equal(t, noon.Add(time.Minute), result.Operation.FirstSentAt)
	}},
	{"the last time stays although its operation is gone", func(t *testing.T, h Harness) {
		if h.Reopen == nil {
			t.Skip("the store keeps nothing")
		}
		c := newCaller(t, h.Journal)
		old := c.begin(named("old"))
		c.begin(named("newer"))
		c.pass(noon.Add(48 * time.Hour))
		c.completeDelivered(old)
		next := newCaller(t, h.Reopen(t))
		assert.Equal(t, noon.Add(48*time.Hour), next.apply(next.beginEvent(named("d"))).Last)
		next.now = noon.Add(48 * time.Hour)
		next.pass(noon.Add(96 * time.Hour))
		require.Equal(t, 0, next.reap(96*time.Hour, 10))
	}},
	{"a clock that fell behind closes the windows of many operations, and their next events see that", func(t *testing.T, h Harness) {
		const many = 400
		c := newCaller(t, h.Journal)
		c.look()
		c.now = noon.Add(20 * time.Hour)
		sideBySide(many, func(i int) { c.park(c.begin(named(fmt.Sprint("op-", i))), c.now) })
		c.jump(noon)
		sideBySide(many, func(i int) {
			op := c.decide(c.beginEvent(named(fmt.Sprint("op-", i))), machine.Stop)
			assert.True(t, op.WindowClosed, op.ID)
		})
	}},
	{"a clock that stays behind closes the windows of operations sent before, for good", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.park(c.begin(named("before")), noon)
		c.now = noon.Add(10 * time.Hour) // the clock runs ahead
		c.park(c.begin(named("pending")), c.now)
		flying := c.begin(named("in flight"))
		c.decide(c.of(machine.EventMarkUnknown, c.begin(named("unknown"))), machine.Recorded)
		c.complete(c.begin(named("completed")))
		generated := c.generate("generated")

		c.jump(noon.Add(time.Minute)) // and is set right
		c.begin(named("any other"))
		for id, closed := range map[string]bool{"before": true, "pending": true, "in flight": true, "unknown": true,
			"completed": false, "generated": true, "any other": false} {
			assert.Equal(t, closed, c.get(named(id)).WindowClosed, id)
		}
		op := c.decide(c.beginEvent(named("pending")), machine.Stop)
		assert.Equal(t, journal.StateUnknown, op.State)
		c.decide(c.beginEvent(named("before")), machine.Stop) // a clock may have dated this one too that ran ahead for long
		park := c.of(machine.EventPark, flying)
		park.Open = true
		assert.Equal(t, journal.StateUnknown, c.decide(park, machine.Recorded).State)
		c.complete(generated)
		if h.Reopen == nil {
			return
		}
		c.journal = h.Reopen(t)
		assert.True(t, c.get(named("unknown")).WindowClosed)
	}},
	{"a clock that falls further back closes more windows", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.now = noon.Add(20 * time.Hour)
		c.begin(named("twenty"))
		closed := func() (ids []string) {
			for op := range h.Journal.List(t.Context(), journal.Filter{}) {
				if op.WindowClosed {
					ids = append(ids, op.ID)
				}
			}
			return ids
		}
		c.jump(noon.Add(15 * time.Hour))
		c.flush()
		assert.Equal(t, []string{"twenty"}, closed())
		c.begin(named("fifteen"))
		c.jump(noon.Add(5 * time.Hour))
		c.flush()
		assert.Contains(t, closed(), "fifteen")
		c.begin(named("five"))
		c.flush()
		assert.NotContains(t, closed(), "five")
	}},
	{"a clock that ran ahead for longer than its lead keeps no window open", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.now = noon.Add(9 * time.Hour) // at noon
		c.park(c.begin(named("a")), c.now)
		c.pass(noon.Add(19 * time.Hour))
		c.jump(noon.Add(10 * time.Hour)) // the clock is set right, later than the time that it showed at noon
		assert.True(t, c.get(named("a")).WindowClosed)
		c.decide(c.beginEvent(named("a")), machine.Stop)
	}},
	{"a clock that is behind and confirmed keeps the windows of its operations, whoever else writes", func(t *testing.T, h Harness) {
		another := h.Journal
		if h.Open != nil {
			another = h.Open(t)
		}
		c, other := newCaller(t, h.Journal), newCaller(t, another)
		c.now = noon.Add(20 * time.Hour)
		c.begin(named("ahead"))
		c.jump(noon)
		other.now = c.now
		other.look()
		for _, id := range []string{"a", "b"} {
			c.now = c.now.Add(2 * time.Hour)
			c.begin(named(id))
			other.now = c.now
			other.begin(named("other's " + id))
			c.look()
		}
		for id, closed := range map[string]bool{"ahead": true, "a": false, "other's a": false, "b": false, "other's b": false} {
			assert.Equal(t, closed, c.get(named(id)).WindowClosed, id)
		}
	}},
	{"a clock that is behind by no more than the margin closes nothing", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.begin(named("a"))
		c.now = noon.Add(-stripeLike.Margin())
		c.begin(named("b"))
		assert.False(t, c.get(named("a")).WindowClosed)
		c.jump(noon.Add(-stripeLike.Margin() - machine.Confirmation + time.Minute)) // some time passes in a store
		assert.False(t, c.get(named("a")).WindowClosed)
		c.jump(noon.Add(-stripeLike.Margin() - time.Hour))
		assert.True(t, c.get(named("a")).WindowClosed)
	}},
	{"short retentions have short margins", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		ev := c.beginEvent(named("short"))
		ev.Intent.Terms.Retention = time.Minute
		c.decide(ev, machine.Execute)
		c.begin(named("long"))
		c.jump(noon.Add(-20 * time.Minute))
		assert.True(t, c.get(named("short")).WindowClosed)
		assert.False(t, c.get(named("long")).WindowClosed)
	}},
	{"an operation without its answer is not repeated inside the window of a clock that was set back", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		found := func(id string) {
			done := c.completeEvent(c.begin(named(id)))
			done.Answer.Omitted, done.Answer.Body, done.Delivered = true, nil, true
			c.decide(done, machine.Recorded)
		}
		c.begin(named("before"))
		c.now = noon.Add(10 * time.Hour) // the clock runs ahead
		found("ahead")
		c.jump(noon.Add(time.Minute)) // and is set right
		c.flush()
		if h.Reopen != nil && !h.ForgetsAhead {
			c.now = noon.Add(time.Hour)
			next := newCaller(t, h.Reopen(t))
			next.now = c.now
			c = next
		}
		c.now = noon.Add(10*time.Hour + time.Minute)
		found("after")
		c.now = c.now.Add(time.Minute)
		for id, closed := range map[string]bool{"ahead": true, "after": false} {
			ev := c.event(machine.EventLook)
			ev.Ref, ev.Due, ev.Asked = named(id), c.now.Add(time.Minute), true
			assert.Equal(t, closed, c.decide(ev, machine.Look).WindowClosed, id)
			assert.Equal(t, closed, c.get(named(id)).WindowClosed, id)
		}
	}},
	{"a claim and a reap see the clock too", func(t *testing.T, h Harness) {
		for name, ask := range map[string]func(c *caller){
			"claim": func(c *caller) { c.claim(10) },
			"reap":  func(c *caller) { c.reap(time.Hour, 10) },
		} {
			c := newCaller(t, h.Journal)
			c.now = c.now.Add(machine.Leap)
			c.begin(named(name))
			c.now = c.now.Add(-2 * time.Hour)
			ask(c)
			c.now = c.now.Add(machine.Confirmation)
			ask(c)
			assert.True(t, c.get(named(name)).WindowClosed, name)
		}
	}},
}
