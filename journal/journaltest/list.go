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

var listTests = []test{
	{"selects by every part of the filter", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.begin(named("in flight"))
		c.park(c.begin(journal.Ref{Scope: "tenant", ID: "pending late"}), noon.Add(2*time.Hour))
		c.park(c.begin(named("pending soon")), noon.Add(time.Hour))
		c.complete(c.begin(journal.Ref{Scope: "tenant", ID: "completed"}))
		c.completeDelivered(c.begin(named("delivered")))
		c.decide(c.of(machine.EventMarkUnknown, c.generate("unknown")), machine.Recorded)
		ev := c.beginEvent(named("other"))
		ev.Intent.Provider, ev.Intent.Naming = "bank", journal.Carried
		cancel := c.of(machine.EventCancel, c.decide(ev, machine.Execute))
		cancel.Unsent, cancel.Delivered = true, true
		c.decide(cancel, machine.Recorded)

		scope, none := "tenant", ""
		for name, row := range map[string]struct {
			filter journal.Filter
			want   []string
		}{
			"all":             {journal.Filter{}, []string{"in flight", "pending late", "pending soon", "completed", "delivered", "unknown", "other"}},
			"one state":       {journal.Filter{States: []journal.State{journal.StateUnknown}}, []string{"unknown"}},
			"states":          {journal.Filter{States: []journal.State{journal.StateInFlight, journal.StateCancelled}}, []string{"in flight", "other"}},
			"scope":           {journal.Filter{Scope: &scope}, []string{"pending late", "completed"}},
			"no scope":        {journal.Filter{Scope: &none}, []string{"in flight", "pending soon", "delivered", "unknown", "other"}},
			"provider":        {journal.Filter{Provider: "bank"}, []string{"other"}},
			"wake":            {journal.Filter{WakeBefore: noon.Add(time.Hour + 1)}, []string{"pending soon"}},
			"wake, exclusive": {journal.Filter{WakeBefore: noon.Add(time.Hour)}, nil},
			"wake after":      {journal.Filter{WakeAfter: noon.Add(time.Hour)}, []string{"pending late"}},
			"by wake, after":  {journal.Filter{ByWake: true, WakeAfter: noon.Add(time.Hour)}, []string{"pending late"}},
			"by wake, at":     {journal.Filter{ByWake: true, WakeAfter: noon.Add(time.Hour - 1)}, []string{"pending soon", "pending late"}},
			"undelivered":     {journal.Filter{Undelivered: true}, []string{"completed", "unknown"}},
			"by wake":         {journal.Filter{ByWake: true}, []string{"pending soon", "pending late"}},
			"by wake, limit":  {journal.Filter{ByWake: true, Limit: 1}, []string{"pending soon"}},
			"limit":           {journal.Filter{Limit: 2}, []string{"in flight", "pending late"}},
			"together": {journal.Filter{States: []journal.State{journal.StatePending, journal.StateCompleted}, Scope: &scope, Provider: "ledger", Limit: 5},
				[]string{"pending late", "completed"}},
			"nothing": {journal.Filter{Scope: &scope, Provider: "bank"}, nil},
		} {
			got := c.list(row.filter)
			assert.ElementsMatch(t, row.want, ids(got), name)
			if len(row.want) > 0 {
				assert.Equal(t, row.want, ids(got), name)
			}
		}
	}},
	{"a pending operation needs attention once claims have parked it for a day, until the next claim", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		parkUnsent := func(op journal.Operation, wake time.Time) {
			ev := c.of(machine.EventPark, op)
			ev.Wake, ev.Unsent, ev.Cause = wake, true, "its credential is another one"
			c.decide(ev, machine.Recorded)
		}
		needs := func() []string { return ids(c.list(journal.Filter{NeedsAttention: c.now})) }
		stuck, sent := c.begin(named("stuck")), c.begin(named("sent in the end"))
		for hour := range 25 {
			assert.Empty(t, needs(), "after %d hours", hour)
			parkUnsent(stuck, c.now.Add(time.Hour))
			parkUnsent(sent, c.now.Add(time.Hour))
			if hour == 20 {
				elsewhere(c)
			}
			if hour == 24 {
				break
			}
			c.now = c.now.Add(30 * time.Minute)
			assert.Empty(t, c.claim(10), "they are not due")
			c.now = c.now.Add(30 * time.Minute)
			results := c.claim(10)
			require.Equal(t, []string{"stuck", "sent in the end"}, claimed(results))
			stuck, sent = results[0].Operation, results[1].Operation
		}
		assert.Equal(t, []string{"stuck", "sent in the end"}, needs())
		op := c.get(named("stuck"))
		assert.Contains(t, op.Attention, "its credential is another one")
		assert.Equal(t, noon, op.ParkedSince)
		assert.Equal(t, c.now.Add(time.Hour), op.WakeAt)
		if reader, ok := h.Journal.(journal.StatsReader); ok {
			s, err := reader.ReadStats(t.Context())
			require.NoError(t, err)
			assert.Equal(t, int64(2), s.NeedsAttention)
		}
		assert.Empty(t, c.list(journal.Filter{ByWake: true}), "no client plans by them")
		assert.Empty(t, c.list(journal.Filter{WakeBefore: c.now.Add(time.Hour)}))
		assert.Len(t, c.list(journal.Filter{WakeBefore: c.now.Add(time.Hour + 1)}), 2)
		c.now = c.now.Add(time.Hour - time.Millisecond)
		assert.Empty(t, c.claim(10), "they are not due")
		c.now = c.now.Add(time.Millisecond)
		results := c.claim(10)
		require.Equal(t, []string{"stuck", "sent in the end"}, claimed(results))
		assert.Empty(t, needs(), "they are being sent")
		parkUnsent(results[0].Operation, c.now.Add(time.Hour))
		c.completeDelivered(results[1].Operation)
		assert.Equal(t, []string{"stuck"}, needs())
		resolve := c.of(machine.EventResolve, c.get(named("stuck")))
		resolve.Resolution, resolve.Key = journal.SendAgain, "second-key"
		op = c.decide(resolve, machine.Recorded)
		assert.True(t, op.ParkedSince.IsZero())
		assert.Empty(t, needs(), "a person had it sent")
	}},
	{"an operation that is in flight for long needs attention", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		op := c.begin(named("hangs"))
		elsewhere(c)
		overdue := noon.Add(journal.AttentionAfter)
		assert.Empty(t, c.list(journal.Filter{NeedsAttention: overdue.Add(-time.Millisecond)}))
		assert.Equal(t, []string{"hangs"}, ids(c.list(journal.Filter{NeedsAttention: overdue})))
		if reader, ok := h.Journal.(journal.StatsReader); ok {
			s, err := reader.ReadStats(t.Context())
			require.NoError(t, err)
			assert.Equal(t, int64(1), s.NeedsAttention, "by the store's clock, which is later")
		}
		assert.True(t, c.get(op.Ref).WakeAt.IsZero())
		c.completeDelivered(op)
		assert.Empty(t, c.list(journal.Filter{NeedsAttention: overdue}))
	}},
	{"is ordered by handles, from the oldest or the newest", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		const many = 650 // several pages of each size that a list reads
		states := []string{"delivered", "pending", "unknown"}
		handles := make([]int64, 0, many)
		for i := range many {
			op := c.begin(journal.Ref{Scope: fmt.Sprint(i % 5), ID: fmt.Sprint("op-", i)})
			handles = append(handles, op.Handle)
			switch states[min(i%7, 2)] {
			case "delivered":
				c.completeDelivered(op)
			case "pending":
				c.park(op, noon.Add(time.Hour))
			case "unknown":
				if i%7 == 2 {
					c.decide(c.of(machine.EventMarkUnknown, op), machine.Recorded)
				} else {
					c.completeDelivered(op)
				}
			}
		}
		all := c.list(journal.Filter{})
		require.Len(t, all, many)
		scope := "3"
		for name, filter := range map[string]journal.Filter{
			"all":          {},
			"pages":        {Limit: 37},
			"larger pages": {Limit: 333},
			"completed":    {States: []journal.State{journal.StateCompleted}, Limit: 100},
			"pending":      {States: []journal.State{journal.StatePending}, Limit: 50},
			"unknown":      {States: []journal.State{journal.StateUnknown}, Limit: 1000},
			"two states":   {States: []journal.State{journal.StatePending, journal.StateCompleted}, Limit: 100},
			"scope":        {Scope: &scope, Limit: 20},
			"undelivered":  {Undelivered: true},
			"between":      {After: handles[100], Before: handles[400], Limit: 64},
			"none between": {After: handles[100], Before: handles[101]},
			"none before":  {Before: handles[0]},
			"none after":   {After: handles[many-1]},
		} {
			whole := filter
			whole.Limit = 0
			want := c.list(whole)
			for _, newest := range []bool{false, true} {
				filter.Newest = newest
				got := c.listPages(filter)
				if newest {
					slices.Reverse(got)
				}
				assert.Equal(t, ids(want), ids(got), "%s, newest first: %t", name, newest)
			}
			expected := []string{}
			for _, op := range all {
				if op.Handle > filter.After && (filter.Before == 0 || op.Handle < filter.Before) && slices.ContainsFunc(want, func(w journal.Operation) bool { return w.ID == op.ID }) {
					expected = append(expected, op.ID)
				}
			}
			assert.Equal(t, expected, ids(want), name)
		}
		one := c.list(journal.Filter{After: handles[500] - 1, Limit: 1})
		assert.Equal(t, []string{"op-500"}, ids(one), "by its handle")
		assert.Len(t, c.list(journal.Filter{ByWake: true, Newest: true, After: handles[100], Before: handles[200]}), 14, "by wake, within bounds")
	}},
	{"leaves out bodies, keeps the rest, and shows tombstones", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.complete(c.begin(named("completed")))
		tomb := c.completeDelivered(c.begin(named("tombstone")))
		c.pass(noon.Add(48 * time.Hour))
		c.decide(c.of(machine.EventReap, tomb), machine.Recorded)
		for _, op := range c.list(journal.Filter{}) {
			want := c.get(op.Ref)
			want.Request.Body = nil
			if want.Answer != nil {
				want.Answer.Body = nil
			}
			assert.Equal(t, want, op)
			assert.Equal(t, op.ID == "tombstone", op.Tombstone)
		}
	}},
	{"sees every page once, while its reader writes", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		const many = 700
		sideBySide(many, func(i int) {
			c.park(c.begin(named(fmt.Sprint("op-", i))), noon.Add(time.Duration(i%7)*time.Second))
		})
		for _, byWake := range []bool{false, true} {
			seen := map[string]int{}
			for op, err := range h.Journal.List(t.Context(), journal.Filter{ByWake: byWake}) {
				assert.NoError(t, err)
				seen[op.ID]++
				if len(seen)%100 == 1 {
					c.generate(fmt.Sprint("meanwhile-", byWake, len(seen)))
				}
			}
			for i := range many {
				assert.Equal(t, 1, seen[fmt.Sprint("op-", i)])
			}
		}
	}},
	{"ends when its reader stops", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		for i := range 5 {
			c.begin(named(fmt.Sprint("op-", i)))
		}
		seen := 0
		for range h.Journal.List(t.Context(), journal.Filter{}) {
			if seen++; seen == 2 {
				break
			}
		}
		assert.Equal(t, 2, seen)
		c.begin(named("afterwards"))
	}},
}
