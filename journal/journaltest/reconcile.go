package journaltest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// reconciling makes a test for a store with a Reconciler. Other stores skip the test.
func reconciling(name string, run func(t *testing.T, h Harness, c *caller, r machine.Reconciler)) test {
	return test{name, func(t *testing.T, h Harness) {
		r, ok := h.Journal.(machine.Reconciler)
		if !ok {
			t.Skip("the store looks for nothing")
		}
		run(t, h, newCaller(t, h.Journal), r)
	}}
}

// unknown begins an operation with a client's reference and leaves the operation in doubt.
func (c *caller) unknown(id string) journal.Operation {
	c.t.Helper()
	ev := c.beginEvent(named(id))
	ev.Intent.Reference, ev.Intent.ReferenceName, ev.Intent.ReferenceOurs = "ref-of-"+id, "form metadata[onceward]", true
	ev.Intent.Compare = []journal.Field{{Name: "amount", Value: "100"}}
	doubt := c.of(machine.EventMarkUnknown, c.decide(ev, machine.Execute))
	doubt.Attempts, doubt.Account, doubt.Cause = 1, "acct_1", "no answer"
	return c.decide(doubt, machine.Recorded)
}

// took returns evidence by key: the operation made the object.
func (c *caller) took(op journal.Operation, object string) machine.Event {
	ev := c.of(machine.EventEvidence, op)
	ev.Session, ev.Account, ev.Object = "", "acct_1", object
	ev.Evidence = &journal.Evidence{Source: journal.SourceEvent, Finding: journal.FindingTookEffect, Basis: journal.BasisKey, Digest: "d", Rule: "r"}
	ev.Answer = &journal.Answer{Status: 200, Header: map[string][]string{"Request-Id": {"req_9"}}, Body: []byte(`{"id":"` + object + `"}`)}
	return ev
}

func (c *caller) looks(r machine.Reconciler, lease time.Duration, limit int) []machine.Result {
	c.t.Helper()
	ev := machine.Event{Kind: machine.EventLook, At: c.now, Due: c.now.Add(lease)}
	results, err := r.Looks(c.t.Context(), ev, limit)
	require.NoError(c.t, err)
	for _, result := range results {
		require.Equal(c.t, machine.Look, result.Decision)
	}
	return results
}

func (c *caller) hear(r machine.Reconciler, id string, evs ...machine.Event) (results []machine.Result, first bool) {
	c.t.Helper()
	results, first, err := r.RecordEvent(c.t.Context(), machine.Heard{Provider: "ledger", Account: "acct_1", ID: id}, evs)
	require.NoError(c.t, err)
	return results, first
}

// found returns the operations with the value, and their generations.
func (c *caller) found(r machine.Reconciler, by machine.By, value string) map[string]int {
	c.t.Helper()
	matches, err := r.FindBy(c.t.Context(), "ledger", by, value)
	require.NoError(c.t, err)
	generations := map[string]int{}
	for _, m := range matches {
		assert.Nil(c.t, m.Operation.Request.Body)
		generations[m.Operation.ID] = m.Generation
	}
	return generations
}

// nothing returns the evidence of a program's own look-up without an object.
func (c *caller) nothing(op journal.Operation) machine.Event {
	ev := c.of(machine.EventEvidence, op)
	ev.Account, ev.Due = "acct_1", c.now.Add(2*time.Hour)
	ev.Evidence = &journal.Evidence{Source: journal.SourceHook, Finding: journal.FindingAbsent, Basis: journal.BasisPerson}
	ev.Absence = &machine.Absence{Began: c.now, Handling: time.Minute}
	return ev
}

// handled states a handling time, after which an absence counts.
var handled = journal.Terms{Remembers: stripeLike.Remembers, Retention: stripeLike.Retention, Guard: true, Handling: time.Minute}

// absent makes an operation after an absence by the program's own look-up.
func (c *caller) absent(id string) journal.Operation {
	c.t.Helper()
	ev := c.beginEvent(named(id))
	ev.Intent.Terms, ev.Intent.Reference, ev.Intent.ReferenceOurs = handled, "ref-of-"+id, true
	doubt := c.of(machine.EventMarkUnknown, c.decide(ev, machine.Execute))
	doubt.Account = "acct_1"
	op := c.decide(doubt, machine.Recorded)
	c.now = c.now.Add(2 * time.Hour)
	op = c.decide(c.nothing(op), machine.Recorded)
	require.Equal(c.t, journal.StateCancelled, op.State)
	return op
}

