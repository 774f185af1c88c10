package journaltest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// underAlias asks for a named operation with a carried key by that key.
func (c *caller) underAlias(alias journal.Ref) machine.Event {
	ev := c.beginEvent(alias)
	ev.Intent = intent(alias, journal.Carried)
	ev.Intent.KeyCarried = true
	return ev
}

// withAlias returns a Begin with a carried key.
func (c *caller) withAlias(ref, alias journal.Ref) machine.Event {
	ev := c.beginEvent(ref)
	ev.Intent.KeyCarried, ev.Intent.Alias = true, alias
	ev.Intent.Fingerprint = "v1:" + alias.ID
	return ev
}

var aliasTests = []test{
	{"an operation is found by its second name in every state", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		key := journal.Ref{Scope: "tenant", Parent: "\x00key", ID: "their-key"}
		op := c.decide(c.withAlias(named("invoice-1"), key), machine.Execute)
		same := func(got journal.Operation) {
			t.Helper()
			assert.Equal(t, op.Handle, got.Handle)
			assert.Equal(t, named("invoice-1"), got.Ref)
			assert.Equal(t, key, got.Alias)
			assert.Equal(t, op.Handle, c.get(key).Handle)
		}
		same(c.decide(c.underAlias(key), machine.Wait))
		park := c.of(machine.EventPark, op)
		park.Ref, park.Handle, park.Due = key, 0, noon.Add(time.Hour)
		park.Open = true
		same(c.decide(park, machine.Recorded))
		same(c.decide(c.underAlias(key), machine.Later))
		c.now = noon.Add(time.Hour)
		again := c.decide(c.underAlias(key), machine.Execute)
		same(again)
		assert.Equal(t, "key-of-invoice-1", again.Key)
		c.completeDelivered(again)
		same(c.decide(c.underAlias(key), machine.Replay))
		c.pass(noon.Add(50 * time.Hour))
		c.decide(c.of(machine.EventReap, again), machine.Recorded)
		same(c.decide(c.underAlias(key), machine.Gone))
		if h.Reopen == nil {
			return
		}
		c.journal = h.Reopen(t)
		same(c.get(named("invoice-1")))
	}},
	{"a second name belongs to one operation, as a name and as a second one", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		key, other := named("key-1"), named("key-2")
		c.decide(c.withAlias(named("invoice-1"), key), machine.Execute)
		holder := c.decide(c.withAlias(named("invoice-2"), key), machine.Misuse)
		assert.Equal(t, named("invoice-1"), holder.Ref, "it is told whose it is")
		_, err := h.Journal.Get(t.Context(), named("invoice-2"))
		assert.ErrorIs(t, err, journal.ErrNotFound)

		c.decide(c.underAlias(other), machine.Execute)
		holder = c.decide(c.withAlias(named("invoice-3"), other), machine.Misuse)
		assert.Equal(t, other, holder.Ref)

		former := c.withAlias(named("invoice-4"), named("key-3"))
		former.Intent.FormerAliases = []journal.Ref{named("key-0"), key}
		holder = c.decide(former, machine.Misuse)
		assert.Equal(t, named("invoice-1"), holder.Ref, "nor where it had another before")
		former.Intent.FormerAliases = []journal.Ref{named("key-0"), other}
		holder = c.decide(former, machine.Misuse)
		assert.Equal(t, other, holder.Ref)

		// A caller who is there already goes on, whatever key it brings.
		c.decide(c.withAlias(named("invoice-1"), key), machine.Wait)
		later := c.withAlias(named("invoice-1"), other)
		later.Intent.Fingerprint = "v1:" + key.ID
		c.decide(later, machine.Wait)
		assert.Equal(t, key, c.get(named("invoice-1")).Alias)

		c.begin(named("without"))
		c.begin(named("without, too"))
		if h.Reopen == nil {
			return
		}
		c = newCaller(t, h.Reopen(t))
		c.decide(c.withAlias(named("invoice-2"), key), machine.Misuse)
	}},
	{"a cancelled operation does not begin again with a key that another one has by now", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		key, atHost := named("key at stripe"), named("key at api.stripe.com")
		op := c.decide(c.withAlias(named("invoice-1"), key), machine.Execute)
		cancel := c.of(machine.EventCancel, op)
		cancel.Unsent = true
		c.decide(cancel, machine.Recorded)
		c.decide(c.withAlias(named("invoice-2"), atHost), machine.Execute) // by a caller without a table for stripe
		again := c.withAlias(named("invoice-1"), key)
		again.Intent.FormerAliases = []journal.Ref{atHost}
		holder := c.decide(again, machine.Misuse)
		assert.Equal(t, named("invoice-2"), holder.Ref)
		assert.Equal(t, journal.StateCancelled, c.get(named("invoice-1")).State)

		again.Intent.FormerAliases = []journal.Ref{key, named("key-0")}
		op = c.decide(again, machine.Execute) // its own key is no other operation's
		c.completeDelivered(op)

		other := c.withAlias(named("invoice-4"), named("key-4 at api.stripe.com"))
		for _, ev := range []machine.Event{c.withAlias(named("invoice-5"), named("key-5")), other} {
			op = c.decide(ev, machine.Execute)
			cancel = c.of(machine.EventCancel, op)
			cancel.Unsent = true
			c.decide(cancel, machine.Recorded)
		}
		other.Intent.FormerAliases = []journal.Ref{named("key-5")}
		c.decide(other, machine.Execute) // neither has it, so the first one gets it

		late := c.withAlias(named("invoice-3"), named("key at another host"))
		op = c.decide(late, machine.Execute)
		cancel = c.of(machine.EventCancel, op)
		cancel.Unsent = true
		c.decide(cancel, machine.Recorded)
		late.Intent.Alias = key // from a client with the table
		holder = c.decide(late, machine.Misuse)
		assert.Equal(t, named("invoice-1"), holder.Ref)
	}},
	{"a removed operation frees its second name", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		key := named("key-1")
		cancel := c.of(machine.EventCancel, c.decide(c.withAlias(named("invoice-1"), key), machine.Execute))
		cancel.Unsent, cancel.Delivered = true, true
		op := c.decide(cancel, machine.Recorded)
		c.decide(c.withAlias(named("invoice-2"), key), machine.Misuse)
		c.pass(noon.Add(48 * time.Hour))
		c.decide(c.of(machine.EventReap, op), machine.Recorded)
		_, err := h.Journal.Get(t.Context(), key)
		assert.ErrorIs(t, err, journal.ErrNotFound)
		c.decide(c.withAlias(named("invoice-2"), key), machine.Execute)
		assert.Equal(t, named("invoice-2"), c.get(key).Ref)
	}},
}

