package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// sound returns operations in every state, as Next leaves them by noon.
func sound(t *testing.T) map[journal.State]journal.Operation {
	begun, _ := next(t, journal.Operation{}, false, atNoon(begin(journal.Named, guarded)))
	by := func(kind machine.EventKind, change func(*machine.Event)) journal.Operation {
		ev := machine.Event{Kind: kind, At: noon, Last: noon, Session: begun.Holder, Claim: begun.Claim}
		change(&ev)
		op, decision := next(t, begun, true, ev)
		require.Equal(t, machine.Recorded, decision)
		return op
	}
	return map[journal.State]journal.Operation{
		journal.StateInFlight:  begun,
		journal.StatePending:   by(machine.EventPark, func(ev *machine.Event) { ev.Open, ev.Due = true, noon.Add(time.Minute) }),
		journal.StateCompleted: by(machine.EventComplete, func(ev *machine.Event) { ev.Answer, ev.Delivered = &journal.Answer{Status: 200}, true }),
		journal.StateUnknown:   by(machine.EventMarkUnknown, func(*machine.Event) {}),
		journal.StateCancelled: by(machine.EventCancel, func(ev *machine.Event) { ev.Unsent = true }),
	}
}

func atNoon(ev machine.Event) machine.Event {
	ev.At, ev.Last = noon, noon
	return ev
}