var reconcileTests = []test{
	reconciling("an unknown operation is due for a look-up, by one process at a time, until the lease passes", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		c.complete(c.begin(named("completed")))
		c.unknown("first")
		c.now = c.now.Add(time.Second)
		c.unknown("second")
		assert.Equal(t, []string{"first"}, claimed(c.looks(r, time.Minute, 1)))
		results := c.looks(r, time.Minute, 10)
		require.Equal(t, []string{"second"}, claimed(results))
		assert.Equal(t, []byte(`{"amount":100}`), results[0].Operation.Request.Body, "it is whole")
		assert.Equal(t, 1, results[0].Operation.Looks)
		assert.Empty(t, c.looks(r, time.Minute, 10))
		c.now = c.now.Add(time.Minute)
		assert.Equal(t, []string{"first", "second"}, claimed(c.looks(r, time.Minute, 10)), "who looked may be dead")
	}),
	reconciling("an operation whose answer was cut off is looked for by whoever asks, and keeps what was found", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		complete := c.completeEvent(c.begin(named("cut")))
		complete.Answer = &journal.Answer{Status: 201, Cut: true, Body: []byte(`{"i`)}
		op := c.decide(complete, machine.Recorded)
		assert.Empty(t, c.looks(r, time.Minute, 10), "nobody looks for it unasked")
		look := machine.Event{Kind: machine.EventLook, Ref: op.Ref, Handle: op.Handle, At: c.now, Due: c.now.Add(time.Minute)}
		c.decide(look, machine.Ignored)
		look.Asked = true
		op = c.decide(look, machine.Look)
		assert.Equal(t, journal.StateCompleted, op.State)
		assert.Equal(t, "POST", op.Request.Method, "it is whole")
		c.decide(look, machine.Later)
		found := c.took(op, "payment p-1")
		found.Answer = &journal.Answer{Status: 200, Body: []byte(`{"id":"p-1"}`), Pointer: "p-1"}
		c.decide(found, machine.Recorded)
		got := c.get(op.Ref)
		assert.Equal(t, "payment p-1", got.Object)
		assert.Zero(t, got.SecondEffects)
		want := &journal.Answer{Status: 200, Body: []byte(`{"id":"p-1"}`), Pointer: "p-1", Found: true, Replaced: complete.Answer}
		assert.Equal(t, want, got.Answer)
		assert.Equal(t, want, c.decide(c.beginEvent(op.Ref), machine.Replay).Answer)
		look.At = c.now.Add(time.Hour)
		c.decide(look, machine.Ignored)
		assert.Equal(t, "cut", ids(c.list(journal.Filter{States: []journal.State{journal.StateCompleted}}))[0])
	}),
	reconciling("a completed operation whose answer is missing is looked for by a caller, and a later answer of its own fills it in", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		body := []byte(`{"id":"p-1"}`)
		for name, complete := range map[string]func(journal.Operation) (was *journal.Answer){
			"found": func(op journal.Operation) *journal.Answer {
				c.decide(c.of(machine.EventMarkUnknown, op), machine.Recorded)
				event := c.took(op, "payment p-1")
				event.Answer = nil
				c.decide(event, machine.Recorded)
				return nil
			},
			"secret": func(op journal.Operation) *journal.Answer {
				ev := c.completeEvent(op)
				ev.Answer = &journal.Answer{Status: 201, Omitted: true}
				c.decide(ev, machine.Recorded)
				return ev.Answer
			},
			"cut": func(op journal.Operation) *journal.Answer {
				ev := c.completeEvent(op)
				ev.Answer = &journal.Answer{Status: 201, Cut: true, Body: []byte(`{"i`)}
				c.decide(ev, machine.Recorded)
				return ev.Answer
			},
		} {
			op := c.begin(named(name))
			was := complete(op)
			look := machine.Event{Kind: machine.EventLook, Ref: op.Ref, Handle: op.Handle, At: c.now, Due: c.now.Add(time.Minute), Asked: true}
			c.decide(look, machine.Look)
			c.decide(look, machine.Later)
			late := c.completeEvent(op)
			late.Answer = &journal.Answer{Status: 201, Body: body, Pointer: name}
			c.decide(late, machine.Recorded)
			got := c.get(op.Ref)
			want := &journal.Answer{Status: 201, Body: body, Pointer: name, Replaced: was}
			assert.Equal(t, want, got.Answer, name)
			assert.Equal(t, want, c.decide(c.beginEvent(op.Ref), machine.Replay).Answer, name)
			late.Answer = &journal.Answer{Status: 201, Body: []byte("another")}
			c.decide(late, machine.Replay)
			c.decide(look, machine.Ignored)
			c.now = c.now.Add(time.Hour)
		}
	}),
	reconciling("an answer that contradicts what was found does not fill it in", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		op := c.begin(named("invoice-1"))
		c.decide(c.of(machine.EventMarkUnknown, op), machine.Recorded)
		event := c.took(op, "payment p-1")
		event.Answer = nil
		c.decide(event, machine.Recorded)
		late := c.completeEvent(op)
		late.Answer = &journal.Answer{Status: 402, Refused: true, Body: []byte("{}")}
		c.decide(late, machine.Contradicted)
		got := c.get(op.Ref)
		assert.True(t, got.Answer.Omitted)
		assert.False(t, got.Answer.Refused)
		assert.NotEmpty(t, got.Attention)
		assert.Equal(t, []string{"invoice-1"}, ids(c.list(journal.Filter{NeedsAttention: c.now})))
	}),
	reconciling("a look-up by a dead session is due again after a claim", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		op := c.unknown("one")
		c.decide(machine.Event{Kind: machine.EventDeliver, Ref: op.Ref, Handle: op.Handle, At: c.now}, machine.Recorded)
		other := newCaller(t, c.journal)
		look := machine.Event{Kind: machine.EventLook, At: c.now, Due: c.now.Add(time.Hour), Looker: other.session.ID()}
		results, err := r.Looks(t.Context(), look, 10)
		require.NoError(t, err)
		require.Equal(t, []string{"one"}, claimed(results))
		claims := c.event(machine.EventClaim)
		claims.Looking, claims.LookAfter = true, time.Minute
		results, err = c.journal.Claim(t.Context(), claims, 10)
		require.NoError(t, err)
		assert.Empty(t, results)
		require.NoError(t, other.session.End(t.Context()))
		results, err = c.journal.Claim(t.Context(), claims, 10)
		require.NoError(t, err)
		assert.Equal(t, []string{"one"}, claimed(results))
		assert.Empty(t, c.looks(r, time.Hour, 10))
		c.now = c.now.Add(time.Minute)
		assert.Equal(t, []string{"one"}, claimed(c.looks(r, time.Hour, 10)))
	}),
	reconciling("a look-up that was not made is given back", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		c.unknown("one")
		results := c.looks(r, time.Hour, 10)
		require.Len(t, results, 1)
		require.Empty(t, c.looks(r, time.Hour, 10))
		op := results[0].Operation
		op = c.decide(machine.Event{Kind: machine.EventLook, Ref: op.Ref, Handle: op.Handle, At: c.now, Due: op.LookAt, GivesBack: true}, machine.Recorded)
		assert.Zero(t, op.Looks)
		assert.Equal(t, []string{"one"}, claimed(c.looks(r, time.Hour, 10)))
	}),
	reconciling("look-ups are limited to the requested providers", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		c.unknown("one")
		ev := machine.Event{Kind: machine.EventLook, At: c.now, Due: c.now.Add(time.Minute), From: []string{"bank"}}
		results, err := r.Looks(t.Context(), ev, 10)
		require.NoError(t, err)
		assert.Empty(t, results)
		ev.From = []string{"bank", "ledger"}
		results, err = r.Looks(t.Context(), ev, 10)
		require.NoError(t, err)
		assert.Len(t, results, 1)
	}),
	reconciling("an operation that needs attention is listed, and is due for a look-up only after a hint", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		op := c.unknown("one")
		inconclusive := c.of(machine.EventEvidence, op)
		inconclusive.Attention = "403: needs reporting"
		inconclusive.Evidence = &journal.Evidence{Source: journal.SourceLook, Status: 403, Finding: journal.FindingInconclusive, Why: "403"}
		op = c.decide(inconclusive, machine.Recorded)
		assert.Equal(t, "403: needs reporting", op.Attention)
		assert.Empty(t, c.looks(r, time.Minute, 10))
		c.unknown("unplanned") // by a client that looks for nothing
		assert.Equal(t, []string{"one", "unplanned"}, ids(c.list(journal.Filter{NeedsAttention: c.now})))
		c.now = c.now.Add(time.Minute)
		_, first := c.hear(r, "evt_1", machine.Event{Kind: machine.EventHint, Ref: op.Ref, At: c.now})
		assert.True(t, first)
		assert.Equal(t, []string{"unplanned"}, ids(c.list(journal.Filter{NeedsAttention: c.now})))
		overdue := c.now.Add(journal.AttentionAfter)
		assert.Equal(t, []string{"one", "unplanned"}, ids(c.list(journal.Filter{NeedsAttention: overdue})))
		assert.ElementsMatch(t, []string{"one", "unplanned"}, claimed(c.looks(r, time.Minute, 10)))
		assert.Empty(t, c.list(journal.Filter{NeedsAttention: c.now}), "they are looked for")
	}),
	reconciling("a process that looks up operations is offered an unknown one that needs attention", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		op := c.unknown("dead")
		c.unknown("alive")
		dead := c.of(machine.EventEvidence, op)
		dead.Attention, dead.Evidence = "nothing can look", &journal.Evidence{Finding: journal.FindingInconclusive}
		c.decide(dead, machine.Recorded)
		require.NoError(t, c.session.End(t.Context()))
		c.session = newCaller(t, c.journal).session
		claim := func(looking bool) []string {
			ev := c.event(machine.EventClaim)
			ev.Looking = looking
			results, err := c.journal.Claim(t.Context(), ev, 10)
			require.NoError(t, err)
			return claimed(slices.DeleteFunc(results, func(res machine.Result) bool { return res.Decision != machine.Offer }))
		}
		assert.Equal(t, []string{"dead"}, claim(true))
		assert.Equal(t, []string{"alive"}, claim(false), "who does not look is offered it at once")
	}),
	reconciling("an object with a kind and one without are one object, and prove one operation", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		for i, row := range []struct {
			first, second string
			one           bool
		}{
			{"object ch_1", "charge ch_1", true}, {"charge ch_2", "object ch_2", true}, {"charge ch_3", "charge ch_3", true},
			{"charge 4", "refund 4", false}, {"object ch 5", "charge ch 5", true}, {"object 6", "object 7", false},
		} {
			for _, answered := range []bool{true, false} {
				name := fmt.Sprintf("%d %t ", i, answered)
				first, second := fmt.Sprint(row.first, answered), fmt.Sprint(row.second, answered)
				if answered { // by its own answer
					begin := c.beginEvent(named(name + "first"))
					complete := c.completeEvent(c.decide(begin, machine.Execute))
					complete.Object, complete.Account, complete.Delivered = first, "acct_1", true
					c.decide(complete, machine.Recorded)
				} else { // by evidence
					c.hear(r, name+"a", c.took(c.unknown(name+"first"), first))
				}
				for _, filled := range []bool{false, true} {
					if filled && h.Reopen != nil {
						require.NoError(t, c.session.End(t.Context()))
						h.Journal = h.Reopen(t)
						c, r = newCaller(t, h.Journal), h.Journal.(machine.Reconciler)
					}
					found := c.found(r, machine.ByObject, second)
					assert.Equal(t, row.one, len(found) == 1, "%s is found by %s", first, second)
				}
				op := c.unknown(name + "second")
				c.hear(r, name+"b", c.took(op, second))
				state := journal.StateUnknown
				if !row.one {
					state = journal.StateCompleted
				}
				assert.Equal(t, state, c.get(op.Ref).State, "%s after %s", second, first)
			}
		}
	}),
	reconciling("evidence of an effect completes an unknown operation, with its answer", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		op := c.unknown("one")
		results, first := c.hear(r, "evt_1", c.took(op, "charge ch_1"))
		assert.True(t, first)
		require.Len(t, results, 1)
		assert.Equal(t, machine.Recorded, results[0].Decision)
		got := c.decide(c.beginEvent(named("one")), machine.Replay)
		require.NotNil(t, got.Answer)
		assert.True(t, got.Answer.Found)
		assert.Equal(t, []byte(`{"id":"charge ch_1"}`), got.Answer.Body)
		assert.Equal(t, "charge ch_1", got.Object)
		require.Len(t, got.Evidence, 1)
		assert.Equal(t, "d", got.Evidence[0].Digest)
		assert.Equal(t, []string{"one"}, claimed(c.claim(10)), "its outcome is offered")
	}),
	reconciling("an event is heard once, and a refused event is not", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		op := c.unknown("one")
		wrong := c.took(op, "charge ch_1")
		wrong.Generation = 5
		heard := machine.Heard{Provider: "ledger", Account: "acct_1", ID: "evt_1"}
		hint := machine.Event{Kind: machine.EventHint, Ref: op.Ref, At: c.now}
		_, _, err := r.RecordEvent(t.Context(), heard, []machine.Event{hint, wrong})
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
		_, first := c.hear(r, "evt_1", c.took(op, "charge ch_1"))
		assert.True(t, first)
		results, first := c.hear(r, "evt_1", c.took(op, "charge ch_2"))
		assert.False(t, first)
		assert.Empty(t, results)
		assert.Equal(t, "charge ch_1", c.get(op.Ref).Object)
		_, first = c.hear(r, "evt_2")
		assert.True(t, first, "what is of nothing here is not remembered")
		_, first = c.hear(r, "evt_2")
		assert.True(t, first)
	}),
	reconciling("an event's evidence about several operations is recorded together", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		one, other := c.unknown("one"), c.unknown("other")
		results, _ := c.hear(r, "evt_1", c.took(one, "charge ch_1"), c.took(other, "charge ch_2"))
		require.Len(t, results, 2)
		for id, object := range map[string]string{"one": "charge ch_1", "other": "charge ch_2"} {
			assert.Equal(t, object, c.get(named(id)).Object)
		}
	}),
	reconciling("an object proves one operation, whichever way the other was proven", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		answered := c.completeEvent(c.begin(named("answered")))
		answered.Object, answered.Account, answered.Delivered = "charge ch_1", "acct_1", true
		c.decide(answered, machine.Recorded)
		found := c.unknown("found")
		c.hear(r, "evt_1", c.took(found, "charge ch_2"))
		held := c.begin(named("held"))
		c.decide(c.took(held, "charge ch_3"), machine.Recorded)
		for i, object := range []string{"charge ch_1", "charge ch_2", "charge ch_3"} {
			op := c.unknown("alike-" + object)
			op = c.decide(c.took(op, object), machine.Recorded)
			assert.Equal(t, journal.StateUnknown, op.State, "%d: %s", i, object)
			assert.Equal(t, journal.FindingAmbiguous, op.Evidence[0].Finding)
			again := c.decide(c.took(op, object), machine.Recorded)
			assert.NotEmpty(t, again.Attention, "twice")
		}
		byHand := c.of(machine.EventResolve, c.unknown("by hand"))
		byHand.Resolution, byHand.Object = journal.Executed, "charge ch_1"
		_, err := h.Journal.Apply(t.Context(), byHand)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
		byHand.Object = "charge ch_4"
		assert.Equal(t, "charge ch_4", c.decide(byHand, machine.Recorded).Object)
		assert.Equal(t, map[string]int{"by hand": 0}, c.found(r, machine.ByObject, "charge ch_4"))
		assert.Equal(t, journal.StateUnknown, c.decide(c.took(c.unknown("alike by hand"), "charge ch_4"), machine.Recorded).State)

		elsewhere := c.unknown("elsewhere")
		ev := c.took(elsewhere, "charge ch_1")
		elsewhere.Account = "acct_1"
		ev.Account = "acct_2"
		c.decide(ev, machine.Ignored)

		late := c.completeEvent(c.begin(named("late")))
		late.Object = "charge ch_2"
		op := c.decide(late, machine.Recorded)
		assert.Equal(t, journal.StateCompleted, op.State, "its own answer stands")
		assert.Empty(t, op.Object)
		assert.NotEmpty(t, op.Attention)
		assert.Contains(t, ids(c.list(journal.Filter{NeedsAttention: c.now})), "late")
	}),
	reconciling("a caller's reference is a mark if no other operation of the account ever had it", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		ref := func(id, reference, account string) journal.Operation {
			ev := c.beginEvent(named(id))
			ev.Intent.Reference, ev.Intent.ReferenceName, ev.Intent.Account = reference, "form order", account
			doubt := c.of(machine.EventMarkUnknown, c.decide(ev, machine.Execute))
			doubt.Attempts = 1
			return c.decide(doubt, machine.Recorded)
		}
		shown := func(op journal.Operation, object string) journal.State {
			ev := c.took(op, object)
			ev.Account, ev.Evidence.Basis, ev.Reference = op.Account, journal.BasisFields, op.Reference
			return c.decide(ev, machine.Recorded).State
		}
		sole, other := ref("sole", "order-1", "acct_1"), ref("other", "order-1 ", "acct_1")
		assert.Equal(t, journal.StateCompleted, shown(sole, "payment 1"))
		again := ref("again", "order-1 ", "acct_1")
		assert.Equal(t, journal.StateUnknown, shown(other, "payment 2"))
		assert.Equal(t, journal.StateCompleted, shown(ref("elsewhere", "order-1", "acct_2"), "payment 3"), "of another account")
		assert.Equal(t, journal.StateUnknown, shown(ref("nobody's", "order-1", ""), "payment 4"), "it may be of any account")

		reaped := ref("reaped", "order-9", "acct_1")
		said := c.of(machine.EventResolve, reaped)
		said.Resolution, said.Delivered = journal.NotExecuted, true
		c.decide(said, machine.Recorded)
		c.pass(noon.Add(36 * 24 * time.Hour))
		c.reap(0, 100)
		_, err := h.Journal.Get(t.Context(), reaped.Ref)
		require.ErrorIs(t, err, journal.ErrNotFound)
		assert.Equal(t, journal.StateUnknown, shown(ref("later", "order-9", "acct_1"), "payment 5"), "nothing is left of it but that it had it")
		assert.Equal(t, journal.StateUnknown, shown(again, "payment 6"))
	}),
	reconciling("the object of a reaped operation is taken as well", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		ev := c.completeEvent(c.begin(named("old")))
		ev.Object, ev.Delivered = "charge ch_1", true
		c.decide(ev, machine.Recorded)
		c.pass(noon.Add(48 * time.Hour))
		require.Equal(t, 1, c.reap(0, 10))
		require.True(t, c.get(named("old")).Tombstone)
		op := c.decide(c.took(c.unknown("one"), "charge ch_1"), machine.Recorded)
		assert.Equal(t, journal.StateUnknown, op.State)
		assert.Equal(t, map[string]int{"old": 0, "one": 0}, c.found(r, machine.ByObject, "charge ch_1"))
		other := c.get(named("old"))
		c.decide(c.took(other, "charge ch_9"), machine.SecondEffect)
		assert.Equal(t, 1, c.get(named("old")).SecondEffects)
	}),
	reconciling("evidence during a claim is kept, and decides once the claim has ended without an answer", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		for id, end := range map[string]func(journal.Operation) machine.Decision{
			"parked": func(op journal.Operation) machine.Decision {
				ev := c.of(machine.EventPark, op)
				ev.Open, ev.Due = true, c.now.Add(time.Minute)
				return c.apply(ev).Decision
			},
			"in doubt": func(op journal.Operation) machine.Decision {
				return c.apply(c.of(machine.EventMarkUnknown, op)).Decision
			},
			"dead": func(op journal.Operation) machine.Decision {
				require.NoError(t, c.session.End(t.Context()))
				c.session = newCaller(t, c.journal).session
				return c.apply(c.beginEvent(op.Ref)).Decision
			},
			"claimed": func(op journal.Operation) machine.Decision {
				require.NoError(t, c.session.End(t.Context()))
				c.session = newCaller(t, c.journal).session
				return c.apply(c.of(machine.EventClaim, op)).Decision
			},
		} {
			op := c.begin(named(id))
			kept := c.decide(c.took(op, "charge "+id), machine.Recorded)
			assert.Equal(t, journal.StateInFlight, kept.State, id)
			assert.Equal(t, machine.Weighed.String(), end(op).String(), id)
			got := c.get(named(id))
			assert.Equal(t, journal.StateCompleted, got.State, id)
			assert.Equal(t, []byte(`{"id":"charge `+id+`"}`), got.Answer.Body, id)
			assert.True(t, got.Answer.Found)
			assert.Nil(t, got.Evidence[0].Answer, id)
		}
		op := c.begin(named("answered"))
		c.decide(c.took(op, "charge ch_9"), machine.Recorded)
		ev := c.completeEvent(op)
		ev.Object = "charge ch_9"
		c.decide(ev, machine.Recorded)
		assert.Equal(t, []byte(`{"paid":true}`), c.get(op.Ref).Answer.Body, "its own answer wins")
	}),
	reconciling("the call after an absence starts a generation, and late evidence of the earlier one is a second effect or its answer", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		op := c.absent("one")
		assert.Equal(t, "key-of-one", op.Key)
		assert.Equal(t, map[string]int{"one": 0}, c.found(r, machine.ByReference, "ref-of-one"))
		assert.Equal(t, map[string]int{"one": 0}, c.found(r, machine.ByKey, "key-of-one"))
		c.apply(machine.Event{Kind: machine.EventDeliver, Ref: op.Ref, At: c.now})
		late := c.took(op, "charge ch_1")
		late.Generation, late.Delivered = 0, true
		c.decide(late, machine.Recorded)
		assert.Equal(t, journal.StateCompleted, c.get(op.Ref).State)
		assert.Equal(t, []string{"one"}, claimed(c.claim(10)), "who was told that it is cancelled is offered that")

		op = c.absent("other")
		ev := c.beginEvent(op.Ref)
		ev.Intent.Reference, ev.Intent.ReferenceOurs = "second-ref", true
		op = c.decide(ev, machine.Execute)
		assert.Equal(t, map[string]int{"other": 1}, c.found(r, machine.ByKey, "key-of-other"))
		assert.Equal(t, map[string]int{"other": 1}, c.found(r, machine.ByReference, "second-ref"))
		late = c.took(op, "charge ch_2")
		late.Generation = 0
		c.decide(late, machine.SecondEffect)
		c.decide(late, machine.Ignored)
		assert.Equal(t, 1, c.get(op.Ref).SecondEffects)

		op = c.absent("answered late")
		ev = c.completeEvent(op)
		ev.Generation, ev.Object = 0, "charge ch_3"
		c.decide(ev, machine.Recorded)
		assert.Equal(t, map[string]int{"answered late": 0}, c.found(r, machine.ByObject, "charge ch_3"), "it is of its answer's generation")
	}),
	reconciling("an operation with evidence is kept for as long as providers repeat their events", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		c.hear(r, "evt_1", c.took(c.unknown("one"), "charge ch_1"))
		c.decide(c.of(machine.EventDeliver, c.get(named("one"))), machine.Recorded)
		cancelled := c.absent("absent")
		c.decide(c.of(machine.EventDeliver, cancelled), machine.Recorded)
		c.pass(noon.Add(34 * 24 * time.Hour))
		assert.Equal(t, 0, c.reap(0, 10))
		_, first := c.hear(r, "evt_1", c.took(c.get(named("one")), "charge ch_1"))
		assert.False(t, first)
		c.pass(noon.Add(36 * 24 * time.Hour))
		assert.Equal(t, 2, c.reap(0, 10))
		tomb := c.get(named("one"))
		assert.True(t, tomb.Tombstone)
		assert.Equal(t, "charge ch_1", tomb.Object)
		assert.Len(t, tomb.Evidence, 1)
		assert.Empty(t, tomb.Compare, "nothing of the request")
		assert.Equal(t, map[string]int{"one": 0}, c.found(r, machine.ByReference, "ref-of-one"))
		assert.Empty(t, c.found(r, machine.ByReference, "ref-of-absent"))
		_, first = c.hear(r, "evt_1", c.took(tomb, "charge ch_1"))
		assert.True(t, first, "it was forgotten")
	}),
	reconciling("operations are found by key, reference and object, in every state", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		begin := func(id string) journal.Operation {
			ev := c.beginEvent(named(id))
			ev.Intent.Reference = "ref-of-" + id
			return c.decide(ev, machine.Execute)
		}
		begin("held")
		c.park(begin("parked"), noon.Add(time.Hour))
		c.unknown("unknown")
		cancel := c.of(machine.EventCancel, begin("cancelled"))
		cancel.Unsent, cancel.Delivered = true, true
		c.decide(cancel, machine.Recorded)
		completed := c.completeEvent(begin("completed"))
		completed.Object, completed.Delivered = "charge ch_1", true
		c.decide(completed, machine.Recorded)
		for _, more := range []bool{false, true} {
			if more { // so that earlier operations are not among the latest
				sideBySide(2000, func(i int) {
					c.completeDelivered(c.begin(named("filler-" + string(rune('a'+i%26)) + time.Duration(i).String())))
				})
			}
			for _, id := range []string{"held", "parked", "unknown", "cancelled", "completed"} {
				assert.Equal(t, map[string]int{id: 0}, c.found(r, machine.ByKey, "key-of-"+id), id)
				assert.Equal(t, map[string]int{id: 0}, c.found(r, machine.ByReference, "ref-of-"+id), id)
			}
			assert.Equal(t, map[string]int{"completed": 0}, c.found(r, machine.ByObject, "charge ch_1"))
			assert.Empty(t, c.found(r, machine.ByObject, "charge ch_2"))
			assert.Empty(t, c.found(r, machine.ByReference, ""))
		}
		matches, err := r.FindBy(t.Context(), "bank", machine.ByKey, "key-of-held")
		require.NoError(t, err)
		assert.Empty(t, matches, "of another provider")
	}),
	reconciling("a withdrawn operation does not begin until it is wanted again", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		op := c.absent("one")
		say := func(resolution journal.Resolution) journal.Operation {
			ev := c.of(machine.EventResolve, op)
			ev.Resolution, ev.By, ev.Cause = resolution, "jane", "the order was cancelled"
			return c.decide(ev, machine.Recorded)
		}
		assert.Equal(t, "jane", say(journal.Withdraw).Withdrawn.By)
		c.decide(c.beginEvent(op.Ref), machine.Withdrawn)
		assert.Nil(t, say(journal.Reinstate).Withdrawn)
		c.begin(op.Ref)
	}),
	reconciling("the next process finds an operation's evidence", func(t *testing.T, h Harness, c *caller, r machine.Reconciler) {
		if h.Crash == nil {
			t.Skip("the store keeps nothing")
		}
		kept := c.begin(named("held"))
		c.decide(c.took(kept, "charge ch_1"), machine.Recorded)
		c.hear(r, "evt_1", c.took(c.unknown("found"), "charge ch_2"))
		c.unknown("due")
		c.unknown("leased")
		require.Len(t, c.looks(r, time.Hour, 2), 2)
		c.absent("absent")
		want := map[string]journal.Operation{}
		for _, op := range c.list(journal.Filter{}) {
			want[op.ID] = c.get(op.Ref)
		}
		next := h.Crash(t)
		for id, op := range want {
			got, err := next.Get(t.Context(), op.Ref)
			require.NoError(t, err)
			assert.Equal(t, op, got, id)
		}
		r = next.(machine.Reconciler)
		_, first, err := r.RecordEvent(t.Context(), machine.Heard{Provider: "ledger", Account: "acct_1", ID: "evt_1"}, []machine.Event{c.took(want["due"], "charge ch_9")})
		require.NoError(t, err)
		assert.False(t, first, "what was heard is remembered with what came of it")
		n := newCaller(t, next)
		n.now = c.now
		assert.Equal(t, map[string]int{"absent": 0}, n.found(r, machine.ByReference, "ref-of-absent"))
		assert.Equal(t, []string{"due", "leased"}, claimed(n.looks(r, time.Minute, 10)))
		n.decide(n.beginEvent(named("held")), machine.Weighed)
	}),
	{"a restored journal decides nothing by look-ups or events", func(t *testing.T, h Harness) {
		if h.Restored == nil {
			t.Skip("the store can't tell that it was restored")
		}
		c := newCaller(t, h.Journal)
		op := c.unknown("one")
		restored := h.Restored(t)
		r, ok := restored.(machine.Reconciler)
		if !ok {
			t.Skip("the store looks for nothing")
		}
		_, err := r.Looks(t.Context(), machine.Event{Kind: machine.EventLook, At: c.now, Due: c.now.Add(time.Minute)}, 10)
		require.ErrorIs(t, err, journal.ErrRestored)
		_, _, err = r.RecordEvent(t.Context(), machine.Heard{ID: "evt_1"}, []machine.Event{c.took(op, "charge ch_1")})
		require.ErrorIs(t, err, journal.ErrRestored)
		_, err = restored.Apply(t.Context(), c.took(op, "charge ch_1"))
		require.ErrorIs(t, err, journal.ErrRestored)
		matches, err := r.FindBy(t.Context(), "ledger", machine.ByReference, "ref-of-one")
		require.NoError(t, err)
		assert.Len(t, matches, 1, "it is read")
	}},
	{"invalid events are refused", func(t *testing.T, h Harness) {
		r, ok := h.Journal.(machine.Reconciler)
		if !ok {
			t.Skip("the store looks for nothing")
		}
		_, err := r.Looks(t.Context(), machine.Event{Kind: machine.EventLook, At: noon}, 10)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
		_, _, err = r.RecordEvent(t.Context(), machine.Heard{}, nil)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
		_, _, err = r.RecordEvent(t.Context(), machine.Heard{ID: "evt_1"}, []machine.Event{{Kind: machine.EventComplete, At: noon}})
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	}},
}
