package machine_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Another operation has an object of the same id, in an account that is not known. A completed operation keeps its own,
// and evidence about that is recorded.
func TestEvidenceAboutTheObjectThatTheAnswerNamed(t *testing.T) {
	completed := inDoubt()
	completed.State, completed.Object, completed.Account = journal.StateCompleted, "payment pay_1", journal.OwnCredential
	completed.Answer = &journal.Answer{Status: 200}
	for object, want := range map[string]machine.Decision{"payment pay_1": machine.Recorded, "payment pay_2": machine.Ignored} {
		ev := seen(completed, journal.FindingReversed, object)
		ev.Account, ev.Taken = journal.OwnCredential, true
		got, decision := next(t, completed, false, ev)
		assert.Equal(t, want, decision, object)
		assert.Equal(t, want == machine.Recorded, len(got.Evidence) == 1)
		assert.Equal(t, "payment pay_1", got.Object)
		assert.Empty(t, got.Attention)
		assert.Zero(t, got.SecondEffects)
	}
}

// paid is a completed operation whose outcome was delivered.
func paid() journal.Operation {
	op := inDoubt()
	op.State, op.LookAt, op.Object = journal.StateCompleted, time.Time{}, "payment pay_1"
	op.Answer, op.Delivered = &journal.Answer{Status: 200}, true
	return op
}

// heard is the finding of a provider's event of that id.
func heard(op journal.Operation, id string, finding journal.Finding, object string) machine.Event {
	ev := seen(op, finding, object)
	ev.Evidence.Source, ev.Evidence.Actor = journal.SourceEvent, id
	return ev
}

// Each late state of a completed operation is kept, by whichever source, and a repeat is not. Nothing else changes.
func TestLateStatesAreKept(t *testing.T) {
	const effect, reversed = journal.FindingTookEffect, journal.FindingReversed
	op := paid()
	for _, step := range []struct {
		id      string // "": a look-up
		finding journal.Finding
		kept    bool
	}{
		{"evt_0", effect, false}, // which its answer said
		{"evt_1", reversed, true},
		{"evt_1", reversed, false},
		{"", reversed, false},
		{"evt_2", reversed, true}, // the second reversal
		{"evt_3", effect, true},   // it came back
		{"evt_4", effect, false},
		{"evt_1", reversed, false},
		{"evt_3", effect, false},
		{"", reversed, true},
		{"", reversed, false},
		{"", effect, true},
	} {
		ev := heard(op, step.id, step.finding, "payment pay_1")
		if step.id == "" {
			ev.Evidence.Source = journal.SourceLook
		}
		require.Empty(t, brokenLaws(op, false, ev))
		got, decision := next(t, op, false, ev)
		name := step.id + " " + step.finding.String()
		assert.Equal(t, step.kept, decision == machine.Recorded, name)
		assert.Equal(t, step.kept, len(got.Evidence) == len(op.Evidence)+1, name)
		assert.Equal(t, journal.StateCompleted, got.State)
		assert.True(t, got.Delivered, "the hook is not called again")
		assert.Empty(t, got.Attention)
		assert.Equal(t, op.Effect(), got.Effect())
		op = got
	}
}

// However many late states come, the evidence of each object and round stays. A second effect, or an effect of a refused
// operation, alerts once.
func TestLateStatesCrowdNothingOut(t *testing.T) {
	for name, row := range map[string]struct {
		op    func(*journal.Operation)
		event func(journal.Operation) machine.Event
		is    machine.Decision
	}{
		"a second effect": {nil, func(op journal.Operation) machine.Event {
			return heard(op, "evt_2", journal.FindingTookEffect, "payment pay_2")
		}, machine.SecondEffect},
		"a refused operation": {func(op *journal.Operation) { op.Answer.Refused = true }, func(op journal.Operation) machine.Event {
			return heard(op, "evt_2", journal.FindingTookEffect, "payment pay_1")
		}, machine.Contradicted},
	} {
		op := paid()
		if row.op != nil {
			row.op(&op)
		}
		op.Evidence = []journal.Evidence{{Source: journal.SourceLook, Finding: journal.FindingInProgress}} // the oldest stays in any case
		op, decision := next(t, op, false, row.event(op))
		require.Equal(t, row.is, decision, name)
		op.Delivered = true
		for n := range 40 {
			finding := journal.FindingReversed
			if n%4 == 3 {
				finding = journal.FindingTookEffect
			}
			op, decision = next(t, op, false, heard(op, "flood_"+strconv.Itoa(n), finding, "payment pay_1"))
			assert.Equal(t, machine.Recorded, decision)
		}
		assert.Len(t, op.Evidence, 9)
		assert.Equal(t, "flood_39", op.Evidence[8].Actor)
		again, decision := next(t, op, false, row.event(op))
		assert.Contains(t, []machine.Decision{machine.Ignored, machine.Recorded}, decision, name)
		assert.True(t, again.Delivered, name)
		assert.Equal(t, op.SecondEffects, again.SecondEffects, name)
	}
}

// A refused operation took effect after all, and the effect was taken back. A person hears of that once.
func TestRefusedEffectIsContradictedOnce(t *testing.T) {
	for _, findings := range [][]journal.Finding{
		{journal.FindingTookEffect, journal.FindingReversed}, {journal.FindingReversed, journal.FindingTookEffect},
	} {
		op := paid()
		op.Answer.Refused = true
		op, decision := next(t, op, false, heard(op, "evt_1", findings[0], "payment pay_1"))
		require.Equal(t, machine.Contradicted, decision)
		require.False(t, op.Delivered)
		op.Delivered = true
		op, decision = next(t, op, false, heard(op, "evt_2", findings[1], "payment pay_1"))
		assert.Equal(t, machine.Recorded, decision)
		assert.True(t, op.Delivered)
		assert.Len(t, op.Evidence, 2)
	}
}

// Many events say that the provider has not decided yet. They are one piece of evidence, and crowd out no look-up.
func TestUndecidedEventsAreOneEvidence(t *testing.T) {
	op := inDoubt()
	op.Evidence = []journal.Evidence{{Source: journal.SourceEvent, Finding: journal.FindingInProgress}, {Source: journal.SourceLook, Finding: journal.FindingInconclusive, Why: "403"}}
	for n := range 20 {
		op, _ = next(t, op, false, heard(op, "evt_"+strconv.Itoa(n), journal.FindingInProgress, "payment pay_1"))
	}
	require.Len(t, op.Evidence, 3)
	assert.Equal(t, "403", op.Evidence[1].Why)
	assert.Equal(t, "evt_19", op.Evidence[2].Actor)
}
