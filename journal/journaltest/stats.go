package journaltest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

var statsTests = []test{
	{"count operations without an answer, and say since when", func(t *testing.T, h Harness) {
		reader, ok := h.Journal.(journal.StatsReader)
		if !ok {
			t.Skip("the store tells no stats")
		}
		stats := func() journal.Stats {
			s, err := reader.ReadStats(t.Context())
			require.NoError(t, err)
			return s
		}
		assert.Zero(t, stats().Begun+stats().Pending+stats().Undelivered+stats().Sessions)

		// The stores' own clock decides what is due.
		start := time.Now().UTC().Truncate(time.Millisecond).Add(-time.Hour)
		at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
		c := newCaller(t, h.Journal)
		begun := 0
		begin := func(minute int) journal.Operation {
			c.now = at(minute)
			begun++
			return c.begin(named(fmt.Sprint("op-", begun)))
		}
		begin(0)
		c.park(begin(1), at(120))
		c.park(begin(2), at(3))
		unknown := begin(4)
		c.now = at(5)
		c.decide(c.of(machine.EventMarkUnknown, unknown), machine.Recorded)
		sought := c.of(machine.EventMarkUnknown, begin(5))
		sought.LookAfter = time.Minute
		looked := c.decide(sought, machine.Recorded)
		cancelled := begin(6)
		cancel := c.of(machine.EventCancel, cancelled)
		cancel.Unsent, cancel.Delivered = true, true
		c.decide(cancel, machine.Recorded)
		undelivered := begin(7)
		c.now = at(8)
		c.complete(undelivered)
		c.completeDelivered(begin(9))
		c.now = at(10)
		elsewhere(c)
		pending := begin(11)
		c.park(pending, at(12))

		s := stats()
		assert.Equal(t, []int64{3, 1, 2, 1}, []int64{s.Pending, s.InFlight, s.Unknown, s.Cancelled})
		assert.GreaterOrEqual(t, s.Begun, int64(begun))
		assert.Equal(t, int64(2), s.Due)
		assert.Equal(t, at(1), s.OldestPending)
		assert.Equal(t, at(5), s.OldestUnknown)
		assert.Equal(t, int64(2), s.Undelivered, "the unknown one that no process looks for, and the completed one")
		assert.Equal(t, at(5), s.OldestUndelivered)
		assert.Equal(t, int64(1), s.Sessions)
		assert.Equal(t, at(11), s.Last)
		assert.Empty(t, s.Restored)
		assert.Equal(t, int64(3), s.NeedsAttention, "no process looks for an unknown operation, or the look is overdue, and one is in flight for long")
		found := c.of(machine.EventEvidence, looked)
		found.Attention, found.Evidence = "given up", &journal.Evidence{Source: journal.SourceLook, Finding: journal.FindingInconclusive}
		c.now = at(13)
		c.decide(found, machine.Recorded)
		assert.Equal(t, int64(3), stats().Undelivered, "what the look came to is to be delivered")
		assert.Equal(t, int64(3), stats().NeedsAttention)
		tomorrow := time.Now().Add(journal.PendingAttentionAfter)
		var due []string
		for _, op := range c.list(journal.Filter{States: []journal.State{journal.StatePending}}) {
			if op.NeedsAttention(tomorrow) != "" {
				due = append(due, op.ID)
			}
		}
		assert.NotEmpty(t, due)
		assert.Equal(t, due, ids(c.list(journal.Filter{States: []journal.State{journal.StatePending}, NeedsAttention: tomorrow})))

		if flows, ok := h.Journal.(machine.Flows); ok {
			assert.Zero(t, s.FlowsBegun)
			for i, name := range []string{"runs", "waits", "is set aside"} {
				c.now = at(20 + i)
				ev := machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: named(name), At: c.now, Session: c.session.ID(),
					Function: journal.FlowFunction{Name: "ride", Version: 1}, Key: "key-of-" + name, InputDigest: "v1:" + name}
				res, err := flows.ApplyFlow(t.Context(), ev)
				require.NoError(t, err)
				end := machine.FlowEvent{Ref: res.Flow.Ref, Handle: res.Flow.Handle, At: c.now, Session: c.session.ID(), Claim: res.Flow.Claim, Cause: "a test"}
				switch name {
				case "runs":
					continue
				case "waits":
					end.Kind, end.Due = machine.FlowEventPark, at(30)
				default:
					end.Kind, end.Limit = machine.FlowEventFail, 1
				}
				_, err = flows.ApplyFlow(t.Context(), end)
				require.NoError(t, err)
			}
			s := stats()
			assert.Equal(t, []int64{1, 1, 1, 3}, []int64{s.FlowsRunning, s.FlowsWaiting, s.FlowsSetAside, s.FlowsBegun})
			assert.Equal(t, at(22), s.OldestSetAside)
			assert.Equal(t, int64(3+3), s.NeedsAttention, "the flow that is set aside, and two that no process runs")
			attention := 0
			for f, err := range flows.ListFlows(t.Context(), journal.FlowFilter{}) {
				require.NoError(t, err)
				if f.NeedsAttention(time.Now()) != "" {
					attention++
				}
			}
			assert.Equal(t, 3, attention, "as many as are counted")
		}
		require.NoError(t, c.session.End(t.Context()))
		assert.Zero(t, stats().Sessions)
	}},
	{"say that a journal was restored", func(t *testing.T, h Harness) {
		if h.Restored == nil {
			t.Skip("the store can't tell")
		}
		c := newCaller(t, h.Journal)
		c.complete(c.begin(named("op-1")))
		j := h.Restored(t)
		reader, ok := j.(journal.StatsReader)
		if !ok {
			t.Skip("the store tells no stats")
		}
		s, err := reader.ReadStats(t.Context())
		require.NoError(t, err)
		assert.NotEmpty(t, s.Restored)
	}},
}
