package journaltest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

var restoredTests = []test{
	{"what sends, decides or forgets is refused, and what tells or reads is not", func(t *testing.T, h Harness) {
		if h.Restored == nil {
			t.Skip("the store can't tell that it was restored")
		}
		c := newCaller(t, h.Journal)
		pending := c.park(c.begin(named("pending")), noon)
		unknown := c.decide(c.of(journal.EventDoubt, c.begin(named("unknown"))), journal.Recorded)
		held := c.begin(named("held"))
		completed := c.completeDelivered(c.begin(named("completed")))
		c.journal = h.Restored(t)
		c.now = noon.Add(23 * time.Hour)

		_, err := c.journal.Join(t.Context())
		assert.ErrorIs(t, err, journal.ErrRestored)
		resolve := c.of(journal.EventResolve, unknown)
		resolve.Resolution = journal.NotExecuted
		for _, ev := range []journal.Event{
			c.beginEvent(named("new")), c.beginEvent(named("pending")), c.of(journal.EventClaim, pending),
			resolve, c.of(journal.EventReap, completed),
		} {
			_, err := c.journal.Apply(t.Context(), ev)
			assert.ErrorIs(t, err, journal.ErrRestored, ev.Kind)
		}
		_, err = c.journal.Claim(t.Context(), c.event(journal.EventClaim), 10)
		assert.ErrorIs(t, err, journal.ErrRestored)
		_, err = c.journal.Reap(t.Context(), c.event(journal.EventReap), 10)
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
		cancel := c.of(journal.EventCancel, c.begin(named("cancelled")))
		cancel.Unsent = true
		c.decide(cancel, journal.Recorded)
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
		next.decide(next.beginEvent(named("completed")), journal.Replay)
		next.decide(next.beginEvent(named("cancelled")), journal.Stop)
		next.begin(named("new"))
	}},
}