func (c *caller) claimFrom(limit int, from ...string) []machine.Result {
	c.t.Helper()
	ev := c.event(machine.EventClaim)
	ev.From = from
	results, err := c.journal.Claim(c.t.Context(), ev, limit)
	require.NoError(c.t, err)
	return results
}

func (c *caller) beginAt(provider, id string) journal.Operation {
	c.t.Helper()
	ev := c.beginEvent(named(id))
	ev.Intent.Provider = provider
	return c.decide(ev, machine.Execute)
}

var passingOverTests = []test{
	{"a claim takes operations of its providers, however many others are due before", func(t *testing.T, h Harness) {
		c, dead := newCaller(t, h.Journal), newCaller(t, h.Journal)
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			c.park(c.beginAt("bank", id), noon)
			dead.beginAt("bank", id+" of the dead")
		}
		c.park(c.beginAt("ledger", "mine"), noon)
		c.complete(c.beginAt("bank", "its outcome"))
		require.NoError(t, dead.session.End(t.Context()))
		require.NoError(t, c.session.End(t.Context()))
		c = newCaller(t, h.Journal)
		assert.Equal(t, []string{"mine"}, claimed(c.claimFrom(1, "ledger")))
		assert.Equal(t, []string{"its outcome"}, claimed(c.claimFrom(1, "ledger")), "outcomes are anybody's")
		assert.Empty(t, c.claimFrom(1, "ledger"))
		assert.Empty(t, c.claimFrom(1, "ledger", "", "nobody"))
		assert.Equal(t, journal.StatePending, c.get(named("a")).State)
		assert.Equal(t, journal.StateInFlight, c.get(named("a of the dead")).State, "passed over, it was left as it was")
		assert.Equal(t, []string{"a", "a of the dead", "b"}, claimed(c.claimFrom(3, "bank", "ledger")))
	}},
	{"a claim asks for today's terms of an operation, with its whole request", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		for _, id := range []string{"unknown table", "narrower", "wider", "elsewhere"} {
			ev := c.beginEvent(named(id))
			ev.Intent.Form = "header Idempotency-Key"
			c.park(c.decide(ev, machine.Execute), noon)
		}
		ev := c.event(machine.EventClaim)
		ev.At = noon.Add(2 * time.Hour)
		ev.Today = func(op *journal.Operation) (machine.Today, bool) {
			assert.Equal(t, []byte(`{"amount":100}`), op.Request.Body)
			assert.Equal(t, "application/json", op.Request.Header.Get("Content-Type"))
			today := machine.Today{Terms: op.Terms, Form: op.Form}
			switch op.ID {
			case "narrower":
				today.Terms.Retention = time.Hour
			case "wider":
				today.Terms.Retention *= 2
			case "elsewhere":
				today.Form = "header X-Request-Id"
			}
			return today, op.ID != "unknown table"
		}
		results, err := h.Journal.Claim(t.Context(), ev, 10)
		require.NoError(t, err)
		decisions := map[string]machine.Decision{}
		for _, r := range results {
			decisions[r.Operation.ID] = r.Decision
		}
		assert.Equal(t, map[string]machine.Decision{"narrower": machine.Stop, "wider": machine.Execute, "elsewhere": machine.Stop}, decisions)
		assert.Equal(t, time.Hour, c.get(named("narrower")).Terms.Retention)
		assert.Equal(t, stripeLike, c.get(named("wider")).Terms)
		assert.Equal(t, "header Idempotency-Key", c.get(named("elsewhere")).Form)
		assert.Equal(t, journal.StatePending, c.get(named("unknown table")).State)
		ev.Ref = named("unknown table")
		c.decide(ev, machine.Ignored)
	}},
}

