package journaltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// box is a caller that enqueues in transactions.
type box struct {
	*caller
	outbox machine.Outbox
	tx     func() journal.Tx
}

// newBox skips the test if the store is no outbox.
func newBox(t *testing.T, h Harness) *box {
	t.Helper()
	outbox, ok := h.Journal.(machine.Outbox)
	if !ok {
		t.Skip("the store records nothing in transactions of others")
	}
	b := &box{caller: newCaller(t, h.Journal), outbox: outbox}
	b.tx = func() journal.Tx {
		if h.Tx != nil {
			return h.Tx(t)
		}
		tx, err := outbox.BeginTx(t.Context())
		require.NoError(t, err)
		return tx
	}
	return b
}

func (b *box) enqueueEvent(id string) machine.Event {
	ev := b.event(machine.EventEnqueue)
	ev.Session, ev.Ref, ev.Intent = "", named(id), intent(named(id), journal.Named)
	return ev
}

// in enqueues within tx.
func (b *box) in(tx journal.Tx, ev machine.Event, want machine.Decision) journal.Operation {
	b.t.Helper()
	result, err := b.outbox.EnqueueTx(b.t.Context(), tx, ev)
	require.NoError(b.t, err)
	require.Equal(b.t, want.String(), result.Decision.String())
	return result.Operation
}

// hold begins a named operation, and holds it.
func (b *box) hold(id string) journal.Operation {
	b.t.Helper()
	return b.begin(named(id))
}

// enqueue enqueues in a separate transaction.
func (b *box) enqueue(ev machine.Event) journal.Operation {
	b.t.Helper()
	tx := b.tx()
	op := b.in(tx, ev, machine.Recorded)
	require.NoError(b.t, tx.Commit(b.t.Context()))
	return op
}

func (b *box) rollBack(tx journal.Tx) {
	b.t.Helper()
	require.NoError(b.t, tx.Rollback(b.t.Context()))
}

func (b *box) lacks(id string) {
	b.t.Helper()
	_, err := b.journal.Get(b.t.Context(), named(id))
	require.ErrorIs(b.t, err, journal.ErrNotFound)
}

// deliver delivers an outcome, with f as the handler.
func (b *box) deliver(ev machine.Event, f func(context.Context, journal.Tx) error) (machine.Decision, error) {
	result, err := b.outbox.DeliverTx(b.t.Context(), ev, f)
	return result.Decision, err
}

// deliveryOf returns the delivery event of the operation's outcome.
func (b *box) deliveryOf(op journal.Operation) machine.Event {
	ev := b.of(machine.EventDeliver, op)
	ev.Outcome = op.State
	return ev
}

