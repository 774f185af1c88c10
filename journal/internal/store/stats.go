package store

import (
	"time"

	"github.com/onceward/onceward/journal"
)

// Count adds an operation to the stats of its journal, all but Begun.
func Count(s *journal.Stats, op *journal.Operation, now time.Time) {
	switch op.State {
	case journal.StatePending:
		s.Pending++
		s.OldestPending = Earlier(s.OldestPending, op.CreatedAt)
		if !op.WakeAt.After(now) {
			s.Due++
		}
	case journal.StateInFlight:
		s.InFlight++
	case journal.StateUnknown:
		s.Unknown++
		s.OldestUnknown = Earlier(s.OldestUnknown, op.SettledAt)
	case journal.StateCancelled:
		s.Cancelled++
	}
	if op.Undelivered() {
		s.Undelivered++
		s.OldestUndelivered = Earlier(s.OldestUndelivered, op.SettledAt)
	}
	if op.NeedsAttention(now) != "" {
		s.NeedsAttention++
	}
}

// CountFlow adds a flow to them.
func CountFlow(s *journal.Stats, f *journal.Flow, now time.Time) {
	s.FlowsBegun++
	if f.NeedsAttention(now) != "" {
		s.NeedsAttention++
	}
	switch f.State {
	case journal.FlowStateRunning:
		s.FlowsRunning++
	case journal.FlowStateWaiting:
		s.FlowsWaiting++
	case journal.FlowStateSetAside:
		s.FlowsSetAside++
		s.OldestSetAside = Earlier(s.OldestSetAside, f.UpdatedAt)
	}
}

// Earlier is the earlier of two times, the zero time being none.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