func TestEveryBrokenInvariantIsNamed(t *testing.T) {
	ops := sound(t)
	for state, op := range ops {
		require.Empty(t, machine.Violations(op, noon), state)
	}
	for _, row := range []struct {
		state  journal.State
		change func(op *journal.Operation)
		says   string
	}{
		{journal.StatePending, func(op *journal.Operation) { op.State = journal.StateAbsent }, "its state is one of the states"},
		{journal.StatePending, func(op *journal.Operation) { op.State = journal.StateCancelled + 1 }, "its state is one of the states"},
		{journal.StatePending, func(op *journal.Operation) { op.Naming = journal.Generated + 1 }, "its naming is one of the namings"},
		{journal.StatePending, func(op *journal.Operation) { op.Terms.Remembers = memory.Everything + 1 }, "its terms are readable"},
		{journal.StatePending, func(op *journal.Operation) { op.Claim = 0 }, "it was claimed when it was begun, unless it was enqueued"},
		{journal.StatePending, func(op *journal.Operation) { op.Claim, op.Enqueued = -1, true }, "it was claimed when it was begun, unless it was enqueued"},
		{journal.StateInFlight, func(op *journal.Operation) { op.Claim, op.Enqueued = 0, true }, "an operation that was never claimed was not sent"},
		{journal.StateCancelled, func(op *journal.Operation) { op.Claim, op.Enqueued, op.Attempts = 0, true, 1 }, "an operation that was never claimed was not sent"},
		{journal.StateCancelled, func(op *journal.Operation) { op.Claim, op.Enqueued, op.Found.FirstSentAt = 0, true, noon }, "an operation that was never claimed was not sent"},
		{journal.StatePending, func(op *journal.Operation) { op.Enqueued, op.Naming = true, journal.Carried }, "an enqueued operation has a name"},
		{journal.StatePending, func(op *journal.Operation) { op.Attempts = -1 }, "nothing is counted below zero"},
		{journal.StatePending, func(op *journal.Operation) { op.SecondEffects = 1 }, "a second effect is of an earlier generation, or another object"},
		{journal.StatePending, func(op *journal.Operation) { op.UpdatedAt = time.Time{} }, "it says when it was begun and changed"},
		{journal.StateUnknown, func(op *journal.Operation) { op.FirstSentAt = noon.Add(time.Hour + time.Millisecond) }, "it was not first sent after the journal's latest time"},
		{journal.StatePending, func(op *journal.Operation) { op.FirstSentAt = noon.Add(time.Hour + time.Millisecond) }, "it was not first sent after the journal's latest time"},
		{journal.StatePending, func(op *journal.Operation) { op.SentSince = op.FirstSentAt.Add(time.Hour) }, "it was not first sent before it may have been"},
		{journal.StatePending, func(op *journal.Operation) { op.Alias = op.Ref }, "its second name is another"},
		{journal.StateCompleted, func(op *journal.Operation) { op.Tombstone, op.Answer = true, nil }, "a tombstone has no digest of a request"},
		{journal.StateCancelled, func(op *journal.Operation) { op.WindowClosed, op.FirstSentAt = true, time.Time{} }, "a window that was closed had begun"},
		{journal.StateCancelled, func(op *journal.Operation) { op.Found.MayHaveRun = true }, "only an operator's decision clears that a claim found it to have run"},
		{journal.StateUnknown, func(op *journal.Operation) { op.ByHand = true }, "an operation cancelled by hand is settled"},
		{journal.StateCompleted, func(op *journal.Operation) { op.Answer = nil }, "it has an answer if and only if it is completed and not reaped"},
		{journal.StateUnknown, func(op *journal.Operation) { op.Answer = &journal.Answer{} }, "it has an answer if and only if it is completed and not reaped"},
		{journal.StateCompleted, func(op *journal.Operation) { op.Tombstone, op.Answer = true, nil }, "a tombstone is of a completed, delivered, named operation, and has no request"},
		{journal.StateUnknown, func(op *journal.Operation) { op.SettledAt = time.Time{} }, "an outcome says when it came"},
		{journal.StateUnknown, func(op *journal.Operation) { op.WakeAt = noon }, "an outcome is not due"},
		{journal.StateUnknown, func(op *journal.Operation) { op.Delivered, op.LookAt = true, time.Time{} }, "a delivered outcome has no holder, unless a session looks for it"},
		{journal.StatePending, func(op *journal.Operation) { op.Delivered = true }, "an operation without an outcome is neither settled nor delivered"},
		{journal.StatePending, func(op *journal.Operation) { op.Holder = "A" }, "a pending operation has no holder"},
		{journal.StatePending, func(op *journal.Operation) { op.WakeAt = time.Time{} }, "a pending operation is due, and woken, at some time"},
		{journal.StatePending, func(op *journal.Operation) { op.Terms.Retention = 0 }, "a pending operation that may have run has a window that has begun"},
		{journal.StateInFlight, func(op *journal.Operation) { op.Holder = "" }, "an operation in flight is held by a session"},
		{journal.StateInFlight, func(op *journal.Operation) { op.MayHaveRun = false }, "an operation in flight counts as sent"},
		{journal.StateInFlight, func(op *journal.Operation) { op.DueAt = noon }, "an operation in flight is not due"},
		{journal.StateCompleted, func(op *journal.Operation) { op.MayHaveRun = false }, "a completed operation has run"},
		{journal.StateCompleted, func(op *journal.Operation) { op.Answer = &journal.Answer{Generation: 1} }, "an answer is of one of its generations"},
		{journal.StateCompleted, func(op *journal.Operation) {
			op.Answer, op.Found.MayHaveRun, op.Terms.Remembers = &journal.Answer{Refused: true}, true, memory.Successes
		}, "a refusal is an answer only if nothing else may have run, or the provider remembers refusals"},
		{journal.StateUnknown, func(op *journal.Operation) { op.MayHaveRun = false }, "an unknown operation may have run, is on hold, or has evidence"},
		{journal.StateCancelled, func(op *journal.Operation) { op.MayHaveRun = true }, "a cancelled operation has not run"},
		{journal.StateUnknown, func(op *journal.Operation) { op.Looks = -1 }, "its evidence is bounded"},
		{journal.StateUnknown, func(op *journal.Operation) { op.Evidence = make([]journal.Evidence, 10) }, "its evidence is bounded"},
		{journal.StateUnknown, func(op *journal.Operation) { op.Rounds = make([]journal.Round, 17) }, "its evidence is bounded"},
		{journal.StatePending, func(op *journal.Operation) { op.LookAt = noon }, "an operation with a next look-up is unknown, and needs no attention"},
		{journal.StateUnknown, func(op *journal.Operation) { op.Attention = "ambiguous" }, "an operation with a next look-up is unknown, and needs no attention"},
		{journal.StatePending, func(op *journal.Operation) { op.Attention, op.ParkedSince = "ambiguous", time.Time{} }, "an operation that needs attention has an outcome, or was parked"},
		{journal.StateUnknown, func(op *journal.Operation) { op.ParkedSince = noon }, "an operation with an outcome is not parked"},
		{journal.StateUnknown, func(op *journal.Operation) { op.Object = "payment pay_1" }, "only a completed operation has an object that proves it"},
		{journal.StatePending, func(op *journal.Operation) { op.Withdrawn = &journal.Resolved{} }, "a withdrawn operation is neither sent nor due"},
		{journal.StateUnknown, func(op *journal.Operation) { op.Evidence = make([]journal.Evidence, 1) }, "evidence is of one of its generations"},
		{journal.StateUnknown, func(op *journal.Operation) {
			op.Evidence = []journal.Evidence{{Generation: 1, Finding: journal.FindingTookEffect}}
		}, "evidence is of one of its generations"},
		{journal.StateUnknown, func(op *journal.Operation) {
			op.Evidence = []journal.Evidence{{Finding: journal.FindingTookEffect, Basis: journal.BasisKey + 1}}
		}, "evidence is of one of its generations"},
		{journal.StateUnknown, func(op *journal.Operation) {
			op.Evidence = []journal.Evidence{{Finding: journal.FindingTookEffect, Answer: &journal.Answer{}}}
		}, "an answer is kept with evidence only while a claim is out"},
		{journal.StateUnknown, func(op *journal.Operation) { op.Rounds = make([]journal.Round, 1) }, "its rounds are earlier generations"},
	} {
		op := ops[row.state]
		row.change(&op)
		assert.Contains(t, machine.Violations(op, noon), row.says)
	}
}

