package journaltest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// besideTests have a second journal on the same store, as in another process. One process's commit decides the other's
// next request.
var besideTests = []test{
	{"a claim gets what another process has parked, or left by its death", func(t *testing.T, h Harness) {
		c, other := both(t, h)
		for id, leave := range map[string]func(op journal.Operation){
			"parked": func(op journal.Operation) { other.park(op, other.now) },
			"left":   func(journal.Operation) { h.Kill(t, other.session) },
			"ended":  func(journal.Operation) { require.NoError(t, other.session.End(t.Context())) },
		} {
			if h.Kill == nil && id == "left" {
				continue
			}
			other = again(t, other)
			op := other.begin(named(id))
			sideBySide(16, func(i int) {
				if i%4 == 1 {
					c.decide(c.beginEvent(named(id)), machine.Wait)
				} else {
					c.begin(named(fmt.Sprint(id, "-", i)))
				}
			})
			require.Empty(t, c.claim(10), id)
			leave(op)
			results := c.claim(10)
			require.Equal(t, []string{id}, claimed(results))
			assert.Equal(t, machine.Execute, results[0].Decision)
		}
	}},
	{"a claim gets what a person has sent again at another process", func(t *testing.T, h Harness) {
		c, other := both(t, h)
		op := c.park(c.begin(named("a")), noon.Add(time.Hour))
		require.Empty(t, c.claim(10))
		resolve := other.of(machine.EventResolve, op)
		resolve.Resolution, resolve.By, resolve.Cause, resolve.Key = journal.SendAgain, "ann", "checked", "second-key"
		other.decide(resolve, machine.Recorded)
		assert.Equal(t, []string{"a"}, claimed(c.claim(10)))
	}},
	{"an outcome that another process has delivered is not offered, and is reaped", func(t *testing.T, h Harness) {
		c, other := both(t, h)
		op := c.complete(c.begin(named("a")))
		other.decide(other.of(machine.EventDeliver, op), machine.Recorded)
		other.flush()
		require.NoError(t, c.session.End(t.Context()))
		c = again(t, c)
		assert.Empty(t, c.claim(10))
		c.pass(noon.Add(99 * 24 * time.Hour))
		assert.Equal(t, 1, c.reap(time.Hour, 10))
		other.now = c.now
		other.decide(other.beginEvent(named("a")), machine.Gone)
	}},
	{"a look-up that another process makes due is claimed, once", func(t *testing.T, h Harness) {
		c, other := both(t, h)
		r, is := h.Journal.(machine.Reconciler)
		if !is {
			t.Skip("the store has no look-ups")
		}
		doubt := c.of(machine.EventMarkUnknown, c.begin(named("a")))
		doubt.Open, doubt.LookAfter = true, time.Hour
		op := c.decide(doubt, machine.Recorded)
		look := c.event(machine.EventLook)
		look.Due = c.now.Add(time.Minute)
		results, err := r.Looks(t.Context(), look, 10)
		require.NoError(t, err)
		require.Empty(t, results)
		other.decide(other.of(machine.EventHint, op), machine.Recorded)
		results, err = r.Looks(t.Context(), look, 10)
		require.NoError(t, err)
		assert.Equal(t, []string{"a"}, claimed(results))
		results, err = other.journal.(machine.Reconciler).Looks(t.Context(), look, 10)
		require.NoError(t, err)
		assert.Empty(t, results)
	}},
	{"an object that was seen at two processes proves one operation", func(t *testing.T, h Harness) {
		c, other := both(t, h)
		if _, is := h.Journal.(machine.Reconciler); !is {
			t.Skip("the store has no look-ups")
		}
		const objects = 20
		pods := []*caller{c, other}
		var ops [objects][2]journal.Operation
		for i := range ops {
			for k, pod := range pods {
				doubt := pod.of(machine.EventMarkUnknown, pod.begin(named(fmt.Sprint("op-", i, "-", k))))
				doubt.Open, doubt.Account = true, "acct"
				ops[i][k] = pod.decide(doubt, machine.Recorded)
			}
		}
		atOnce(objects*2, func(i int) {
			pod, object := pods[i%2], fmt.Sprint("charge ch_", i/2)
			ev := pod.of(machine.EventEvidence, ops[i/2][i%2])
			ev.Account, ev.Object, ev.Answer = "acct", object, &journal.Answer{Status: 200, Body: []byte(object)}
			ev.Evidence = &journal.Evidence{Source: journal.SourceEvent, Finding: journal.FindingTookEffect, Basis: journal.BasisKey}
			pod.apply(ev)
		})
		for i := range ops {
			var proven []journal.State
			for k := range ops[i] {
				proven = append(proven, c.get(ops[i][k].Ref).State)
			}
			assert.ElementsMatch(t, []journal.State{journal.StateCompleted, journal.StateUnknown}, proven, i)
		}
	}},
	{"an event that is heard at two processes is first at one", func(t *testing.T, h Harness) {
		c, other := both(t, h)
		if _, is := h.Journal.(machine.Reconciler); !is {
			t.Skip("the store has no look-ups")
		}
		doubt := c.of(machine.EventMarkUnknown, c.begin(named("a")))
		doubt.Open = true
		op := c.decide(doubt, machine.Recorded)
		const events = 40
		var mu sync.Mutex
		first := map[int]int{}
		atOnce(events*2, func(i int) {
			pod := []*caller{c, other}[i%2]
			hint := pod.of(machine.EventHint, op)
			heard := machine.Heard{Provider: "ledger", ID: fmt.Sprint("evt_", i/2)}
			_, is, err := pod.journal.(machine.Reconciler).RecordEvent(t.Context(), heard, []machine.Event{hint})
			assert.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			if is {
				first[i/2]++
			}
		})
		assert.Len(t, first, events)
		for i, times := range first {
			assert.Equal(t, 1, times, i)
		}
	}},
	{"two processes that claim one by one get one each time, while some are due", func(t *testing.T, h Harness) {
		c, other := both(t, h)
		const due, claims = 120, 40
		sideBySide(due, func(i int) { c.park(c.begin(named(fmt.Sprint("op-", i))), c.now) })
		var mu sync.Mutex
		seen := map[string]int{}
		atOnce(2, func(i int) {
			pod := []*caller{c, other}[i]
			for range claims {
				results, err := pod.journal.Claim(context.WithoutCancel(t.Context()), pod.event(machine.EventClaim), 1)
				assert.NoError(t, err)
				mu.Lock()
				assert.Len(t, results, 1, "fewer than the limit means that there is no more")
				for _, id := range claimed(results) {
					seen[id]++
				}
				mu.Unlock()
			}
		})
		assert.Len(t, seen, 2*claims)
	}},
	{"a clock that another process believes is the journal's", func(t *testing.T, h Harness) {
		c, other := both(t, h)
		c.begin(named("a"))
		other.jump(noon.Add(48 * time.Hour))
		other.begin(named("b"))
		c.now = other.now.Add(time.Minute)
		result := c.apply(c.beginEvent(named("c")))
		assert.Equal(t, c.now, result.Last)
		assert.Zero(t, result.Unconfirmed, "it need not confirm the clock itself")
		c.now = noon
		assert.Equal(t, other.now.Add(time.Minute), c.apply(c.beginEvent(named("d"))).Last)
	}},
}

// both returns callers of two journals on one store.
func both(t *testing.T, h Harness) (c, other *caller) {
	t.Helper()
	if h.Open == nil {
		t.Skip("the store has no second journal")
	}
	return newCaller(t, h.Journal), newCaller(t, h.Open(t))
}

// again returns a caller of the same journal in a new session.
func again(t *testing.T, c *caller) *caller {
	t.Helper()
	next := newCaller(t, c.journal)
	next.now = c.now
	return next
}

// atOnce runs do n times, each in a separate goroutine.
func atOnce(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}
