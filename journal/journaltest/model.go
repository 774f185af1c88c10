package journaltest

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// model is an obviously correct journal: a list of operations, Next, and nothing else.
type model struct {
	ops  []journal.Operation // in order of creation, without handles
	live map[string]bool
	// The latest time is the same in every store; store.Clock has tests of its own.
	clock store.Clock
	heard map[machine.Heard]time.Time
	// reaped has removed operations' provider and caller's reference.
	reaped [][2]string
}

// snapshot is the state for restore.
func (m *model) snapshot() model {
	return model{ops: slices.Clone(m.ops), clock: m.clock, reaped: slices.Clone(m.reaped)}
}

func (m *model) restore(s model) { m.ops, m.clock = s.ops, s.clock }

// index finds an operation by the first or second name.
func (m *model) index(ref journal.Ref) int {
	return slices.IndexFunc(m.ops, func(op journal.Operation) bool { return op.Ref == ref || op.Alias == ref && ref != (journal.Ref{}) })
}

func (m *model) see(at time.Time) {
	if !m.clock.See(at) {
		return
	}
	for i, op := range m.ops {
		if next, _, _ := machine.Next(op, false, m.clock.Sweep()); changed(op, next) {
			m.ops[i] = next
		}
	}
}

func (m *model) apply(ev machine.Event) (machine.Result, error) {
	if (ev.Kind == machine.EventBegin || ev.Kind == machine.EventClaim) && !m.live[ev.Session] {
		return machine.Result{}, journal.ErrSessionLost
	}
	m.see(ev.At)
	i := m.index(ev.Ref)
	var op journal.Operation
	if i >= 0 {
		op = m.ops[i]
	}
	if ev.Intent != nil {
		for _, name := range ev.Intent.Rivals(&op) {
			if held := m.index(name); held >= 0 && held != i && (i < 0 || m.ops[held].State != journal.StateCancelled) {
				return machine.Result{Operation: m.ops[held], Decision: machine.Misuse, Last: m.clock.Last, Unconfirmed: m.clock.Unconfirmed(ev.At)}, nil
			}
		}
	}
	return m.next(i, ev)
}

func (m *model) next(i int, ev machine.Event) (machine.Result, error) {
	var op journal.Operation
	if i >= 0 {
		op = m.ops[i]
	}
	ev.Last, ev.Unconfirmed, ev.Ahead = m.clock.Last, m.clock.Unconfirmed(ev.At), m.clock.Ahead
	ev.Taken, ev.Sole = m.taken(i, op, ev), m.sole(i, op, ev)
	next, decision, err := machine.Next(op, m.live[op.Holder], ev)
	switch {
	case i < 0 && next.State != journal.StateAbsent:
		m.ops = append(m.ops, next)
		m.clock.Margin(next.Terms)
	case i >= 0 && next.State == journal.StateAbsent:
		if op.Reference != "" && !op.ReferenceOurs {
			m.reaped = append(m.reaped, [2]string{op.Provider, op.Reference})
		}
		m.ops = slices.Delete(m.ops, i, i+1)
	case i >= 0 && (changed(op, next) || decision == machine.Recorded):
		m.ops[i] = next
		m.clock.Margin(next.Terms)
	default:
		next.UpdatedAt = op.UpdatedAt
	}
	return machine.Result{Operation: next, Decision: decision, Last: ev.Last, Unconfirmed: ev.Unconfirmed}, err
}

func (m *model) claim(ev machine.Event, limit int) ([]machine.Result, error) {
	m.see(ev.At)
	var results []machine.Result
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
			op.State > journal.StateInFlight && !op.Delivered && !m.live[op.Holder] ||
			op.Holder != "" && !m.live[op.Holder]
		if !wanted {
			continue
		}
		result, err := m.next(i, ev)
		if err != nil {
			return results, err
		}
		if result.Decision != machine.Ignored { // otherwise it was passed over
			results = append(results, result)
		}
	}
	return results, nil
}

// sole reports whether no other operation has ev's reference.
func (m *model) sole(i int, op journal.Operation, ev machine.Event) bool {
	had := func(provider, reference string) bool {
		return reference == ev.Reference && provider == op.Provider
	}
	if ev.Reference == "" || ev.Kind != machine.EventEvidence || slices.ContainsFunc(m.reaped, func(r [2]string) bool { return had(r[0], r[1]) }) {
		return false
	}
	for j, other := range m.ops {
		shown := had(other.Provider, other.Reference) || slices.ContainsFunc(other.Rounds, func(r journal.Round) bool { return had(other.Provider, r.Reference) })
		if j != i && shown && machine.MayBeIn(&other, op.Account) && (other.Mode == op.Mode || other.Mode == "" || op.Mode == "") {
			return false
		}
	}
	return true
}

