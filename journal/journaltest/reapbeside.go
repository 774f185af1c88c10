package journaltest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// reapBesideTests reap while callers ask for the same and for other operations.
var reapBesideTests = []test{
	{"beside traffic, no name is executed again and nothing is lost", func(t *testing.T, h Harness) {
		const names, goroutines = 96, 8
		c := newCaller(t, h.Journal)
		sideBySide(names, func(i int) {
			begun, err := h.Journal.Apply(t.Context(), c.beginEvent(named(fmt.Sprint("old-", i))))
			if assert.NoError(t, err) {
				end := c.completeEvent(begun.Operation)
				end.Delivered = true
				_, err = h.Journal.Apply(t.Context(), end)
				assert.NoError(t, err)
			}
		})
		c.pass(noon.Add(25 * time.Hour))

		var traffic, reaper sync.WaitGroup
		over := make(chan struct{})
		reaped := 0
		reaper.Go(func() {
			for alone := false; ; {
				select {
				case <-over:
					alone = true // Reap passes over what the traffic holds, so only from here on 0 means that none is left
				default:
				}
				ev := c.event(machine.EventReap)
				ev.Keep = time.Hour
				n, err := h.Journal.Reap(t.Context(), ev, 5)
				if !assert.NoError(t, err) || alone && n == 0 {
					return
				}
				reaped += n
			}
		})
		for g := range goroutines {
			traffic.Go(func() {
				for i := g; i < names; i += goroutines {
					again, err := h.Journal.Apply(t.Context(), c.beginEvent(named(fmt.Sprint("old-", i))))
					assert.NoError(t, err)
					assert.Contains(t, []machine.Decision{machine.Replay, machine.Gone}, again.Decision)
					if again.Decision == machine.Replay {
						assert.Equal(t, []byte(`{"paid":true}`), again.Operation.Answer.Body)
					}
					ref := named(fmt.Sprint("new-", i))
					begun, err := h.Journal.Apply(t.Context(), c.beginEvent(ref))
					assert.NoError(t, err)
					assert.Equal(t, machine.Execute, begun.Decision)
					if i%2 == 0 { // the others stay in flight
						_, err = h.Journal.Apply(t.Context(), c.completeEvent(begun.Operation))
						assert.NoError(t, err)
					}
				}
			})
		}
		traffic.Wait()
		close(over)
		reaper.Wait()

		require.Equal(t, names, reaped, "each of the old ones once, and none of the new")
		for i := range names {
			c.decide(c.beginEvent(named(fmt.Sprint("old-", i))), machine.Gone)
			op, want := c.get(named(fmt.Sprint("new-", i))), journal.StateCompleted
			if i%2 == 1 {
				want = journal.StateInFlight
			}
			assert.Equal(t, want, op.State)
			assert.False(t, op.Tombstone)
		}
	}},
}