var declaredTests = []test{
	{"a declared retention only shortens the terms, and outlives a restart", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		for _, row := range []struct {
			id             string
			declared, want time.Duration
		}{{"shorter", time.Hour, time.Hour}, {"longer", 48 * time.Hour, 24 * time.Hour}, {"not declared", 0, 24 * time.Hour}, {"not promised", -1, 0}} {
			ev := c.of(machine.EventPark, c.begin(named(row.id)))
			ev.Due, ev.Open, ev.Attempts, ev.Retention = noon, true, 1, row.declared
			assert.Equal(t, row.want, c.decide(ev, machine.Recorded).Terms.Retention, row.id)
		}
		require.NoError(t, c.session.End(t.Context()))
		if h.Reopen != nil {
			h.Journal = h.Reopen(t)
		}
		c = newCaller(t, h.Journal)
		assert.Equal(t, time.Hour, c.get(named("shorter")).Terms.Retention)
		assert.Equal(t, journal.StateUnknown, c.get(named("not promised")).State)
		c.now = noon.Add(2 * time.Hour)
		for id, decision := range map[string]machine.Decision{"shorter": machine.Stop, "longer": machine.Execute} {
			c.decide(c.beginEvent(named(id)), decision) // whose intent has the longer terms of the table
		}
	}},
}

