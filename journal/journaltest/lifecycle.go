package journaltest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

var lifecycleTests = []test{
	{"a first begin executes and can be read", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		op := c.begin(named("invoice-1"))
		assert.NotZero(t, op.Handle)
		assert.EqualValues(t, 1, op.Claim)
		assert.Equal(t, c.session.ID(), op.Holder)
		assert.Equal(t, journal.StateInFlight, op.State)

		got := c.get(named("invoice-1"))
		assert.Equal(t, op.Handle, got.Handle)
		assert.Equal(t, journal.StateInFlight, got.State)
		assert.True(t, got.MayHaveRun, "a claim counts as sent")
		assert.Equal(t, noon, got.FirstSentAt)
		assert.Equal(t, []byte(`{"amount":100}`), got.Request.Body)
	}},
	{"a completed operation is replayed with its body", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.complete(c.begin(named("invoice-1")))
		op := c.decide(c.beginEvent(named("invoice-1")), machine.Replay)
		require.NotNil(t, op.Answer)
		assert.Equal(t, []byte(`{"paid":true}`), op.Answer.Body)
		assert.Equal(t, 1, op.Attempts)
	}},
	{"a begin waits for an operation that a live claim holds", func(t *testing.T, h Harness) {
		c, other := newCaller(t, h.Journal), newCaller(t, h.Journal)
		c.begin(named("invoice-1"))
		other.decide(other.beginEvent(named("invoice-1")), machine.Wait)
		c.decide(c.beginEvent(named("invoice-1")), machine.Wait)
	}},
	{"a parked operation decides Later before it is due, and executes then", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		op := c.park(c.begin(named("invoice-1")), noon.Add(time.Minute))
		assert.Equal(t, journal.StatePending, op.State)
		assert.Empty(t, op.Holder)
		op = c.decide(c.beginEvent(named("invoice-1")), machine.Later)
		assert.Equal(t, noon.Add(time.Minute), op.DueAt)
		c.now = noon.Add(time.Minute)
		op = c.decide(c.beginEvent(named("invoice-1")), machine.Execute)
		assert.EqualValues(t, 2, op.Claim)
		assert.Equal(t, []byte(`{"amount":100}`), op.Request.Body)
	}},
	{"another request under the same ID is a misuse", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.complete(c.begin(named("invoice-1")))
		ev := c.beginEvent(named("invoice-1"))
		ev.Intent.Fingerprint = "v1:other"
		c.decide(ev, machine.Misuse)
	}},
	{"the asker decides whether the request is the same", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.complete(c.begin(named("invoice-1")))
		ev := c.beginEvent(named("invoice-1"))
		recorded := ev.Intent.Fingerprint
		ev.Intent.Fingerprint = "v1:salted anew"
		ev.Intent.Same = func(fingerprint string) bool { return fingerprint == recorded }
		c.decide(ev, machine.Replay)
		ev.Intent.Same = func(string) bool { return false }
		c.decide(ev, machine.Misuse)
	}},
	{"an unknown operation decides Stop", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.decide(c.of(machine.EventMarkUnknown, c.begin(named("invoice-1"))), machine.Recorded)
		op := c.decide(c.beginEvent(named("invoice-1")), machine.Stop)
		assert.Equal(t, journal.StateUnknown, op.State)
	}},
	{"a reaped operation decides Gone", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		op := c.completeDelivered(c.begin(named("invoice-1")))
		c.pass(noon.Add(48 * time.Hour))
		c.decide(c.of(machine.EventReap, op), machine.Recorded)
		c.decide(c.beginEvent(named("invoice-1")), machine.Gone)
	}},
	{"a cancelled operation executes again under its key, or as the next generation for another request", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		cancel := c.of(machine.EventCancel, c.begin(named("invoice-1")))
		cancel.Unsent = true
		assert.Equal(t, journal.StateCancelled, c.decide(cancel, machine.Recorded).State)

		op := c.begin(named("invoice-1"))
		assert.Equal(t, 0, op.Generation)
		assert.Equal(t, "key-of-invoice-1", op.Key)
		cancel.Claim = op.Claim
		c.decide(cancel, machine.Recorded)

		ev := c.beginEvent(named("invoice-1"))
		ev.Intent.Fingerprint = "v1:other"
		ev.Intent.Request.Body = []byte("other")
		ev.Intent.NextKey = func(generation int) string { return "second-key" }
		op = c.decide(ev, machine.Execute)
		assert.Equal(t, 1, op.Generation)
		stored := c.get(named("invoice-1"))
		assert.Equal(t, "second-key", stored.Key)
		assert.Equal(t, []byte("other"), stored.Request.Body)
	}},
	{"a result contains the recorded request, whatever the asker sent along", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		sent := []byte(`{"amount":100}`)
		again := func(id string, want machine.Decision) journal.Operation {
			t.Helper()
			ev := c.beginEvent(named(id))
			ev.Intent.Request.Body = []byte("another's") // the fingerprint says that it is the same
			return c.decide(ev, want)
		}
		c.park(c.begin(named("parked")), noon)
		assert.Equal(t, sent, again("parked", machine.Execute).Request.Body, "what was frozen is sent")

		c.complete(c.begin(named("completed")))
		op := again("completed", machine.Replay)
		assert.Equal(t, sent, op.Request.Body)
		assert.Equal(t, []byte(`{"paid":true}`), op.Answer.Body)

		c.decide(c.of(machine.EventMarkUnknown, c.begin(named("unknown"))), machine.Recorded)
		assert.Equal(t, sent, again("unknown", machine.Stop).Request.Body)

		first, second := c.sentAgain("twice")
		c.complete(second)
		late := c.completeEvent(first)
		late.Answer.Body = []byte("late")
		assert.Equal(t, []byte(`{"paid":true}`), c.decide(late, machine.SecondEffect).Answer.Body, "the recorded one")
	}},
	{"a stale claim neither parks nor doubts nor cancels", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		first := c.begin(named("invoice-1"))
		c.park(first, noon)
		second := c.begin(named("invoice-1"))
		for _, kind := range []machine.EventKind{machine.EventPark, machine.EventMarkUnknown, machine.EventCancel} {
			c.decide(c.of(kind, first), machine.Stale)
		}
		assert.Equal(t, second.Claim, c.get(named("invoice-1")).Claim)
		assert.Equal(t, journal.StateInFlight, c.get(named("invoice-1")).State)
	}},
	{"a late answer of an older claim completes, and the second one gets the first", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		first := c.begin(named("invoice-1"))
		c.park(first, noon)
		second := c.begin(named("invoice-1"))
		c.complete(first)
		ev := c.completeEvent(second)
		ev.Answer.Body = []byte("another")
		op := c.decide(ev, machine.Replay)
		assert.Equal(t, []byte(`{"paid":true}`), op.Answer.Body)
		assert.Equal(t, []byte(`{"paid":true}`), c.get(named("invoice-1")).Answer.Body)
	}},
	{"an answer of an earlier generation beside a newer one is a second effect", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		first, second := c.sentAgain("invoice-1")
		assert.Equal(t, 1, second.Generation)
		assert.Equal(t, "second-key", second.Key)
		op := c.decide(c.completeEvent(first), machine.SecondEffect)
		assert.Equal(t, 1, op.SecondEffects)
		assert.Equal(t, 1, c.get(named("invoice-1")).SecondEffects)
		c.complete(second)
		assert.Equal(t, []string{"invoice-1"}, ids(c.list(journal.Filter{NeedsAttention: c.now})), "both have been answered")
	}},
	{"an answer of an earlier generation after the present one's is for a person to see", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		first, second := c.sentAgain("invoice-1")
		c.completeDelivered(second)
		assert.Empty(t, c.list(journal.Filter{NeedsAttention: c.now}))
		op := c.decide(c.completeEvent(first), machine.SecondEffect)
		assert.Equal(t, 1, op.SecondEffects)
		assert.False(t, op.Delivered, "whoever books outcomes hears of it once more")
		assert.Equal(t, []string{"invoice-1"}, ids(c.list(journal.Filter{NeedsAttention: c.now})))
	}},
	{"an unknown operation is resolved by hand", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		op := c.begin(named("invoice-1"))
		c.decide(c.of(machine.EventMarkUnknown, op), machine.Recorded)
		ev := c.of(machine.EventResolve, op)
		ev.Resolution = journal.Executed
		c.decide(ev, machine.Recorded)
		got := c.get(named("invoice-1"))
		assert.Equal(t, journal.StateCompleted, got.State)
		require.NotNil(t, got.Answer)
		assert.True(t, got.Answer.ByHand)
		assert.True(t, got.Answer.Omitted)
	}},
	{"an answer is supplied afterwards, and the one that it replaces is kept with its body", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		page := []byte(strings.Repeat("<p>something in front of it answered</p>", 200)) // long enough to be compressed
		for name, was := range map[string]journal.Answer{
			"omitted": {Status: 200, Omitted: true}, "cut": {Status: 200, Cut: true, Body: []byte(`{"pa`)}, "foreign": {Status: 200, Body: page},
		} {
			ev := c.completeEvent(c.begin(named(name)))
			ev.Answer = &was
			c.decide(ev, machine.Recorded)
			supply := c.of(machine.EventResolve, c.get(named(name)))
			supply.Resolution, supply.Unrecognised = journal.Executed, name == "foreign"
			supply.Answer = &journal.Answer{Status: 201, Body: []byte(`{"paid":true}`)}
			c.decide(supply, machine.Recorded)
			got := c.get(named(name))
			require.NotNil(t, got.Answer)
			assert.Equal(t, []byte(`{"paid":true}`), got.Answer.Body)
			assert.True(t, got.Answer.ByHand)
			require.NotNil(t, got.Answer.Replaced)
			assert.Equal(t, was.Body, got.Answer.Replaced.Body)
			assert.Equal(t, was.Cut, got.Answer.Replaced.Cut)
			op := c.decide(c.beginEvent(named(name)), machine.Replay)
			assert.Equal(t, got.Answer, op.Answer)
		}
	}},
	{"a begin that waits does not count as a change", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		begin := c.beginEvent(named("invoice-1"))
		c.decide(begin, machine.Execute)
		c.now = noon.Add(time.Minute)
		c.decide(c.beginEvent(named("invoice-1")), machine.Wait)
		assert.Equal(t, noon, c.get(named("invoice-1")).UpdatedAt)
		// A Begin that never learned the claim's number can still be taken back.
		cancel := c.event(machine.EventCancel)
		cancel.Ref, cancel.Asker, cancel.Unsent = named("invoice-1"), begin.Asker, true
		c.decide(cancel, machine.Recorded)
		assert.Equal(t, journal.StateCancelled, c.get(named("invoice-1")).State)
	}},
	{"an event that can't happen is refused and changes nothing", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.begin(named("invoice-1"))
		before := c.get(named("invoice-1"))
		for name, ev := range map[string]machine.Event{
			"no such kind":            {Kind: 99, Ref: named("invoice-1"), At: noon},
			"complete without answer": {Kind: machine.EventComplete, Ref: named("invoice-1"), At: noon, Claim: 1},
			"complete of a claim to come": {Kind: machine.EventComplete, Ref: named("invoice-1"), At: noon, Claim: 2,
				Answer: &journal.Answer{}},
			"complete of nothing":   {Kind: machine.EventComplete, Ref: named("none"), At: noon, Claim: 1, Answer: &journal.Answer{}},
			"resolve of nothing":    {Kind: machine.EventResolve, Ref: named("none"), At: noon, Resolution: journal.Executed},
			"begin without intent":  {Kind: machine.EventBegin, Ref: named("none"), At: noon, Session: c.session.ID()},
			"without asker's clock": {Kind: machine.EventMarkUnknown, Ref: named("invoice-1"), Claim: 1, Session: c.session.ID()},
			"unsent and yet open":   {Kind: machine.EventPark, Ref: named("invoice-1"), At: noon, Claim: 1, Open: true, Unsent: true},
			"no kind":               {Ref: named("invoice-1"), At: noon},
		} {
			_, err := h.Journal.Apply(t.Context(), ev)
			var refused *machine.EventError
			assert.ErrorAs(t, err, &refused, name)
			assert.ErrorIs(t, err, journal.ErrInvalidEvent, name)
		}
		assert.Equal(t, before, c.get(named("invoice-1")))
		_, err := h.Journal.Get(t.Context(), named("none"))
		assert.ErrorIs(t, err, journal.ErrNotFound)
	}},
	{"a delivery goes with the next commit", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		op := c.complete(c.begin(named("invoice-1")))
		assert.False(t, op.Delivered)
		assert.Equal(t, c.session.ID(), op.Holder)
		c.apply(c.of(machine.EventDeliver, op))
		c.flush()
		got := c.get(named("invoice-1"))
		assert.True(t, got.Delivered)
		assert.Empty(t, got.Holder)
	}},
	{"a delivery is flushed by the end of its session", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		op := c.complete(c.begin(named("invoice-1")))
		c.apply(c.of(machine.EventDeliver, op))
		require.NoError(t, c.session.End(t.Context()))
		assert.True(t, c.get(named("invoice-1")).Delivered)
	}},
	{"a delivery is flushed by Close", func(t *testing.T, h Harness) {
		if h.Reopen == nil {
			t.Skip("the store keeps nothing")
		}
		c := newCaller(t, h.Journal)
		op := c.complete(c.begin(named("invoice-1")))
		c.apply(c.of(machine.EventDeliver, op))
		require.NoError(t, h.Journal.Close())
		c.journal = h.Reopen(t)
		assert.True(t, c.get(named("invoice-1")).Delivered)
	}},
	{"everything is there after the journal was closed and opened", func(t *testing.T, h Harness) {
		if h.Reopen == nil {
			t.Skip("the store keeps nothing")
		}
		c := newCaller(t, h.Journal)
		c.complete(c.begin(named("completed")))
		c.park(c.begin(named("pending")), noon.Add(time.Hour))
		c.decide(c.of(machine.EventMarkUnknown, c.begin(named("unknown"))), machine.Recorded)
		c.generate("generated")
		before := map[string]journal.Operation{}
		for _, id := range []string{"completed", "pending", "unknown", "generated"} {
			before[id] = c.get(named(id))
		}
		c.journal = h.Reopen(t)
		for id, op := range before {
			assert.Equal(t, op, c.get(named(id)), id)
		}
	}},
	{"an ended context is reported, and loses nothing", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		op := c.begin(named("invoice-1"))
		done, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := h.Journal.Apply(done, c.beginEvent(named("invoice-2")))
		assert.ErrorIs(t, err, context.Canceled)
		_, err = h.Journal.Get(done, named("invoice-1"))
		assert.ErrorIs(t, err, context.Canceled)
		_, err = h.Journal.Claim(done, c.event(machine.EventClaim), 1)
		assert.ErrorIs(t, err, context.Canceled)
		reap := c.event(machine.EventReap)
		_, err = h.Journal.Reap(done, reap, 1)
		assert.ErrorIs(t, err, context.Canceled)
		_, err = h.Journal.Join(done)
		assert.ErrorIs(t, err, context.Canceled)
		for _, err := range h.Journal.List(done, journal.Filter{}) {
			assert.ErrorIs(t, err, context.Canceled)
		}
		c.complete(op)
	}},
	{"a closed journal returns ErrClosed", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		op := c.begin(named("invoice-1"))
		require.NoError(t, c.session.End(t.Context()))
		require.NoError(t, h.Journal.Close())
		for _, ev := range []machine.Event{c.completeEvent(op), c.of(machine.EventDeliver, op)} {
			_, err := h.Journal.Apply(t.Context(), ev)
			assert.ErrorIs(t, err, journal.ErrClosed)
		}
		_, err := h.Journal.Get(t.Context(), named("invoice-1"))
		assert.ErrorIs(t, err, journal.ErrClosed)
		_, err = h.Journal.Claim(t.Context(), c.event(machine.EventClaim), 1)
		assert.ErrorIs(t, err, journal.ErrClosed)
		_, err = h.Journal.Reap(t.Context(), c.event(machine.EventReap), 1)
		assert.ErrorIs(t, err, journal.ErrClosed)
		_, err = h.Journal.Join(t.Context())
		assert.ErrorIs(t, err, journal.ErrClosed)
		seen := 0
		for _, err := range h.Journal.List(t.Context(), journal.Filter{}) {
			assert.ErrorIs(t, err, journal.ErrClosed)
			seen++
		}
		assert.Equal(t, 1, seen)
		assert.ErrorIs(t, h.Journal.Close(), journal.ErrClosed)
	}},
}
