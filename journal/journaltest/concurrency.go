package journaltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

var concurrencyTests = []test{
	{"64 goroutines that begin one name get exactly one execute", func(t *testing.T, h Harness) {
		journals := []machine.Store{h.Journal}
		if h.Open != nil {
			journals = append(journals, h.Open(t))
		}
		decisions := make(chan machine.Decision, 64)
		var wg sync.WaitGroup
		for i := range 64 {
			c := newCaller(t, journals[i%len(journals)])
			wg.Go(func() {
				result, err := c.journal.Apply(t.Context(), c.beginEvent(named("invoice-1")))
				assert.NoError(t, err)
				decisions <- result.Decision
			})
		}
		wg.Wait()
		close(decisions)
		count := map[machine.Decision]int{}
		for d := range decisions {
			count[d]++
		}
		assert.Equal(t, map[machine.Decision]int{machine.Execute: 1, machine.Wait: 63}, count)
	}},
	{"many goroutines run operations side by side", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for n := range 8 {
					ref := named(fmt.Sprint("op-", i, "-", n))
					begun, err := h.Journal.Apply(t.Context(), c.beginEvent(ref))
					if !assert.NoError(t, err) {
						return
					}
					_, err = h.Journal.Apply(t.Context(), c.completeEvent(begun.Operation))
					assert.NoError(t, err)
					got, err := h.Journal.Get(t.Context(), ref)
					assert.NoError(t, err)
					assert.Equal(t, journal.StateCompleted, got.State)
				}
			})
		}
		wg.Wait()
		assert.Len(t, c.list(journal.Filter{States: []journal.State{journal.StateCompleted}}), 32*8)
	}},
	{"contexts that end in the middle roll back no other caller", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		var wg sync.WaitGroup
		for i := range 64 {
			ctx, cancel := context.WithCancel(t.Context())
			wg.Go(cancel)
			wg.Go(func() {
				ev := c.beginEvent(named(fmt.Sprint("cancelled-", i)))
				ev.Asker = int64(1000 + i)
				_, err := h.Journal.Apply(ctx, ev)
				if err != nil {
					assert.ErrorIs(t, err, context.Canceled)
				}
			})
			wg.Go(func() {
				_, err := h.Journal.Apply(t.Context(), c.beginEvent(named(fmt.Sprint("kept-", i))))
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		for i := range 64 {
			assert.Equal(t, journal.StateInFlight, c.get(named(fmt.Sprint("kept-", i))).State)
			// The event of a caller that left may have been recorded: a cancel without a claim's number takes the event
			// back.
			ref := named(fmt.Sprint("cancelled-", i))
			ev := c.event(machine.EventCancel)
			ev.Ref, ev.Asker, ev.Unsent = ref, int64(1000+i), true
			c.apply(ev)
			op, err := h.Journal.Get(t.Context(), ref)
			if errors.Is(err, journal.ErrNotFound) {
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, journal.StateCancelled, op.State)
		}
	}},
	{"Close releases waiting callers", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for n := range 50 {
					if _, err := h.Journal.Apply(t.Context(), c.beginEvent(named(fmt.Sprint("op-", i, "-", n)))); err != nil {
						assert.True(t, errors.Is(err, journal.ErrClosed) || errors.Is(err, journal.ErrSessionLost), err)
						return
					}
				}
			})
		}
		require.NoError(t, h.Journal.Close())
		wg.Wait()
	}},
}
