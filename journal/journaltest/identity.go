package journaltest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

var identityTests = []test{
	{"scope, parent and ID are never concatenated", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		refs := []journal.Ref{
			{Scope: "a", Parent: "", ID: "b|c"},
			{Scope: "a|b", Parent: "", ID: "c"},
			{Scope: "a", Parent: "b", ID: "c"},
			{Scope: "", Parent: "a", ID: "b|c"},
			{Scope: "", Parent: "a|b", ID: "c"},
			{Scope: "", Parent: "", ID: "a|b|c"},
			{Scope: "b|c", Parent: "a", ID: ""},
			{Scope: "a\x00b", Parent: "", ID: "c"},
			{Scope: "a", Parent: "", ID: "\x00bc"},
			{Scope: "a", Parent: "\x00b", ID: "c"},
			{Scope: "A", Parent: "b", ID: "c"},
		}
		handles := map[int64]journal.Ref{}
		for _, ref := range refs {
			op := c.begin(ref)
			assert.NotContains(t, handles, op.Handle)
			handles[op.Handle] = ref
		}
		for handle, ref := range handles {
			got := c.get(ref)
			assert.Equal(t, ref, got.Ref)
			assert.Equal(t, handle, got.Handle)
		}
	}},
	{"IDs are bytes, kept as they are", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		for _, id := range []string{"rechnung-991/größe", "snowman ☃", "caf\u00e9", "cafe\u0301", "line\nbreak", "\xff\xfe", "' OR 1=1 --", "nul\x00nul", "nul\x00other"} {
			c.complete(c.begin(named(id)))
			op := c.decide(c.beginEvent(named(id)), machine.Replay)
			assert.Equal(t, id, op.ID)
			assert.Equal(t, "key-of-"+id, c.get(named(id)).Key)
		}
	}},
	{"a generated ID is found in every state", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		open := c.generate("5c7f2a0e-open")
		assert.Equal(t, open.Handle, c.get(open.Ref).Handle)
		settled := c.completeDelivered(c.generate("5c7f2a0e-settled"))
		got := c.get(settled.Ref)
		assert.Equal(t, settled.Handle, got.Handle)
		assert.Equal(t, journal.StateCompleted, got.State)
		unknown := c.generate("5c7f2a0e-unknown")
		c.decide(c.of(machine.EventMarkUnknown, unknown), machine.Recorded)
		assert.Equal(t, journal.StateUnknown, c.get(unknown.Ref).State)

		_, err := h.Journal.Get(t.Context(), named("5c7f2a0e-none"))
		require.ErrorIs(t, err, journal.ErrNotFound)
		_, err = h.Journal.Get(t.Context(), journal.Ref{Scope: "tenant", ID: "5c7f2a0e-open"})
		require.ErrorIs(t, err, journal.ErrNotFound)
	}},
	{"a generated ID that is asked for again never executes twice at once", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		ask := func(key string) machine.Event {
			ev := c.beginEvent(named(key))
			ev.Intent = intent(named(key), journal.Carried)
			return ev
		}
		c.generate("open")
		c.decide(ask("open"), machine.Wait)
		c.completeDelivered(c.generate("settled"))
		c.decide(ask("settled"), machine.Replay)
		c.completeDelivered(c.generate("seen before its end"))
		c.decide(ask("seen before its end"), machine.Replay)
	}},
	{"many generated IDs are all found, also by the next process", func(t *testing.T, h Harness) {
		const many = 900 // names on several pages of an index
		c := newCaller(t, h.Journal)
		handles := make([]int64, many)
		sideBySide(many, func(i int) {
			op := c.generate(keyNumber(i))
			if i%3 == 0 {
				c.completeDelivered(op)
			}
			handles[i] = op.Handle
		})
		check := func() {
			for i := 0; i < many; i += 41 {
				key := keyNumber(i)
				assert.Equal(t, handles[i], c.get(named(key)).Handle)
				_, err := c.journal.Get(t.Context(), named(key+"x"))
				assert.ErrorIs(t, err, journal.ErrNotFound)
			}
		}
		check()
		if h.Reopen == nil {
			return
		}
		c.journal = h.Reopen(t)
		check()
	}},
	{"an operation is found by handle, and not by another's", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		a, b := c.begin(named("a")), c.begin(named("b"))
		ev := c.completeEvent(a)
		ev.Ref = journal.Ref{}
		assert.Equal(t, "a", c.decide(ev, machine.Recorded).ID)

		ev = c.completeEvent(b)
		ev.Handle = a.Handle // as after a mix-up of journals
		assert.Equal(t, "b", c.decide(ev, machine.Recorded).ID)
		assert.Equal(t, journal.StateCompleted, c.get(named("b")).State)
	}},
	{"a handle is never used again", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		removed := c.completeDelivered(c.generate("removed"))
		c.pass(noon.Add(25 * time.Hour))
		c.decide(c.of(machine.EventReap, removed), machine.Recorded)
		assert.NotEqual(t, removed.Handle, c.generate("next").Handle)
		if h.Reopen == nil {
			return
		}
		last := c.completeDelivered(c.generate("last"))
		c.pass(noon.Add(50 * time.Hour))
		c.decide(c.of(machine.EventReap, last), machine.Recorded)
		c = newCaller(t, h.Reopen(t))
		assert.Greater(t, c.generate("after").Handle, last.Handle)
	}},
}