var wordTests = []test{
	{"if no attempt may have run, the asker's request is recorded and sent", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		park := c.of(machine.EventPark, c.begin(named("invoice-1")))
		park.Unsent, park.Due = true, noon
		c.decide(park, machine.Recorded)
		ev := c.beginEvent(named("invoice-1"))
		ev.Intent.Request.Header.Set("X-2fa-Approval", "code")
		ev.Intent.Request.Body = []byte("the same, in another order")
		ev.Intent.Form, ev.Intent.Credential = "header B", "another"
		op := c.decide(ev, machine.Execute)
		got := c.get(named("invoice-1"))
		for _, op := range []journal.Operation{op, got} {
			assert.Equal(t, "code", op.Request.Header.Get("X-2fa-Approval"))
			assert.Equal(t, []byte("the same, in another order"), op.Request.Body)
			assert.Equal(t, "another", op.Credential)
			assert.Equal(t, "header B", op.Form)
		}
		c.park(op, noon)
		ev.Intent.Request.Header = nil
		ev.Intent.Request.Body = []byte("a third")
		assert.Equal(t, []byte("the same, in another order"), c.decide(ev, machine.Execute).Request.Body, "it may have run")
	}},
	{"a claim of an operation that has not run may record another credential", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		begin := c.beginEvent(named("invoice-1"))
		begin.Intent.Credential, begin.Intent.Account = "the first", "acct_1"
		op := c.decide(begin, machine.Execute)
		sign := c.of(machine.EventSign, op)
		sign.Credential, sign.Account = "the second", "acct_2"
		late := sign
		late.Claim--
		c.decide(late, machine.Stale)
		c.decide(sign, machine.Recorded)
		c.park(op, noon)
		if h.Reopen != nil {
			require.NoError(t, c.session.End(t.Context()))
			h.Journal = h.Reopen(t)
			c = newCaller(t, h.Journal)
		}
		got := c.get(named("invoice-1"))
		assert.Equal(t, "the second", got.Credential)
		assert.Equal(t, "acct_2", got.Account)
		assert.Equal(t, journal.StatePending, got.State)

		again := c.of(machine.EventSign, c.decide(c.beginEvent(named("invoice-1")), machine.Execute))
		again.Credential = "the third"
		_, err := h.Journal.Apply(t.Context(), again)
		require.ErrorIs(t, err, journal.ErrInvalidEvent, "it may have run under the second")
		assert.Equal(t, "the second", c.get(named("invoice-1")).Credential)
	}},
	{"an unnumbered cancel belongs to its own Begin or Claim and to no other", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		first := c.beginEvent(named("invoice-1"))
		c.park(c.decide(first, machine.Execute), noon)
		second := c.beginEvent(named("invoice-1"))
		c.decide(second, machine.Execute)
		cancel := c.event(machine.EventCancel)
		cancel.Ref, cancel.Asker, cancel.Unsent = named("invoice-1"), first.Asker, true
		c.decide(cancel, machine.Stale)
		cancel.Asker = 0
		c.decide(cancel, machine.Stale)
		cancel.Asker = second.Asker
		assert.Equal(t, journal.StatePending, c.decide(cancel, machine.Recorded).State)

		claim := c.event(machine.EventClaim)
		claim.Asker = c.askers.Add(1)
		claimed, err := c.journal.Claim(t.Context(), claim, 1)
		require.NoError(t, err)
		require.Len(t, claimed, 1)
		c.decide(cancel, machine.Stale)
		cancel.Asker = claim.Asker
		op := c.decide(cancel, machine.Recorded)
		assert.Equal(t, journal.StatePending, op.State, "whatever the claim has found")
		c.decide(cancel, machine.Stale)
	}},
	{"a person's decision applies to the state that the person saw, and is kept", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		first := c.begin(named("invoice-1"))
		c.park(first, noon)
		seen := c.get(named("invoice-1"))
		second := c.begin(named("invoice-1"))
		c.park(second, noon.Add(time.Hour))
		resolve := c.of(machine.EventResolve, seen)
		resolve.Resolution, resolve.By, resolve.Cause = journal.NotExecuted, "ops@example.com", "ticket 7"
		c.decide(resolve, machine.Stale)
		assert.Nil(t, c.get(named("invoice-1")).Resolved)

		resolve.Claim, resolve.Resolution = second.Claim, journal.Hold
		c.decide(resolve, machine.Recorded)
		want := &journal.Resolved{Resolution: journal.Hold, By: "ops@example.com", Why: "ticket 7", At: noon, Claim: second.Claim}
		assert.Equal(t, want, c.get(named("invoice-1")).Resolved)
		c.decide(c.beginEvent(named("invoice-1")), machine.Stop)
		c.now = noon.Add(2 * time.Hour)
		assert.Empty(t, c.claim(10))
		if h.Reopen != nil {
			now := c.now
			c = newCaller(t, h.Reopen(t))
			c.now = now
			assert.Equal(t, want, c.get(named("invoice-1")).Resolved)
		}
		resolve.Resolution, resolve.At = journal.Reinstate, c.now
		assert.Equal(t, journal.StatePending, c.decide(resolve, machine.Recorded).State)
		assert.Equal(t, []string{"invoice-1"}, claimed(c.claim(10)))
	}},
	{"proof of an effect is accepted after a decision that there was none", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		resolve := c.of(machine.EventResolve, c.park(c.begin(named("invoice-1")), noon))
		resolve.Resolution = journal.NotExecuted
		c.decide(resolve, machine.Recorded)
		resolve.Resolution, resolve.Answer = journal.Executed, &journal.Answer{Status: 200, Body: everyByte}
		c.decide(resolve, machine.Recorded)
		if h.Reopen != nil {
			c = newCaller(t, h.Reopen(t))
		}
		op := c.decide(c.beginEvent(named("invoice-1")), machine.Replay)
		assert.Equal(t, &journal.Answer{Status: 200, Body: everyByte, ByHand: true}, op.Answer)
	}},
	{"a supplied answer keeps the one that it replaced", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		op := c.begin(named("invoice-1"))
		ev := c.completeEvent(op)
		ev.Answer.Cut, ev.Answer.Body = true, everyByte
		c.decide(ev, machine.Recorded)
		resolve := c.of(machine.EventResolve, op)
		resolve.Resolution = journal.Executed
		resolve.Answer = &journal.Answer{Status: 200, Body: []byte("whole"), Pointer: "ch_1"}
		c.decide(resolve, machine.Recorded)
		if h.Reopen != nil {
			c = newCaller(t, h.Reopen(t))
		}
		want := &journal.Answer{Status: 200, Body: []byte("whole"), Pointer: "ch_1", ByHand: true, Replaced: ev.Answer}
		assert.Equal(t, want, c.get(named("invoice-1")).Answer)
		assert.Equal(t, want, c.decide(c.beginEvent(named("invoice-1")), machine.Replay).Answer)
		_, err := c.journal.Apply(t.Context(), resolve)
		assert.ErrorIs(t, err, journal.ErrInvalidEvent)
	}},
}

