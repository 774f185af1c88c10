package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// flowCaller asks a journal for flows.
type flowCaller struct {
	*caller
	flows machine.Flows
}

// newFlowCaller skips the test if the journal keeps no flows.
func newFlowCaller(t *testing.T, j machine.Store) *flowCaller {
	t.Helper()
	flows, ok := j.(machine.Flows)
	if !ok {
		t.Skip("the journal keeps no flows")
	}
	return &flowCaller{newCaller(t, j), flows}
}

var ride = journal.FlowFunction{Name: "ride", Version: 1}

func (c *flowCaller) flowEvent(kind machine.FlowEventKind, ref journal.Ref) machine.FlowEvent {
	return machine.FlowEvent{
		Kind: kind, Ref: ref, At: c.now, Session: c.session.ID(),
		Function: ride, Key: "key-of-" + ref.ID, Input: []byte(`{"of":"` + ref.ID + `"}`), InputDigest: "v1:" + ref.ID,
	}
}

// under returns an event under the flow's current claim.
func (c *flowCaller) under(kind machine.FlowEventKind, f journal.Flow) machine.FlowEvent {
	return machine.FlowEvent{Kind: kind, Ref: f.Ref, Handle: f.Handle, At: c.now, Session: c.session.ID(), Claim: f.Claim}
}

func (c *flowCaller) decideFlow(ev machine.FlowEvent, want machine.Decision) journal.Flow {
	c.t.Helper()
	result, err := c.flows.ApplyFlow(c.t.Context(), ev)
	require.NoError(c.t, err)
	require.Equal(c.t, want.String(), result.Decision.String())
	return result.Flow
}

func (c *flowCaller) beginFlow(id string) journal.Flow {
	c.t.Helper()
	return c.decideFlow(c.flowEvent(machine.FlowEventBegin, named(id)), machine.Execute)
}

func (c *flowCaller) parkFlow(f journal.Flow, due time.Time) {
	c.t.Helper()
	ev := c.under(machine.FlowEventPark, f)
	ev.Due = due
	c.decideFlow(ev, machine.Recorded)
}

func (c *flowCaller) claimFlows(limit int, functions ...journal.FlowFunction) []string {
	c.t.Helper()
	ev := c.flowEvent(machine.FlowEventClaim, journal.Ref{})
	ev.Functions = functions
	results, err := c.flows.ClaimFlows(c.t.Context(), ev, limit)
	require.NoError(c.t, err)
	var taken []string
	for _, r := range results {
		name := r.Flow.ID
		if r.Decision != machine.Execute {
			name += " " + r.Decision.String()
		}
		taken = append(taken, name)
	}
	return taken
}

func (c *flowCaller) getFlow(id string) journal.Flow {
	c.t.Helper()
	f, err := c.flows.GetFlow(c.t.Context(), named(id))
	require.NoError(c.t, err)
	return f
}

func (c *flowCaller) listFlows(filter journal.FlowFilter) []journal.Flow {
	c.t.Helper()
	var all []journal.Flow
	for f, err := range c.flows.ListFlows(c.t.Context(), filter) {
		require.NoError(c.t, err)
		all = append(all, f)
	}
	return all
}

func flowIDs(flows []journal.Flow) []string {
	names := make([]string, len(flows))
	for i, f := range flows {
		names[i] = f.ID
	}
	return names
}

// stepsOf makes the records of the steps with the given names.
func stepsOf(at time.Time, names ...string) (steps []journal.StepRecord) {
	for i, name := range names {
		steps = append(steps, journal.StepRecord{
			Seq: i + 1, Kind: journal.StepDone, Name: name, Position: i + 1, Parallel: i%2 == 1, Result: []byte(`"` + name + `"`), At: at,
		})
	}
	return steps
}

