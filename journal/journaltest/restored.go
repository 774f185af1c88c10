package journaltest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

var restoredTests = []test{
	{"calls that send, decide or forget are refused, and late answers and reads are not", func(t *testing.T, h Harness) {
		if h.Restored == nil {
			t.Skip("the store can't tell that it was restored")
		}
		c := newCaller(t, h.Journal)
		pending := c.park(c.begin(named("pending")), noon)
		unknown := c.decide(c.of(machine.EventMarkUnknown, c.begin(named("unknown"))), machine.Recorded)
		held := c.begin(named("held"))
		completed := c.completeDelivered(c.begin(named("completed")))
		c.journal = h.Restored(t)
		c.now = noon.Add(23 * time.Hour)

		_, err := c.journal.Join(t.Context())
		assert.ErrorIs(t, err, journal.ErrRestored)
		resolve := c.of(machine.EventResolve, unknown)
		resolve.Resolution = journal.NotExecuted
		for _, ev := range []machine.Event{
			c.beginEvent(named("new")), c.beginEvent(named("pending")), c.of(machine.EventClaim, pending),
			resolve, c.of(machine.EventReap, completed),
		} {
			_, err := c.journal.Apply(t.Context(), ev)
			assert.ErrorIs(t, err, journal.ErrRestored, ev.Kind)
		}
		_, err = c.journal.Claim(t.Context(), c.event(machine.EventClaim), 10)
		assert.ErrorIs(t, err, journal.ErrRestored)
		_, err = c.journal.Reap(t.Context(), c.event(machine.EventReap), 10)
		assert.ErrorIs(t, err, journal.ErrRestored)

		for _, op := range []journal.Operation{pending, unknown, held, completed} {
			assert.Equal(t, op.State, c.get(op.Ref).State, op.ID)
		}
		_, err = c.journal.Get(t.Context(), named("new"))
		assert.ErrorIs(t, err, journal.ErrNotFound)
		assert.Len(t, c.list(journal.Filter{}), 4)
		c.complete(held)
		c.complete(pending)
		assert.Equal(t, []byte(`{"paid":true}`), c.get(named("pending")).Answer.Body, "a late answer is not lost")
		require.NotNil(t, c.get(named("held")).Answer)
	}},
	{"an adopted operation without an answer counts as sent", func(t *testing.T, h Harness) {
		if h.Restored == nil {
			t.Skip("the store can't tell that it was restored")
		}
		c := newCaller(t, h.Journal)
		cancel := c.of(machine.EventCancel, c.begin(named("cancelled")))
		cancel.Unsent = true
		c.decide(cancel, machine.Recorded)
		c.completeDelivered(c.begin(named("completed")))
		c.journal = h.Restored(t)
		adopter, ok := c.journal.(interface{ Adopt(context.Context) error })
		if !ok {
			t.Skip("the store is adopted in another way")
		}
		require.NoError(t, adopter.Adopt(t.Context()))
		next := newCaller(t, c.journal)
		op := next.get(named("cancelled"))
		assert.Equal(t, journal.StateUnknown, op.State)
		assert.True(t, op.MayHaveRun)
		assert.Equal(t, noon, op.FirstSentAt)
		next.decide(next.beginEvent(named("completed")), machine.Replay)
		next.decide(next.beginEvent(named("cancelled")), machine.Stop)
		next.begin(named("new"))
	}}, {"an adoption that is given up halfway leaves a journal that sends nothing", func(t *testing.T, h Harness) {
		if h.Restored == nil {
			t.Skip("the store can't tell that it was restored")
		}
		const many = 600
		c := newCaller(t, h.Journal)
		ops := make([]journal.Operation, many)
		sideBySide(many, func(i int) {
			ops[i] = c.begin(named(fmt.Sprint("op-", i)))
			if i%3 == 1 {
				ops[i] = c.park(ops[i], noon.Add(time.Hour))
			}
			if i%3 == 2 {
				cancel := c.of(machine.EventCancel, ops[i])
				cancel.Unsent = true
				ops[i] = c.decide(cancel, machine.Recorded)
			}
		})
		c.journal = h.Restored(t)
		adopter, ok := c.journal.(interface{ Adopt(context.Context) error })
		if !ok {
			t.Skip("the store is adopted in another way")
		}
		ctx, giveUp := context.WithCancel(t.Context())
		answered := make(chan struct{})
		go func() { // answers come in late meanwhile
			defer close(answered)
			for i := 0; i < many; i += many / 10 {
				_, err := c.journal.Apply(t.Context(), c.completeEvent(ops[i]))
				assert.NoError(t, err)
				if i == many/2 {
					giveUp()
				}
			}
		}()
		err := adopter.Adopt(ctx)
		<-answered
		for _, op := range c.list(journal.Filter{}) {
			if op.State == journal.StateCompleted {
				continue
			}
			_, beginning := c.journal.Apply(t.Context(), c.beginEvent(op.Ref))
			require.Error(t, beginning, "whoever asks has no session that is alive")
		}
		if session, joined := c.journal.Join(t.Context()); joined == nil { // the whole of it was committed
			require.NoError(t, session.End(t.Context()))
		} else {
			require.Error(t, err)
			require.ErrorIs(t, joined, journal.ErrRestored)
			require.NoError(t, adopter.Adopt(t.Context()))
		}
		next := newCaller(t, c.journal)
		completed := 0
		for i := range ops {
			switch op := next.get(ops[i].Ref); op.State {
			case journal.StateCompleted:
				completed++
			case journal.StatePending, journal.StateUnknown:
				require.True(t, op.MayHaveRun, op.ID)
				require.True(t, op.Adopted, op.ID)
				require.Equal(t, noon, op.FirstSentAt, op.ID)
			default:
				require.Fail(t, "it counts as not sent", "%s is %s", op.ID, op.State)
			}
		}
		require.Equal(t, 10, completed)
	}},
}
