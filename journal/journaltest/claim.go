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

var claimTests = []test{
	{"takes due operations, oldest first, at most the limit", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		for i := range 10 {
			// The later created, the sooner due.
			c.park(c.begin(named(fmt.Sprint("due-", i))), noon.Add(time.Duration(10-i)*time.Second))
		}
		c.park(c.begin(named("tonight")), noon.Add(12*time.Hour))
		assert.Empty(t, c.claim(100), "nothing is due yet")
		c.now = noon.Add(time.Minute)
		assert.Empty(t, c.claim(0))
		first := c.claim(4)
		assert.Equal(t, []string{"due-0", "due-1", "due-2", "due-3"}, claimed(first))
		for _, result := range first {
			assert.Equal(t, machine.Execute, result.Decision)
			assert.Equal(t, []byte(`{"amount":100}`), result.Operation.Request.Body)
			assert.Equal(t, c.session.ID(), result.Operation.Holder)
			assert.Equal(t, c.now, result.Last)
		}
		assert.Len(t, c.claim(100), 6)
		assert.Empty(t, c.claim(100), "everything is held by a live session")
	}},
	{"takes only due operations among many others", func(t *testing.T, h Harness) {
		const many = 450
		c := newCaller(t, h.Journal)
		sideBySide(many, func(i int) {
			due := noon.Add(12 * time.Hour)
			if i%150 == 0 {
				due = noon.Add(time.Second)
			}
			c.park(c.begin(named(fmt.Sprint("op-", i))), due)
		})
		var soon, late []string // by age
		for _, op := range c.list(journal.Filter{}) {
			if op.WakeAt.Equal(noon.Add(time.Second)) {
				soon = append(soon, op.ID)
			} else {
				late = append(late, op.ID)
			}
		}
		require.Len(t, soon, 3)
		c.now = noon.Add(time.Minute)
		assert.Equal(t, soon[:2], claimed(c.claim(2)))
		assert.Equal(t, soon[2:], claimed(c.claim(2)))
		c.now = noon.Add(13 * time.Hour)
		assert.Equal(t, late[:3], claimed(c.claim(3)))
		assert.Equal(t, late[3:10], claimed(c.claim(7)))
	}},
	{"mixes due, orphaned and undelivered operations by age", func(t *testing.T, h Harness) {
		dead, c := newCaller(t, h.Journal), newCaller(t, h.Journal)
		dead.begin(named("orphan-1"))
		c.park(c.begin(named("due")), noon)
		dead.complete(dead.begin(named("undelivered")))
		dead.begin(named("orphan-2"))
		c.complete(c.begin(named("mine to deliver")))
		c.begin(named("held by me"))
		require.NoError(t, dead.session.End(t.Context()))
		results := c.claim(10)
		assert.Equal(t, []string{"orphan-1", "due", "undelivered", "orphan-2"}, claimed(results))
		decisions := []machine.Decision{}
		for _, result := range results {
			decisions = append(decisions, result.Decision)
		}
		assert.Equal(t, []machine.Decision{machine.Execute, machine.Execute, machine.Offer, machine.Execute}, decisions)
		assert.Equal(t, []byte(`{"paid":true}`), results[2].Operation.Answer.Body)
	}},
	{"an undelivered outcome is offered to one session at a time", func(t *testing.T, h Harness) {
		c, other := newCaller(t, h.Journal), newCaller(t, h.Journal)
		c.complete(c.begin(named("a")))
		require.NoError(t, c.session.End(t.Context()))
		results := other.claim(10)
		require.Len(t, results, 1)
		assert.Equal(t, machine.Offer, results[0].Decision)
		third := newCaller(t, h.Journal)
		assert.Empty(t, third.claim(10))
		require.NoError(t, other.session.End(t.Context()))
		results = third.claim(10)
		require.Len(t, results, 1)
		third.apply(third.of(machine.EventDeliver, results[0].Operation))
		third.flush()
		require.NoError(t, third.session.End(t.Context()))
		assert.NotContains(t, claimed(newCaller(t, h.Journal).claim(10)), "a", "it was delivered")
	}},
	{"offers outcomes without a holder too, also to a session that delivers nothing", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		for _, id := range []string{"a", "b"} {
			op := c.begin(named(id))
			c.decide(c.of(machine.EventMarkUnknown, op), machine.Recorded)
			ev := c.of(machine.EventResolve, op)
			ev.Session, ev.Resolution = "", journal.Executed
			c.decide(ev, machine.Recorded)
		}
		results := c.claim(1)
		require.Len(t, results, 1)
		assert.Equal(t, machine.Offer, results[0].Decision)
		ev := c.event(machine.EventClaim)
		ev.Delivered = true
		results, err := h.Journal.Claim(t.Context(), ev, 10)
		require.NoError(t, err)
		require.Len(t, results, 1)
		assert.Equal(t, machine.Offer, results[0].Decision)
		assert.False(t, c.get(named("b")).Delivered)
	}},
	{"an operation that can't be sent any more becomes unknown", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.park(c.begin(named("a")), noon)
		c.pass(noon.Add(48 * time.Hour))
		results := c.claim(10)
		require.Len(t, results, 1)
		assert.Equal(t, machine.Stop, results[0].Decision)
		assert.Equal(t, journal.StateUnknown, c.get(named("a")).State)
	}},
	{"two claimers share a dead session's operations, each taken once", func(t *testing.T, h Harness) {
		dead := newCaller(t, h.Journal)
		const many = 200
		sideBySide(many, func(i int) { dead.begin(named(fmt.Sprint("op-", i))) })
		require.NoError(t, dead.session.End(t.Context()))
		second := h.Journal
		if h.Open != nil {
			second = h.Open(t)
		}
		type take struct {
			ids []string
			err error
		}
		taken := make(chan take, 2)
		for _, j := range []machine.Store{h.Journal, second} {
			c := newCaller(t, j)
			go func() {
				var all take
				for {
					results, err := j.Claim(t.Context(), c.event(machine.EventClaim), 7)
					all.ids = append(all.ids, claimed(results)...)
					if all.err = err; err != nil || len(results) < 7 {
						taken <- all
						return
					}
				}
			}()
		}
		seen := map[string]int{}
		for range 2 {
			all := <-taken
			require.NoError(t, all.err)
			for _, id := range all.ids {
				seen[id]++
			}
		}
		assert.Len(t, seen, many)
		for id, times := range seen {
			assert.Equal(t, 1, times, id)
		}
	}},
	{"leaves operations alone that wake after the event's due time", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.park(c.begin(named("soon")), noon.Add(time.Minute))
		c.park(c.begin(named("later")), noon.Add(time.Hour))
		ev := c.event(machine.EventClaim)
		ev.At, ev.Due = noon.Add(2*time.Hour), noon.Add(30*time.Minute)
		results, err := h.Journal.Claim(t.Context(), ev, 10)
		require.NoError(t, err)
		assert.Equal(t, []string{"soon"}, claimed(results))
	}},
	{"one operation is claimed by name", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.park(c.begin(named("a")), noon)
		ev := c.event(machine.EventClaim)
		ev.Ref = named("a")
		c.decide(ev, machine.Execute)
		ev.Ref = named("none")
		c.decide(ev, machine.Ignored)
	}},
	{"an event of another kind is refused", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		_, err := h.Journal.Claim(t.Context(), c.event(machine.EventReap), 1)
		assert.ErrorIs(t, err, journal.ErrInvalidEvent)
	}},
}