var flowTests = []test{
	{"a flow comes back whole", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		ref := journal.Ref{Scope: "tenant", Parent: "inbound k", ID: "order-991"}
		begin := c.flowEvent(machine.FlowEventBegin, ref)
		begin.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		f := c.decideFlow(begin, machine.Execute)
		steps := stepsOf(noon, "create", "charge", "send")
		for i := range steps {
			ev := c.under(machine.FlowEventRecord, f)
			ev.Steps = steps[i : i+1]
			c.decideFlow(ev, machine.Recorded)
		}
		waits := journal.Ref{Scope: "tenant", Parent: "flow", ID: "charge"}
		ev := c.under(machine.FlowEventPark, f)
		ev.Due, ev.Cause, ev.WaitsFor = noon.Add(time.Hour), "it is unknown", waits
		c.decideFlow(ev, machine.Recorded)
		want := journal.Flow{
			Handle: f.Handle, Ref: ref, Function: ride, Key: "key-of-order-991", Input: []byte(`{"of":"order-991"}`), InputDigest: "v1:order-991", Trace: begin.Trace,
			State: journal.FlowStateWaiting, Claim: 1, DueAt: noon.Add(time.Hour), Cause: "it is unknown", WaitsFor: waits,
			CreatedAt: noon, UpdatedAt: noon, Steps: steps,
		}
		got, err := c.flows.GetFlow(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		_, err = c.flows.GetFlow(t.Context(), named("order-991"))
		require.ErrorIs(t, err, journal.ErrNotFound, "scope and parent are part of the identity")
		got = c.decideFlow(c.flowEvent(machine.FlowEventBegin, ref), machine.Later)
		assert.Equal(t, noon.Add(time.Hour), got.DueAt)
	}},
	{"a step that is recorded twice is recorded once", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		f := c.beginFlow("a")
		for _, names := range [][]string{{"create"}, {"create", "charge"}, {"create", "charge", "send"}} {
			ev := c.under(machine.FlowEventRecord, f)
			ev.Steps = stepsOf(noon, names...)
			c.decideFlow(ev, machine.Recorded)
		}
		ev := c.under(machine.FlowEventFinish, f)
		ev.Steps = stepsOf(noon, "create", "charge", "send", "tip")
		c.decideFlow(ev, machine.Recorded)
		f = c.decideFlow(c.flowEvent(machine.FlowEventBegin, named("a")), machine.Replay)
		assert.Equal(t, stepsOf(noon, "create", "charge", "send", "tip"), f.Steps)
	}},
	{"a flow's failures and its end last", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		f := c.beginFlow("failing")
		const kept = 10 // of a flow's failures: see journal.Flow.History
		var want []journal.FlowFailure
		for i := range kept + 2 {
			ev := c.under(machine.FlowEventFail, f)
			ev.Cause, ev.Limit, ev.Due = fmt.Sprint("failure ", i), kept+2, c.now.Add(time.Minute)
			c.decideFlow(ev, machine.Recorded)
			want = append(want, journal.FlowFailure{At: c.now, Error: ev.Cause})
			c.now = c.now.Add(time.Minute)
			if i < kept+1 {
				f = c.decideFlow(c.flowEvent(machine.FlowEventBegin, f.Ref), machine.Execute)
			}
		}
		c.decideFlow(c.under(machine.FlowEventFinish, c.beginFlow("finished")), machine.Recorded)
		undoing := c.beginFlow("given up")
		ev := c.under(machine.FlowEventGiveUp, undoing)
		ev.Cause = "no driver"
		c.decideFlow(ev, machine.Recorded)
		c.decideFlow(c.under(machine.FlowEventUndo, undoing), machine.Recorded)
		if h.Reopen != nil {
			c = newFlowCaller(t, h.Reopen(t))
		}
		failed := c.getFlow("failing")
		assert.Equal(t, journal.FlowStateSetAside, failed.State)
		assert.Equal(t, want[2:], failed.History, "the latest ones")
		assert.Equal(t, kept+2, failed.Failures)
		c.decideFlow(c.flowEvent(machine.FlowEventBegin, failed.Ref), machine.Stop)
		c.decideFlow(c.flowEvent(machine.FlowEventBegin, named("finished")), machine.Replay)
		given := c.decideFlow(c.flowEvent(machine.FlowEventBegin, named("given up")), machine.Stop)
		assert.Equal(t, "no driver", given.GivenUpFor)
	}},
	{"a flow never has two holders, and a dead session's flow is free at once", func(t *testing.T, h Harness) {
		c, other := newFlowCaller(t, h.Journal), newFlowCaller(t, h.Journal)
		held := c.beginFlow("held")
		other.decideFlow(other.flowEvent(machine.FlowEventBegin, held.Ref), machine.Wait)
		assert.Empty(t, other.claimFlows(10, ride))
		require.NoError(t, c.session.End(t.Context()))
		assert.Equal(t, []string{"held"}, other.claimFlows(10, ride))
		assert.Empty(t, other.claimFlows(10, ride))
		for _, kind := range []machine.FlowEventKind{machine.FlowEventPark, machine.FlowEventFinish, machine.FlowEventFail} {
			other.decideFlow(c.under(kind, held), machine.Stale)
		}
		ev := c.under(machine.FlowEventRecord, held)
		ev.Steps = stepsOf(noon, "late")
		_, err := c.flows.ApplyFlow(t.Context(), ev)
		require.NoError(t, err)
		assert.Empty(t, other.getFlow("held").Steps, "a stale claim records nothing")
		_, err = c.flows.ApplyFlow(t.Context(), c.flowEvent(machine.FlowEventBegin, named("new")))
		require.ErrorIs(t, err, journal.ErrSessionLost)
	}},
	{"a killed session's flows are claimed, oldest first, at most the limit", func(t *testing.T, h Harness) {
		if h.Kill == nil {
			t.Skip("sessions can't be killed")
		}
		c := newFlowCaller(t, h.Journal)
		for i := range 5 {
			c.beginFlow(fmt.Sprint("flow-", i))
		}
		h.Kill(t, c.session)
		next := newFlowCaller(t, h.Journal)
		assert.Equal(t, []string{"flow-0", "flow-1", "flow-2"}, next.claimFlows(3, ride))
		assert.Equal(t, []string{"flow-3", "flow-4"}, next.claimFlows(3, ride))
	}},
	{"a flow that is postponed for a day without an operation to wait for needs attention, until it waits for one", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		f := c.beginFlow("put off")
		waits := c.beginFlow("waits for an operation")
		needs := func() (names []string) {
			for _, f := range c.listFlows(journal.FlowFilter{}) {
				if f.NeedsAttention(c.now) != "" {
					names = append(names, f.ID)
				}
			}
			return names
		}
		parkBoth := func() {
			ev := c.under(machine.FlowEventPark, f)
			ev.Due, ev.Cause = c.now.Add(time.Hour), "its credential is missing"
			c.decideFlow(ev, machine.Recorded)
			ev = c.under(machine.FlowEventPark, waits)
			ev.Due, ev.WaitsFor = c.now.Add(time.Hour), named("charge")
			c.decideFlow(ev, machine.Recorded)
		}
		for hour := range 25 {
			assert.Empty(t, needs(), "after %d hours", hour)
			parkBoth()
			if hour == 24 {
				break
			}
			c.now = c.now.Add(30 * time.Minute)
			assert.Empty(t, c.claimFlows(10, ride), "they are not due")
			c.now = c.now.Add(30 * time.Minute)
			assert.Len(t, c.claimFlows(10, ride), 2)
			f, waits = c.getFlow(f.ID), c.getFlow(waits.ID)
		}
		assert.Equal(t, []string{"put off"}, needs())
		f = c.getFlow("put off")
		assert.Contains(t, f.NeedsAttention(c.now), "its credential is missing")
		assert.Equal(t, []time.Time{noon, c.now.Add(time.Hour)}, []time.Time{f.ParkedSince, f.DueAt})
		assert.Equal(t, []string{"waits for an operation"}, flowIDs(c.listFlows(journal.FlowFilter{ByDue: true})), "no client plans by it")
		if reader, ok := h.Journal.(journal.StatsReader); ok {
			s, err := reader.ReadStats(t.Context())
			require.NoError(t, err)
			assert.Equal(t, int64(2), s.NeedsAttention, "and the other is overdue by now")
		}
		c.now = c.now.Add(time.Hour - time.Millisecond)
		assert.Empty(t, c.claimFlows(10, ride), "they are not due")
		c.now = c.now.Add(time.Millisecond)
		assert.Len(t, c.claimFlows(10, ride), 2)
		assert.Empty(t, needs(), "they run")
		f, waits = c.getFlow(f.ID), c.getFlow(waits.ID)
		f, waits = waits, f
		parkBoth()
		assert.Empty(t, needs())
	}},
	{"waiting flows are claimed when they are due", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		for i := range 4 {
			// The later created, the sooner due.
			c.parkFlow(c.beginFlow(fmt.Sprint("flow-", i)), noon.Add(time.Duration(10-i)*time.Second))
		}
		assert.Empty(t, c.claimFlows(10, ride))
		assert.Equal(t, []string{"flow-3"}, flowIDs(c.listFlows(journal.FlowFilter{ByDue: true, Limit: 1})))
		assert.Empty(t, c.listFlows(journal.FlowFilter{ByDue: true, Functions: []journal.FlowFunction{{Name: "another"}}}))
		assert.Len(t, c.listFlows(journal.FlowFilter{ByDue: true, Functions: []journal.FlowFunction{{}, ride}}), 4)
		c.now = noon.Add(9 * time.Second)
		assert.Equal(t, []string{"flow-2", "flow-3"}, c.claimFlows(2, ride), "those due longest")
		c.decideFlow(c.flowEvent(machine.FlowEventBegin, named("flow-0")), machine.Later)
		ev := c.flowEvent(machine.FlowEventBegin, named("flow-0"))
		ev.Sooner = true
		c.decideFlow(ev, machine.Execute)
		assert.Equal(t, []string{"flow-1"}, c.claimFlows(10, ride))
	}},
	{"a flow whose function the asker lacks is shown, not taken", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		newer := journal.FlowFunction{Name: "ride", Version: 2}
		for _, function := range []journal.FlowFunction{{}, ride, newer} {
			ev := c.flowEvent(machine.FlowEventBegin, named(fmt.Sprint("v", function.Version)))
			ev.Function = function
			c.decideFlow(ev, machine.Execute)
		}
		require.NoError(t, c.session.End(t.Context()))
		c = newFlowCaller(t, h.Journal)
		assert.Equal(t, []string{"v0", "v1"}, flowIDs(c.listFlows(journal.FlowFilter{Functions: []journal.FlowFunction{{}, ride}})))
		assert.Equal(t, []string{"v2", "v0 ignored", "v1 ignored"}, c.claimFlows(10, newer))
		assert.Equal(t, []string{"v0 ignored", "v1 ignored"}, c.claimFlows(10, newer))
		assert.Equal(t, []string{"v1"}, c.claimFlows(1, ride))
	}},
	{"a name is one flow", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		f := c.beginFlow("a")
		ev := c.flowEvent(machine.FlowEventBegin, named("a"))
		ev.InputDigest = "v1:other"
		c.decideFlow(ev, machine.Misuse)
		c.parkFlow(f, noon)
		ev = c.flowEvent(machine.FlowEventBegin, named("a"))
		ev.Function.Name = "another"
		c.decideFlow(ev, machine.Misuse)
		ev = c.flowEvent(machine.FlowEventBegin, named("a"))
		ev.Function.Version, ev.Key = 2, "other"
		f = c.decideFlow(ev, machine.Execute)
		assert.Equal(t, ride, f.Function, "its own version")
		assert.Equal(t, "key-of-a", f.Key)
		assert.EqualValues(t, 2, f.Claim)
	}},
	{"lists by state and scope", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		for i := range 450 {
			ref := journal.Ref{Scope: fmt.Sprint(i % 2), ID: fmt.Sprint("flow-", i)}
			f := c.decideFlow(c.flowEvent(machine.FlowEventBegin, ref), machine.Execute)
			if i%3 == 0 {
				ev := c.under(machine.FlowEventFinish, f)
				ev.Steps = stepsOf(noon, "create")
				c.decideFlow(ev, machine.Recorded)
			}
		}
		all := c.listFlows(journal.FlowFilter{})
		require.Len(t, all, 450)
		assert.Equal(t, "flow-449", all[449].ID)
		assert.Empty(t, all[0].Input)
		assert.Equal(t, "create", all[0].Steps[0].Name)
		assert.Empty(t, all[0].Steps[0].Result)
		newest := c.listFlows(journal.FlowFilter{Newest: true})
		slices.Reverse(newest)
		assert.Equal(t, flowIDs(all), flowIDs(newest))
		assert.Equal(t, []string{"flow-449", "flow-448"}, flowIDs(c.listFlows(journal.FlowFilter{Newest: true, Limit: 2})))
		assert.Equal(t, []string{"flow-77"}, flowIDs(c.listFlows(journal.FlowFilter{ID: "flow-77"})))
		even := "0"
		assert.Len(t, c.listFlows(journal.FlowFilter{Scope: &even}), 225)
		assert.Len(t, c.listFlows(journal.FlowFilter{States: []journal.FlowState{journal.FlowStateFinished}}), 150)
		assert.Len(t, c.listFlows(journal.FlowFilter{States: []journal.FlowState{journal.FlowStateFinished, journal.FlowStateRunning}, Scope: &even, Limit: 201}), 201)
	}},
	{"reaps ended flows, and keeps their names", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		for _, id := range []string{"a", "b", "c"} {
			ev := c.under(machine.FlowEventFinish, c.beginFlow(id))
			ev.Steps = stepsOf(noon, "create")
			c.decideFlow(ev, machine.Recorded)
		}
		c.beginFlow("running")
		ev := c.flowEvent(machine.FlowEventReap, journal.Ref{})
		ev.Keep = time.Hour
		for _, row := range []struct {
			after       time.Duration
			limit, want int
		}{{59 * time.Minute, 10, 0}, {time.Hour, 2, 2}, {time.Hour, 2, 1}, {time.Hour, 2, 0}} {
			ev.At = noon.Add(row.after)
			n, err := c.flows.ReapFlows(t.Context(), ev, row.limit)
			require.NoError(t, err)
			assert.Equal(t, row.want, n)
		}
		f := c.getFlow("a")
		assert.True(t, f.Tombstone)
		assert.Empty(t, f.Steps)
		assert.Empty(t, f.Input)
		c.decideFlow(c.flowEvent(machine.FlowEventBegin, named("a")), machine.Gone)
	}},
	{"a flow that is given up or retried by hand is due at once", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		f := c.beginFlow("a")
		c.decideFlow(machine.FlowEvent{Kind: machine.FlowEventGiveUp, Ref: f.Ref, At: c.now}, machine.Wait)
		ev := c.under(machine.FlowEventFail, f)
		ev.Limit = 1
		c.decideFlow(ev, machine.Recorded)
		assert.Empty(t, c.claimFlows(10, ride), "it is set aside")
		c.decideFlow(machine.FlowEvent{Kind: machine.FlowEventRetry, Ref: f.Ref, At: c.now}, machine.Recorded)
		f = c.decideFlow(c.flowEvent(machine.FlowEventBegin, f.Ref), machine.Execute)
		c.parkFlow(f, noon.Add(time.Hour))
		c.decideFlow(machine.FlowEvent{Kind: machine.FlowEventGiveUp, Ref: f.Ref, At: c.now, Cause: "sold out"}, machine.Recorded)
		assert.Equal(t, []string{"a"}, c.claimFlows(10, ride))
		assert.True(t, c.getFlow("a").Undoing)
		_, err := c.flows.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventGiveUp, Ref: named("none"), At: c.now})
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	}},
	{"many flows of many goroutines", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		const many = 300
		errs := make(chan error, many)
		sideBySide(many, func(i int) {
			errs <- func() error {
				result, err := c.flows.ApplyFlow(t.Context(), c.flowEvent(machine.FlowEventBegin, named(fmt.Sprint("flow-", i))))
				for seq, step := range stepsOf(noon, "create", "charge", "send") {
					ev := c.under(machine.FlowEventRecord, result.Flow)
					ev.Steps = []journal.StepRecord{step}
					_, failed := c.flows.ApplyFlow(t.Context(), ev)
					err = errors.Join(err, failed)
					if seq == 1 {
						c.generate(fmt.Sprint("operation-of-", i))
					}
				}
				_, failed := c.flows.ApplyFlow(t.Context(), c.under(machine.FlowEventFinish, result.Flow))
				return errors.Join(err, failed)
			}()
		})
		for range many {
			require.NoError(t, <-errs)
		}
		for _, f := range c.listFlows(journal.FlowFilter{}) {
			assert.Equal(t, journal.FlowStateFinished, f.State)
			assert.Len(t, f.Steps, 3)
		}
	}},
	{"a local step is recorded if its transaction commits, and only then", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		local, ok := h.Journal.(machine.LocalFlows)
		if !ok {
			t.Skip("the journal lies in no SQL database")
		}
		f := c.beginFlow("a")
		inTx := func(names []string, do func(ctx context.Context, tx journal.Tx) error) {
			tx, err := local.BeginTx(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(t.Context()) }()
			ev := c.under(machine.FlowEventRecord, f)
			ev.Steps = stepsOf(noon, names...)
			result, err := local.ApplyFlowTx(t.Context(), tx, ev)
			require.NoError(t, err)
			assert.Equal(t, machine.Recorded, result.Decision)
			require.NoError(t, do(t.Context(), tx))
		}
		inTx([]string{"lost"}, func(context.Context, journal.Tx) error { return nil })
		assert.Empty(t, c.getFlow("a").Steps)
		inTx([]string{"create", "charge"}, func(ctx context.Context, tx journal.Tx) error { return tx.Commit(ctx) })
		assert.Equal(t, stepsOf(noon, "create", "charge"), c.getFlow("a").Steps)
		c.decideFlow(c.under(machine.FlowEventFinish, f), machine.Recorded)
		tx, err := local.BeginTx(t.Context())
		require.NoError(t, err)
		ev := c.under(machine.FlowEventRecord, f)
		ev.Steps = stepsOf(noon, "create", "charge", "late")
		result, err := local.ApplyFlowTx(t.Context(), tx, ev)
		require.NoError(t, err)
		assert.Equal(t, machine.Stale, result.Decision)
		require.NoError(t, tx.Rollback(t.Context()))
		c.beginFlow("b")
	}},
	{"a flow is enqueued if its transaction commits, and only then", func(t *testing.T, h Harness) {
		c := newFlowCaller(t, h.Journal)
		local, ok := h.Journal.(machine.LocalFlows)
		if !ok {
			t.Skip("the journal takes no transactions of the application's")
		}
		inTx := func(ends func(tx journal.Tx) error, do func(apply func(ev machine.FlowEvent, want machine.Decision) journal.Flow)) {
			t.Helper()
			tx, err := local.BeginTx(t.Context())
			require.NoError(t, err)
			do(func(ev machine.FlowEvent, want machine.Decision) journal.Flow {
				t.Helper()
				result, err := local.ApplyFlowTx(t.Context(), tx, ev)
				require.NoError(t, err)
				require.Equal(t, want.String(), result.Decision.String())
				return result.Flow
			})
			require.NoError(t, ends(tx))
		}
		commit := func(tx journal.Tx) error { return tx.Commit(t.Context()) }
		rollback := func(tx journal.Tx) error { return tx.Rollback(t.Context()) }
		enqueue := func(id string) machine.FlowEvent {
			ev := c.flowEvent(machine.FlowEventEnqueue, named(id))
			ev.Session, ev.Cause = "", "enqueued"
			return ev
		}
		inTx(rollback, func(apply func(machine.FlowEvent, machine.Decision) journal.Flow) {
			apply(enqueue("a"), machine.Recorded)
		})
		_, err := c.flows.GetFlow(t.Context(), named("a"))
		require.ErrorIs(t, err, journal.ErrNotFound)
		later := enqueue("later")
		later.Due = c.now.Add(time.Hour)
		inTx(commit, func(apply func(machine.FlowEvent, machine.Decision) journal.Flow) {
			f := apply(enqueue("a"), machine.Recorded)
			assert.Equal(t, journal.FlowStateWaiting, f.State)
			apply(enqueue("a"), machine.Ignored)
			other := enqueue("a")
			other.InputDigest = "v1:other"
			apply(other, machine.Misuse)
			apply(later, machine.Recorded)
		})
		got := c.getFlow("a")
		assert.Equal(t, []byte(`{"of":"a"}`), got.Input)
		assert.Equal(t, "key-of-a", got.Key)
		assert.Equal(t, "enqueued", got.Cause)
		assert.Equal(t, c.now, got.DueAt)
		assert.Zero(t, got.Claim)
		c.beginFlow("b") // its handle is another
		assert.Equal(t, []string{"a ignored"}, c.claimFlows(10, journal.FlowFunction{Name: "another", Version: 1}))
		assert.Equal(t, []string{"a"}, c.claimFlows(10, ride))
		f := c.getFlow("a")
		assert.Equal(t, journal.FlowStateRunning, f.State)
		assert.EqualValues(t, 1, f.Claim)
		inTx(commit, func(apply func(machine.FlowEvent, machine.Decision) journal.Flow) {
			apply(enqueue("a"), machine.Ignored)
		})
		c.decideFlow(c.under(machine.FlowEventFinish, f), machine.Recorded)
		c.decideFlow(c.flowEvent(machine.FlowEventBegin, named("later")), machine.Later)
		c.now = c.now.Add(time.Hour)
		c.decideFlow(c.flowEvent(machine.FlowEventBegin, named("later")), machine.Execute)
		n, err := c.flows.ReapFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventReap, At: c.now, Keep: time.Minute}, 10)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		inTx(commit, func(apply func(machine.FlowEvent, machine.Decision) journal.Flow) { apply(enqueue("a"), machine.Gone) })
	}},
}