// No invariant is broken by the marks of a clock that ran ahead, or of a second name.
func TestLateClockBreaksNoInvariant(t *testing.T) {
	ops := sound(t)
	for name, tc := range map[string]struct {
		state  journal.State
		change func(op *journal.Operation)
	}{
		"a second name":                      {journal.StatePending, func(op *journal.Operation) { op.Alias.ID = "its carried key" }},
		"completed, by a clock that is lost": {journal.StateCompleted, func(op *journal.Operation) { op.FirstSentAt = noon.Add(time.Hour) }},
		"enqueued, and never claimed":        {journal.StateCancelled, func(op *journal.Operation) { op.Claim, op.Enqueued = 0, true }},
		"enqueued, and claimed":              {journal.StateInFlight, func(op *journal.Operation) { op.Enqueued = true }},
		"its window closed for such a clock": {journal.StateUnknown, func(op *journal.Operation) { op.FirstSentAt, op.WindowClosed = noon.Add(time.Hour), true }},
	} {
		op := ops[tc.state]
		tc.change(&op)
		assert.Empty(t, machine.Violations(op, noon), name)
	}
}

func TestEveryBrokenInvariantOfAFlowIsNamed(t *testing.T) {
	flow := journal.Flow{
		State: journal.FlowStateWaiting, Claim: 1, InputDigest: "d", CreatedAt: noon, UpdatedAt: noon, DueAt: noon,
		Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepDone}, {Seq: 3, Kind: journal.StepTime}},
	}
	require.Empty(t, machine.FlowViolations(flow))
	done := func(seqs ...int) (steps []journal.StepRecord) {
		for _, seq := range seqs {
			steps = append(steps, journal.StepRecord{Seq: seq, Kind: journal.StepDone})
		}
		return steps
	}
	for _, row := range []struct {
		says   string
		change func(f *journal.Flow)
	}{
		{"its state is one of the states", func(f *journal.Flow) { f.State = journal.FlowStateSetAside + 1 }},
		{"its state is one of the states", func(f *journal.Flow) { f.State = journal.FlowStateAbsent }},
		{"a flow that was never claimed waits, and has no step", func(f *journal.Flow) { f.Claim, f.Steps = 0, done(1) }},
		{"a flow that was never claimed waits, and has no step", func(f *journal.Flow) { f.Claim = -1 }},
		{"it has its input's digest", func(f *journal.Flow) { f.InputDigest = "" }},
		{"it says when it was begun and changed", func(f *journal.Flow) { f.CreatedAt = time.Time{} }},
		{"its failures are counted", func(f *journal.Flow) { f.Failures = -1 }},
		{"its failures are counted", func(f *journal.Flow) { f.History = make([]journal.FlowFailure, machine.MaxFlowHistory+1) }},
		{"it is held by a session if and only if it runs", func(f *journal.Flow) { f.Holder = "A" }},
		{"it is due at some time if and only if it waits", func(f *journal.Flow) { f.DueAt = time.Time{} }},
		{"it says when it ended if and only if it did", func(f *journal.Flow) { f.EndedAt = noon }},
		{"an undone flow is not finished", func(f *journal.Flow) { f.State, f.Undoing = journal.FlowStateFinished, true }},
		{"a flow that was given up was undone", func(f *journal.Flow) { f.State = journal.FlowStateGivenUp }},
		{"a tombstone is of an ended flow, and has no steps", func(f *journal.Flow) { f.Tombstone, f.Steps = true, nil }},
		{"a tombstone is of an ended flow, and has no steps", func(f *journal.Flow) { f.State, f.Tombstone = journal.FlowStateFinished, true }},
		{"step 3 is of one of the kinds", func(f *journal.Flow) { f.Steps = []journal.StepRecord{{Seq: 3}} }},
		{"step 3 is of one of the kinds", func(f *journal.Flow) {
			f.Steps = []journal.StepRecord{{Seq: 3, Kind: journal.StepByHand + 1}}
		}},
		{"step 1 follows upon the one before it", func(f *journal.Flow) { f.Steps = done(1, 3, 1) }},
		{"step 3 follows upon the one before it", func(f *journal.Flow) { f.Steps = done(1, 3, 3) }},
		{"step 0 follows upon the one before it", func(f *journal.Flow) { f.Steps = done(0) }},
	} {
		f := flow
		row.change(&f)
		assert.Contains(t, machine.FlowViolations(f), row.says)
	}
	ended := func(state journal.FlowState) journal.Flow {
		f := flow
		f.State, f.DueAt, f.EndedAt = state, time.Time{}, noon
		return f
	}
	undoing, full, given, tombstone := flow, flow, ended(journal.FlowStateGivenUp), ended(journal.FlowStateFinished)
	undoing.Undoing, given.Undoing = true, true
	full.History = make([]journal.FlowFailure, machine.MaxFlowHistory)
	tombstone.Tombstone, tombstone.Steps = true, nil
	for name, f := range map[string]journal.Flow{
		"being undone": undoing, "undone": given, "finished": ended(journal.FlowStateFinished), "full of failures": full, "reaped": tombstone,
	} {
		assert.Empty(t, machine.FlowViolations(f), name)
	}
}