var jumpTests = []test{
	{"a jump ahead moves nothing until it has lasted", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.park(c.begin(named("before")), noon)
		c.completeDelivered(c.generate("done"))
		year := noon.Add(365 * 24 * time.Hour)
		c.now = year
		result := c.apply(c.beginEvent(named("meanwhile")))
		assert.Equal(t, machine.Execute, result.Decision, "what is new goes on")
		assert.Equal(t, noon, result.Last)
		assert.Equal(t, year.Add(machine.Confirmation), result.Unconfirmed)
		assert.Equal(t, year, result.Operation.FirstSentAt)
		assert.Equal(t, noon, result.Operation.SentSince)
		c.park(result.Operation, year)
		c.decide(c.beginEvent(named("before")), machine.Later)
		assert.Empty(t, executed(c.claim(10)))
		assert.Zero(t, c.reap(time.Hour, 10))

		c.now = noon.Add(time.Hour) // the clock is set right
		c.look()
		for _, id := range []string{"before", "meanwhile"} {
			op := c.get(named(id))
			assert.False(t, op.WindowClosed, id)
			assert.Equal(t, journal.StatePending, op.State, id)
			assert.False(t, op.DueAt.After(c.now.Add(machine.Confirmation)), "%s is due at %v", id, op.DueAt)
			assert.False(t, op.WakeAt.After(c.now.Add(machine.Confirmation)), id)
		}
		assert.Equal(t, noon, c.get(named("meanwhile")).SentSince)
		c.now = c.now.Add(machine.Confirmation)
		assert.ElementsMatch(t, []string{"before", "meanwhile"}, executed(c.claim(10)))
	}},
	{"a jump ahead that has lasted is the time", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.park(c.begin(named("before")), noon)
		c.now = noon.Add(72 * time.Hour) // a weekend
		c.park(c.begin(named("meanwhile")), c.now)
		assert.Empty(t, executed(c.claim(10)))
		c.now = c.now.Add(machine.Confirmation)
		assert.Equal(t, []string{"meanwhile"}, executed(c.claim(10)))
		assert.Equal(t, journal.StateUnknown, c.get(named("before")).State)
		assert.Zero(t, c.get(named("meanwhile")).SentSince)
		assert.Equal(t, c.now, c.apply(c.beginEvent(named("after"))).Last)
	}},
	{"if no process lives for long, expired operations are settled all the same", func(t *testing.T, h Harness) {
		if h.Reopen == nil {
			t.Skip("the store keeps nothing")
		}
		const week = 7 * 24 * time.Hour
		c := newCaller(t, h.Journal)
		c.park(c.begin(named("before")), noon)
		c.completeDelivered(c.begin(named("done")))
		months := c.beginEvent(named("for months"))
		months.Intent.Terms.Retention = 90 * 24 * time.Hour
		c.park(c.decide(months, machine.Execute), noon)
		for n, want := range []struct {
			before, meanwhile journal.State
			reaped            int
		}{{journal.StatePending, journal.StatePending, 0}, {journal.StateUnknown, journal.StatePending, 1}, {journal.StateUnknown, journal.StateUnknown, 0}} {
			require.NoError(t, c.journal.Close())
			c = newCaller(t, h.Reopen(t))
			c.now = noon.Add(time.Duration(n+1) * week)
			assert.Empty(t, executed(c.claim(10)), "start %d", n)
			if n == 0 {
				c.park(c.begin(named("meanwhile")), c.now)
			}
			assert.Equal(t, want.before, c.get(named("before")).State, "start %d", n)
			assert.Equal(t, want.meanwhile, c.get(named("meanwhile")).State, "start %d", n)
			assert.Equal(t, journal.StatePending, c.get(named("for months")).State, "start %d", n)
			assert.Equal(t, want.reaped, c.reap(6*24*time.Hour, 10), "start %d", n)
			for _, id := range []string{"before", "meanwhile", "for months"} {
				assert.False(t, c.get(named(id)).WindowClosed)
			}
		}
		c.now = c.now.Add(machine.Confirmation)
		assert.Equal(t, []string{"for months"}, executed(c.claim(10)))
	}},
	{"operations from a jump ahead do not wait for its time when the next clock is right", func(t *testing.T, h Harness) {
		if h.Reopen == nil {
			t.Skip("the store keeps nothing")
		}
		c := newFlowCaller(t, h.Journal)
		c.begin(named("before"))
		c.now = noon.Add(365 * 24 * time.Hour)
		c.park(c.begin(named("meanwhile")), c.now.Add(time.Minute))
		c.parkFlow(c.beginFlow("meanwhile"), c.now.Add(time.Minute))
		for _, days := range []time.Duration{2, 4} {
			require.NoError(t, c.journal.Close())
			c = newFlowCaller(t, h.Reopen(t))
			c.now = noon.Add(days * 24 * time.Hour)
			c.look()
		}
		assert.Equal(t, c.now.Add(machine.Confirmation), c.get(named("meanwhile")).DueAt)
		assert.Equal(t, c.now.Add(time.Minute), c.getFlow("meanwhile").DueAt)
		assert.False(t, c.get(named("meanwhile")).WindowClosed)
	}},
	{"a flow that was parked by a clock ahead pauses for as long as planned", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		c.parkFlow(c.beginFlow("before"), noon.Add(2*time.Hour))
		c.now = noon.Add(365 * 24 * time.Hour)
		c.parkFlow(c.beginFlow("meanwhile"), c.now.Add(time.Minute))
		done := c.beginFlow("done")
		c.decideFlow(c.under(machine.FlowEventFinish, done), machine.Recorded)
		reap := c.flowEvent(machine.FlowEventReap, journal.Ref{})
		n, err := c.flows.ReapFlows(t.Context(), reap, 10)
		require.NoError(t, err)
		assert.Zero(t, n)

		c.now = noon.Add(time.Hour) // the clock is set right
		assert.Empty(t, c.claimFlows(10, ride))
		assert.Equal(t, noon.Add(2*time.Hour), c.getFlow("before").DueAt)
		assert.Equal(t, c.now.Add(time.Minute), c.getFlow("meanwhile").DueAt)
		c.now = c.now.Add(time.Minute)
		assert.Equal(t, []string{"meanwhile"}, c.claimFlows(10, ride))
		c.now = noon.Add(2 * time.Hour)
		assert.Equal(t, []string{"before"}, c.claimFlows(10, ride))
	}},
	{"the clock's time is known after a kill, though nothing was written", func(t *testing.T, h Harness) {
		if h.Crash == nil {
			t.Skip("the store keeps nothing")
		}
		c := newCaller(t, h.Journal)
		c.park(c.begin(named("before")), noon)
		c.now = noon.Add(20 * time.Hour)
		c.look()
		c = newCaller(t, h.Crash(t))
		c.now = noon.Add(machine.Leap + 12*time.Hour)
		assert.Zero(t, c.apply(c.beginEvent(named("after"))).Unconfirmed)
	}},
	{"a clock that is behind and is set right closes no window", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.now = noon.Add(10 * time.Hour)
		c.park(c.begin(named("a")), c.now)
		c.now = noon
		assert.Empty(t, executed(c.claim(10)))
		c.decide(c.beginEvent(named("a")), machine.Later)
		c.now = noon.Add(10*time.Hour + machine.Confirmation)
		c.decide(c.beginEvent(named("a")), machine.Execute)
		assert.False(t, c.get(named("a")).WindowClosed)
	}},
	{"the next process knows of a jump back", func(t *testing.T, h Harness) {
		if h.Reopen == nil {
			t.Skip("the store keeps nothing")
		}
		c := newCaller(t, h.Journal)
		c.now = noon.Add(10 * time.Hour)
		c.park(c.begin(named("stamped by a clock that ran ahead")), c.now)
		c.now = noon
		c.look()
		c.begin(named("something that is recorded"))
		c = newCaller(t, h.Reopen(t))
		c.now = noon.Add(10 * time.Hour) // the clock has caught up, as far as a client can tell
		c.look()
		assert.True(t, c.get(named("stamped by a clock that ran ahead")).WindowClosed)
	}},
	{"a person resets the latest time", func(t *testing.T, h Harness) {
		resetter, ok := h.Journal.(machine.ClockResetter)
		if !ok {
			t.Skip("the store's time is not reset")
		}
		c := newCaller(t, h.Journal)
		unsent := c.of(machine.EventPark, c.begin(named("never sent")))
		unsent.Unsent, unsent.Due = true, noon
		c.decide(unsent, machine.Recorded)
		c.park(c.begin(named("before")), noon)
		c.jump(noon.Add(23 * time.Hour))
		c.now = noon.Add(24 * time.Hour)
		c.park(c.begin(named("by a clock that ran ahead")), c.now)
		require.NoError(t, resetter.ResetClock(t.Context(), noon.Add(time.Hour)))
		c.now = noon.Add(time.Hour)
		assert.Equal(t, []string{"never sent"}, executed(c.claim(10)))
		assert.True(t, c.get(named("by a clock that ran ahead")).WindowClosed)
		assert.True(t, c.get(named("before")).WindowClosed, "that clock may have run ahead at noon already")
		result := c.apply(c.beginEvent(named("after")))
		assert.Equal(t, c.now, result.Last)
		assert.Zero(t, result.Unconfirmed)
		if h.Reopen == nil {
			return
		}
		next := newCaller(t, h.Reopen(t))
		next.now = noon.Add(2 * time.Hour)
		assert.Equal(t, next.now, next.apply(next.beginEvent(named("later"))).Last)
	}},
}

// executed returns the names that a claim is to send.
func executed(results []machine.Result) []string {
	var names []string
	for _, r := range results {
		if r.Decision == machine.Execute {
			names = append(names, r.Operation.ID)
		}
	}
	return names
}