var outboxTests = []test{
	{"an enqueued operation is there if its transaction commits, and only then", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		tx := b.tx()
		b.in(tx, b.enqueueEvent("rolled back"), machine.Recorded)
		b.rollBack(tx)
		b.lacks("rolled back")

		tx = b.tx()
		op := b.in(tx, b.enqueueEvent("committed"), machine.Recorded)
		assert.Equal(t, "key-of-committed", op.Key)
		assert.Equal(t, journal.StatePending, op.State)
		require.NoError(t, tx.Commit(t.Context()))
		_ = tx.Rollback(t.Context())
		op = b.get(named("committed"))
		assert.Equal(t, journal.StatePending, op.State)
		assert.True(t, op.Enqueued)
		assert.Zero(t, op.Claim)
		assert.Equal(t, noon, op.DueAt)
		assert.Equal(t, intent(op.Ref, journal.Named).Request, op.Request)
		assert.Equal(t, stripeLike, op.Terms)
		assert.Empty(t, machine.Violations(op, noon))

		taken := b.claim(10)
		require.Equal(t, []string{"committed"}, claimed(taken))
		assert.Equal(t, machine.Execute, taken[0].Decision)
		assert.Equal(t, []byte(`{"amount":100}`), taken[0].Operation.Request.Body)
		b.completeDelivered(taken[0].Operation)
		assert.Equal(t, journal.StateCompleted, b.get(op.Ref).State)
		b.enqueue(b.enqueueEvent("rolled back"))
	}},
	{"a committed enqueue outlives every process", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		if h.Crash == nil {
			t.Skip("the store keeps nothing")
		}
		ev := b.enqueueEvent("a")
		ev.Intent.NotAfter, ev.Due = noon.Add(time.Hour), noon.Add(time.Minute)
		b.enqueue(ev)
		want := b.get(named("a"))
		assert.Equal(t, noon.Add(time.Hour), want.NotAfter)
		got, err := h.Crash(t).Get(t.Context(), named("a"))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}},
	{"a name is enqueued once, twice in one transaction and over two", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		tx := b.tx()
		first := b.in(tx, b.enqueueEvent("a"), machine.Recorded)
		again := b.in(tx, b.enqueueEvent("a"), machine.Ignored)
		assert.Equal(t, first.Key, again.Key)
		assert.Equal(t, journal.StatePending, again.State)
		require.NoError(t, tx.Commit(t.Context()))
		tx = b.tx()
		again = b.in(tx, b.enqueueEvent("a"), machine.Ignored)
		assert.Equal(t, "key-of-a", again.Key)
		require.NoError(t, tx.Commit(t.Context()))
		assert.Len(t, b.list(journal.Filter{}), 1)
	}},
	{"a refused enqueue leaves the transaction as it was", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		b.enqueue(b.enqueueEvent("before"))
		tx := b.tx()
		b.in(tx, b.enqueueEvent("a"), machine.Recorded)
		for _, id := range []string{"a", "before"} {
			other := b.enqueueEvent(id)
			other.Intent.Fingerprint = "v1:another request"
			b.in(tx, other, machine.Misuse)
		}
		for _, change := range []func(*machine.Event){
			func(ev *machine.Event) { ev.Intent = nil },
			func(ev *machine.Event) { ev.Intent.Naming = journal.Carried },
			func(ev *machine.Event) { ev.Intent.BodyWithheld = true },
			func(ev *machine.Event) { ev.At = time.Time{} },
			func(ev *machine.Event) { ev.Kind = machine.EventBegin },
		} {
			ev := b.enqueueEvent("refused")
			change(&ev)
			_, err := b.outbox.EnqueueTx(t.Context(), tx, ev)
			var refused *machine.EventError
			require.ErrorAs(t, err, &refused)
		}
		b.in(tx, b.enqueueEvent("b"), machine.Recorded)
		require.NoError(t, tx.Commit(t.Context()))
		assert.Equal(t, []string{"before", "a", "b"}, ids(b.list(journal.Filter{})))
		assert.Equal(t, "v1:before", b.get(named("before")).Fingerprint)
	}},
	{"an existing operation is left as it is", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		held := b.hold("in flight")
		unknown := b.decide(b.of(machine.EventMarkUnknown, b.hold("unknown")), machine.Recorded)
		completed := b.completeDelivered(b.hold("completed"))
		for _, op := range []journal.Operation{held, unknown, completed} {
			before := b.get(op.Ref)
			tx := b.tx()
			got := b.in(tx, b.enqueueEvent(op.ID), machine.Ignored)
			assert.Equal(t, op.State, got.State)
			require.NoError(t, tx.Commit(t.Context()))
			assert.Equal(t, before, b.get(op.Ref))
		}
		b.complete(held)
	}},
	{"a cancelled operation is pending again, in its generation or in the next", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		cancel := func(id string) {
			ev := b.of(machine.EventCancel, b.hold(id))
			ev.Unsent, ev.Delivered = true, true
			b.decide(ev, machine.Recorded)
		}
		cancel("same")
		cancel("other")
		other := b.enqueueEvent("other")
		other.Intent.Fingerprint, other.Intent.NextKey = "v1:another request", func(int) string { return "its next key" }

		tx := b.tx()
		b.in(tx, b.enqueueEvent("same"), machine.Recorded)
		b.in(tx, other, machine.Recorded)
		b.rollBack(tx)
		for _, id := range []string{"same", "other"} {
			assert.Equal(t, journal.StateCancelled, b.get(named(id)).State)
		}

		b.enqueue(b.enqueueEvent("same"))
		b.enqueue(other)
		op := b.get(named("same"))
		assert.Equal(t, journal.StatePending, op.State)
		assert.Equal(t, 0, op.Generation)
		assert.EqualValues(t, 1, op.Claim)
		op = b.get(named("other"))
		assert.Equal(t, 1, op.Generation)
		assert.Equal(t, "its next key", op.Key)
		assert.Equal(t, []string{"same", "other"}, claimed(b.claim(10)))
	}},
	{"a name that was made up before, and given up, is enqueued like any other", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		op := b.generate("key")
		cancel := b.of(machine.EventCancel, op)
		cancel.Unsent = true
		require.Equal(t, journal.StateCancelled, b.decide(cancel, machine.Recorded).State)
		b.enqueue(b.enqueueEvent("key"))
		assert.Equal(t, journal.Named, b.get(named("key")).Naming)
		claim := b.event(machine.EventClaim)
		claim.NamedOnly = true
		results, err := h.Journal.Claim(t.Context(), claim, 10)
		require.NoError(t, err)
		require.Equal(t, []string{"key"}, claimed(results))
		assert.Equal(t, machine.Execute, results[0].Decision)
		b.decide(b.beginEvent(named("key")), machine.Wait)
	}},
	{"an operation is sent when it is due, and not after its time", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		ev := b.enqueueEvent("due")
		ev.Due = noon.Add(time.Hour)
		b.enqueue(ev)
		ev = b.enqueueEvent("too late")
		ev.Due, ev.Intent.NotAfter = noon.Add(time.Hour), noon.Add(30*time.Minute)
		b.enqueue(ev)
		assert.Empty(t, b.claim(10))
		b.decide(b.beginEvent(named("due")), machine.Later)
		b.now = noon.Add(time.Hour - time.Minute)
		results := b.claim(10)
		require.Equal(t, []string{"too late"}, claimed(results))
		assert.Equal(t, machine.Recorded, results[0].Decision)
		late := b.get(named("too late"))
		assert.Equal(t, journal.StateCancelled, late.State)
		assert.Contains(t, late.Cause, "it was not to be sent after")
		b.now = noon.Add(time.Hour)
		results = b.claim(10)
		require.Equal(t, []string{"due"}, claimed(results))
		assert.Equal(t, machine.Execute, results[0].Decision)
	}},
	{"a begin of an open transaction's name gets the committed operation", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		other := b.caller
		if h.Open != nil {
			other = newCaller(t, h.Open(t))
		}
		for _, commits := range []bool{true, false} {
			id := fmt.Sprint("commits ", commits)
			tx := b.tx()
			b.in(tx, b.enqueueEvent(id), machine.Recorded)
			var wg sync.WaitGroup
			wg.Go(func() {
				result, err := other.journal.Apply(t.Context(), other.beginEvent(named(id)))
				assert.NoError(t, err)
				assert.Equal(t, machine.Execute, result.Decision)
				assert.EqualValues(t, 1, result.Operation.Claim)
				assert.Equal(t, commits, result.Operation.Enqueued)
			})
			if commits {
				assert.NoError(t, tx.Commit(t.Context()))
			} else {
				assert.NoError(t, tx.Rollback(t.Context()))
			}
			wg.Wait()
		}
		assert.Len(t, b.list(journal.Filter{}), 2)
	}},
	{"of many transactions that enqueue one name, one does", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		var recorded, ignored atomic.Int64
		sideBySide(16, func(int) {
			tx, err := b.outbox.BeginTx(t.Context())
			if !assert.NoError(t, err) {
				return
			}
			result, err := b.outbox.EnqueueTx(t.Context(), tx, b.enqueueEvent("a"))
			assert.NoError(t, err)
			if result.Decision == machine.Recorded {
				recorded.Add(1)
			} else {
				assert.Equal(t, machine.Ignored, result.Decision)
				ignored.Add(1)
			}
			assert.NoError(t, tx.Commit(t.Context()))
		})
		assert.EqualValues(t, 1, recorded.Load())
		assert.EqualValues(t, 15, ignored.Load())
		assert.Len(t, b.list(journal.Filter{}), 1)
	}},
	{"an outcome and the handler's writes are one commit, once", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		op := b.complete(b.hold("a"))
		next := b.enqueueEvent("what it leads to")
		failing := errors.New("the handler fails")
		handle := func(err error) func(context.Context, journal.Tx) error {
			return func(ctx context.Context, tx journal.Tx) error {
				b.in(tx, next, machine.Recorded)
				return err
			}
		}
		_, err := b.deliver(b.deliveryOf(op), handle(failing))
		require.Same(t, failing, err)
		b.lacks("what it leads to")
		assert.False(t, b.get(op.Ref).Delivered)
		assert.PanicsWithValue(t, "the handler panics", func() {
			_, _ = b.deliver(b.deliveryOf(op), func(_ context.Context, tx journal.Tx) error {
				b.in(tx, next, machine.Recorded)
				panic("the handler panics")
			})
		})
		b.lacks("what it leads to")
		assert.False(t, b.get(op.Ref).Delivered)

		decision, err := b.deliver(b.deliveryOf(op), handle(nil))
		require.NoError(t, err)
		assert.Equal(t, machine.Recorded, decision)
		assert.True(t, b.get(op.Ref).Delivered, "at once")
		b.get(named("what it leads to"))

		decision, err = b.deliver(b.deliveryOf(op), func(context.Context, journal.Tx) error {
			assert.Fail(t, "it was delivered before")
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, machine.Ignored, decision)
	}},
	{"an outcome that was followed by another is not delivered", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		op := b.hold("a")
		unknown := b.decide(b.of(machine.EventMarkUnknown, op), machine.Recorded)
		completed := b.complete(op)
		decision, err := b.deliver(b.deliveryOf(unknown), func(context.Context, journal.Tx) error {
			assert.Fail(t, "it is not unknown any more")
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, machine.Ignored, decision)
		told := 0
		decision, err = b.deliver(b.deliveryOf(completed), func(context.Context, journal.Tx) error { told++; return nil })
		require.NoError(t, err)
		assert.Equal(t, machine.Recorded, decision)
		assert.Equal(t, 1, told)
	}},
	{"of many that deliver one outcome, one does", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		outboxes := []machine.Outbox{b.outbox}
		if h.Open != nil {
			outboxes = append(outboxes, h.Open(t).(machine.Outbox))
		}
		op := b.complete(b.hold("a"))
		var told, recorded atomic.Int64
		sideBySide(16, func(i int) {
			result, err := outboxes[i%len(outboxes)].DeliverTx(t.Context(), b.deliveryOf(op), func(context.Context, journal.Tx) error {
				told.Add(1)
				return nil
			})
			assert.NoError(t, err)
			if result.Decision == machine.Recorded {
				recorded.Add(1)
			}
		})
		assert.EqualValues(t, 1, told.Load())
		assert.EqualValues(t, 1, recorded.Load())
	}},
	{"transactions of other databases, and of a closed journal, are refused", func(t *testing.T, h Harness) {
		b := newBox(t, h)
		for _, tx := range []journal.Tx{nil, stranger{}} {
			_, err := b.outbox.EnqueueTx(t.Context(), tx, b.enqueueEvent("a"))
			require.Error(t, err)
		}
		tx := b.tx()
		b.in(tx, b.enqueueEvent("a"), machine.Recorded)
		require.NoError(t, tx.Commit(t.Context()))
		_, err := b.outbox.EnqueueTx(t.Context(), tx, b.enqueueEvent("b"))
		require.Error(t, err, "it is over")
		b.lacks("b")

		ended, end := context.WithCancel(t.Context())
		end()
		_, err = b.outbox.BeginTx(ended)
		require.ErrorIs(t, err, context.Canceled)
		_, err = b.outbox.DeliverTx(ended, b.deliveryOf(b.get(named("a"))), nil)
		require.ErrorIs(t, err, context.Canceled)
		for _, ev := range []machine.Event{{Kind: machine.EventDeliver}, b.event(machine.EventComplete)} {
			_, err = b.deliver(ev, nil)
			var refused *machine.EventError
			require.ErrorAs(t, err, &refused)
		}
		require.NoError(t, h.Journal.Close())
		_, err = b.outbox.BeginTx(t.Context())
		require.ErrorIs(t, err, journal.ErrClosed)
		_, err = b.deliver(b.event(machine.EventDeliver), nil)
		require.ErrorIs(t, err, journal.ErrClosed)
	}},
	{"a journal that was restored takes nothing into its outbox", func(t *testing.T, h Harness) {
		newBox(t, h)
		if h.Restored == nil {
			t.Skip("the store can't tell that it was restored")
		}
		outbox := h.Restored(t).(machine.Outbox)
		tx, err := outbox.BeginTx(t.Context())
		require.NoError(t, err)
		ev := machine.Event{Kind: machine.EventEnqueue, Ref: named("a"), At: noon, Intent: intent(named("a"), journal.Named)}
		_, err = outbox.EnqueueTx(t.Context(), tx, ev)
		require.ErrorIs(t, err, journal.ErrRestored)
		require.NoError(t, tx.Rollback(t.Context()))
	}},
}

// stranger is a transaction of no journal.
type stranger struct{}

func (stranger) Driver() any                    { return nil }
func (stranger) Commit(context.Context) error   { return nil }
func (stranger) Rollback(context.Context) error { return nil }
