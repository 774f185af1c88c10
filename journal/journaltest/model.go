package journaltest

import (
	"reflect"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// model is the journal that everybody can see to be right: a list of operations,
// Next, and nothing else.
type model struct {
	ops  []journal.Operation // in order of creation, without handles
	live map[string]bool
	// The latest time that was seen is every store's alike; store.Clock has tests of its own.
	clock store.Clock
}

// index finds an operation by its name or its second one.
func (m *model) index(ref journal.Ref) int {
	return slices.IndexFunc(m.ops, func(op journal.Operation) bool { return op.Ref == ref || op.Alias == ref && ref != (journal.Ref{}) })
}

func (m *model) see(at time.Time) {
	if !m.clock.See(at) {
		return
	}
	for i, op := range m.ops {
		if next, _, _ := journal.Next(op, false, m.clock.Sweep()); changed(op, next) {
			m.ops[i] = next
		}
	}
}

func (m *model) apply(ev journal.Event) (journal.Result, error) {
	if (ev.Kind == journal.EventBegin || ev.Kind == journal.EventClaim) && !m.live[ev.Session] {
		return journal.Result{}, journal.ErrSessionLost
	}
	m.see(ev.At)
	i := m.index(ev.Ref)
	if i < 0 && ev.Kind == journal.EventBegin {
		for _, alias := range ev.Intent.Aliases() {
			if i := m.index(alias); i >= 0 {
				return journal.Result{Operation: m.ops[i], Decision: journal.Misuse, Last: m.clock.Last, Unconfirmed: m.clock.Unconfirmed(ev.At)}, nil
			}
		}
	}
	return m.next(i, ev)
}

func (m *model) next(i int, ev journal.Event) (journal.Result, error) {
	var op journal.Operation
	if i >= 0 {
		op = m.ops[i]
	}
	ev.Last, ev.Unconfirmed = m.clock.Last, m.clock.Unconfirmed(ev.At)
	next, decision, err := journal.Next(op, m.live[op.Holder], ev)
	switch {
	case i < 0 && next.State != journal.StateAbsent:
		m.ops = append(m.ops, next)
		m.clock.Margin(next.Terms)
	case i >= 0 && next.State == journal.StateAbsent:
		m.ops = slices.Delete(m.ops, i, i+1)
	case i >= 0 && (changed(op, next) || decision == journal.Recorded):
		m.ops[i] = next
		m.clock.Margin(next.Terms)
	default:
		next.UpdatedAt = op.UpdatedAt
	}
	return journal.Result{Operation: next, Decision: decision, Last: ev.Last, Unconfirmed: ev.Unconfirmed}, err
}

func (m *model) claim(ev journal.Event, limit int) ([]journal.Result, error) {
	m.see(ev.At)
	var results []journal.Result
	for i, op := range m.ops {
		if len(results) == limit {
			break
		}
		wakeBy := ev.At
		if !ev.Due.IsZero() {
			wakeBy = ev.Due
		}
		wanted := op.State == journal.StatePending && !op.WakeAt.After(wakeBy) ||
			op.State == journal.StateInFlight && !m.live[op.Holder] ||
			op.State > journal.StateInFlight && !op.Delivered && !m.live[op.Holder]
		if !wanted {
			continue
		}
		result, err := m.next(i, ev)
		if err != nil {
			return results, err
		}
		if result.Decision != journal.Ignored { // else it was passed over
			results = append(results, result)
		}
	}
	return results, nil
}

// reapable lists what ev would shrink or remove.
func (m *model) reapable(ev journal.Event) []journal.Ref {
	var refs []journal.Ref
	for _, op := range m.ops {
		ev.Last, ev.Unconfirmed = m.clock.Last, m.clock.Unconfirmed(ev.At)
		if _, decision, _ := journal.Next(op, false, ev); decision == journal.Recorded {
			refs = append(refs, op.Ref)
		}
	}
	return refs
}

// changed reports whether there is anything to record. An operation that was only
// looked at stays as it is, although Next says in UpdatedAt that it was.
func changed(before, after journal.Operation) bool {
	after.UpdatedAt = before.UpdatedAt
	return !reflect.DeepEqual(normal(before), normal(after))
}

// normal is an operation without what a store may decide for itself: its handle,
// and whether a window that never was is closed.
func normal(op journal.Operation) journal.Operation {
	op.Handle = 0
	if op.Terms.Window() == 0 {
		op.WindowClosed = false
	}
	return op
}

// handedOver is normal without the bodies or the request, where the decision may leave
// them out.
func handedOver(result journal.Result, kind journal.EventKind) journal.Operation {
	op := normal(result.Operation)
	switch result.Decision {
	case journal.Execute:
		if kind == journal.EventClaim || op.Found.MayHaveRun {
			return op
		}
		op.Request = journal.Request{} // the asker's own
	case journal.Replay, journal.Offer, journal.Stop:
		return op
	case journal.Recorded:
		op.Request = journal.Request{}
	}
	op.Request.Body = nil
	if op.Answer != nil {
		answer := *op.Answer
		answer.Body = nil
		if answer.Replaced != nil {
			replaced := *answer.Replaced
			replaced.Body, answer.Replaced = nil, &replaced
		}
		op.Answer = &answer
	}
	return op
}