func (m *model) taken(i int, op journal.Operation, ev machine.Event) bool {
	if ev.Object == "" || ev.Kind != machine.EventEvidence && ev.Kind != machine.EventComplete && ev.Kind != machine.EventResolve {
		return false
	}
	account := cmp.Or(op.Account, ev.Account)
	for j, other := range m.ops {
		found := slices.ContainsFunc(other.Evidence, func(e journal.Evidence) bool { return e.Finding.TookEffect() && e.Object == ev.Object })
		if j != i && other.Provider == op.Provider && machine.Proves(&other, account, ev.Object) && (found || ev.Kind != machine.EventComplete) {
			return true
		}
	}
	return false
}

// hear is RecordEvent of the model.
func (m *model) hear(heard machine.Heard, evs []machine.Event) (results []machine.Result, first bool, err error) {
	if _, before := m.heard[heard]; before || len(evs) == 0 {
		return nil, !before, nil
	}
	for _, ev := range evs {
		var op journal.Operation
		if i := m.index(ev.Ref); i >= 0 {
			op = m.ops[i]
		}
		if _, _, err := machine.Next(op, false, ev); err != nil {
			return nil, false, err
		}
	}
	for _, ev := range evs {
		result, err := m.apply(ev)
		if err != nil {
			return nil, false, err
		}
		results = append(results, result)
	}
	m.heard[heard] = m.clock.Last
	return results, true, nil
}

// dueLooks returns the operations for Looks, in Looks' order.
func (m *model) dueLooks(ev machine.Event) []journal.Ref {
	var due []journal.Operation
	for _, op := range m.ops {
		if op.State == journal.StateUnknown && !op.LookAt.IsZero() && !op.LookAt.After(ev.At) && (ev.From == nil || slices.Contains(ev.From, op.Provider)) {
			due = append(due, op)
		}
	}
	slices.SortStableFunc(due, func(a, b journal.Operation) int { return a.LookAt.Compare(b.LookAt) })
	refs := make([]journal.Ref, len(due))
	for i, op := range due {
		refs[i] = op.Ref
	}
	return refs
}

// forget removes heard events that a reap with the given keep forgets.
func (m *model) forget(keep time.Duration, at time.Time) {
	before := m.clock.Passed(at).Add(-max(keep, machine.EvidenceKeep))
	for heard, at := range m.heard {
		if at.Before(before) {
			delete(m.heard, heard)
		}
	}
}

// reapable returns the operations which ev would shrink or remove.
func (m *model) reapable(ev machine.Event) []journal.Ref {
	var refs []journal.Ref
	for _, op := range m.ops {
		ev.Last, ev.Unconfirmed = m.clock.Last, m.clock.Unconfirmed(ev.At)
		if _, decision, _ := machine.Next(op, false, ev); decision == machine.Recorded {
			refs = append(refs, op.Ref)
		}
	}
	return refs
}

// changed reports whether there is a change to record. A changed UpdatedAt alone, Next's sign of a look, is none.
func changed(before, after journal.Operation) bool {
	after.UpdatedAt = before.UpdatedAt
	return !reflect.DeepEqual(normal(before), normal(after))
}

// normal returns an operation without the parts that a store may choose: the handle, and whether a window that never
// was is closed.
func normal(op journal.Operation) journal.Operation {
	op.Handle = 0
	if op.Terms.Window() == 0 {
		op.WindowClosed = false
	}
	return op
}

// handedOver is normal without the bodies or the request, if the decision allows their absence.
func handedOver(result machine.Result, kind machine.EventKind) journal.Operation {
	op := normal(result.Operation)
	op.Evidence = slices.Clone(op.Evidence)
	for i, e := range op.Evidence {
		if e.Answer != nil {
			answer := *e.Answer
			answer.Body, op.Evidence[i].Answer = nil, &answer
		}
	}
	switch result.Decision {
	case machine.Execute:
		if kind == machine.EventClaim || op.Found.MayHaveRun {
			return op
		}
		op.Request = journal.Request{} // the asker's own
	case machine.Replay, machine.Offer, machine.Stop, machine.Look, machine.Weighed:
		return op
	case machine.Recorded:
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
