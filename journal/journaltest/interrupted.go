package journaltest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

var interruptedTests = []test{
	{"a session that was frozen for too long is lost, and its answers are not", func(t *testing.T, h Harness) {
		if h.Freeze == nil {
			t.Skip("a session of the store can't be frozen")
		}
		c := newCaller(t, h.Journal)
		held, parked, answered := c.begin(named("held")), c.begin(named("parked")), c.begin(named("answered"))
		thaw := h.Freeze(t, c.session)
		other := newCaller(t, h.Journal)
		if h.Open != nil {
			other = newCaller(t, h.Open(t))
		}
		other.now = noon.Add(time.Minute)
		taken := other.claim(10)
		require.Equal(t, []string{"held", "parked", "answered"}, claimed(taken))
		thaw()

		for _, name := range []string{"held", "new"} { // the first would write nothing
			_, err := c.journal.Apply(t.Context(), c.beginEvent(named(name)))
			require.ErrorIs(t, err, journal.ErrSessionLost, name)
		}
		assert.True(t, c.session.Lost())
		ev := c.of(machine.EventPark, parked)
		ev.Due = noon.Add(time.Hour)
		c.decide(ev, machine.Stale)
		c.complete(answered)
		assert.Equal(t, []byte(`{"paid":true}`), other.get(named("answered")).Answer.Body)
		other.decide(other.of(machine.EventPark, taken[2].Operation), machine.Replay)
		assert.Equal(t, int64(2), other.get(held.Ref).Claim)
		other.complete(taken[0].Operation)
	}},
	{"cut connections lose no acknowledged event, and no name executes twice", func(t *testing.T, h Harness) {
		if h.Sever == nil {
			t.Skip("the store has no connections")
		}
		outlives(t, h, 6, h.Sever)
	}},
	{"a server's restart loses no acknowledged event, and no name executes twice", func(t *testing.T, h Harness) {
		if h.Restart == nil {
			t.Skip("the store has no server")
		}
		outlives(t, h, 2, h.Restart)
	}},
}

// outlives interrupts a journal several times while callers begin and complete operations, and go on after errors as
// the client does.
func outlives(t *testing.T, h Harness, interruptions int, interrupt func(t *testing.T)) {
	const callers, each, pause = 8, 12, time.Millisecond
	c := newCaller(t, h.Journal)
	var steps, failures, working atomic.Int64
	// until repeats an event until it is recorded.
	until := func(ev func() machine.Event, among ...machine.Decision) {
		for {
			result, err := c.journal.Apply(t.Context(), ev())
			if err == nil {
				assert.Contains(t, among, result.Decision)
				steps.Add(1)
				return
			}
			failures.Add(1)
			if !assert.False(t, errors.Is(err, journal.ErrSessionLost) || errors.Is(err, journal.ErrRestored), err) {
				runtime.Goexit()
			}
			time.Sleep(pause)
		}
	}
	name := func(caller, i int) journal.Ref { return named(fmt.Sprint("op-", caller, "-", i)) }
	executed := make([][each]int, callers)
	work := func(caller, i int) {
		for {
			begin := c.beginEvent(name(caller, i))
			result, err := c.journal.Apply(t.Context(), begin)
			if err == nil {
				if assert.Equal(t, machine.Execute, result.Decision) {
					executed[caller][i]++
				}
				until(func() machine.Event { return c.completeEvent(result.Operation) }, machine.Recorded, machine.Replay)
				return
			}
			failures.Add(1)
			if !assert.NotErrorIs(t, err, journal.ErrSessionLost) {
				return
			}
			until(func() machine.Event { // it may have been recorded despite the error
				ev := c.event(machine.EventCancel)
				ev.Ref, ev.Asker, ev.Unsent, ev.Delivered = begin.Ref, begin.Asker, true, true
				return ev
			}, machine.Recorded, machine.Stale)
		}
	}
	var wg sync.WaitGroup
	for caller := range callers {
		working.Add(1)
		wg.Go(func() {
			defer working.Add(-1)
			for i := range each {
				work(caller, i)
			}
		})
	}
	for range interruptions {
		interrupt(t)
		for before := steps.Load(); steps.Load() < before+5 && working.Load() > 0; {
			time.Sleep(pause)
		}
	}
	wg.Wait()
	t.Logf("%d attempts failed", failures.Load())
	next := h.Journal
	if h.Open != nil {
		next = h.Open(t)
	}
	for caller := range callers {
		for i := range each {
			op, err := next.Get(t.Context(), name(caller, i))
			require.NoError(t, err)
			assert.Equal(t, journal.StateCompleted, op.State)
			require.NotNil(t, op.Answer)
			assert.Equal(t, []byte(`{"paid":true}`), op.Answer.Body)
			assert.Equal(t, 1, executed[caller][i], op.ID)
		}
	}
	assert.False(t, c.session.Lost())
}
