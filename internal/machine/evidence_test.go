package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// stated is a provider's contract that declares a handling time of ten minutes.
var stated = journal.Terms{Remembers: memory.SuccessesCleanFailures, Retention: 24 * time.Hour, Guard: true, Handling: 10 * time.Minute}

// inDoubt is an operation that is unknown since two hours before noon, after one claim with one attempt.
func inDoubt() journal.Operation {
	op := operation(journal.Named, stated)
	op.State, op.MayHaveRun, op.Failed = journal.StateUnknown, true, true
	op.Generation, op.Rounds, op.Claim, op.Attempts = 0, nil, 1, 1
	op.FirstSentAt = noon.Add(-3 * time.Hour)
	op.LastEndedAt, op.SettledAt, op.LookAt = noon.Add(-2*time.Hour), noon.Add(-2*time.Hour), noon.Add(-2*time.Hour)
	op.Account, op.Reference, op.ReferenceOurs = "acct_1", "ref-0", true
	return op
}

// seen is evidence of the operation's present generation, at noon.
func seen(op journal.Operation, finding journal.Finding, object string) machine.Event {
	return machine.Event{
		Kind: machine.EventEvidence, At: noon, Last: noon, Claim: op.Claim, Generation: op.Generation, Account: "acct_1", Object: object,
		Evidence: &journal.Evidence{Source: journal.SourceLook, Finding: finding, Basis: journal.BasisKey},
	}
}

// gone is the finding of the program's own look-up that nothing was executed, as late as it has to be.
func gone(op journal.Operation) machine.Event {
	ev := seen(op, journal.FindingAbsent, "")
	ev.Due, ev.Evidence.Source = noon.Add(time.Hour), journal.SourceHook
	ev.Absence = &machine.Absence{Began: noon.Add(-time.Minute), Handling: 10 * time.Minute}
	return ev
}

// A look-up of a table that finds nothing settles nothing.
func TestLookupThatFindsNothingSettlesNothing(t *testing.T) {
	op := inDoubt()
	for range 3 {
		ev := gone(op)
		ev.Evidence.Source, ev.Evidence.Why, ev.Absence = journal.SourceLook, "the list is empty", nil
		var decision machine.Decision
		op, decision = next(t, op, false, ev)
		require.Equal(t, machine.Recorded, decision)
		assert.Equal(t, journal.StateUnknown, op.State)
		require.Len(t, op.Evidence, 1)
		assert.Equal(t, journal.FindingInconclusive, op.Evidence[0].Finding)
		assert.Equal(t, "the list is empty", op.Evidence[0].Why)
	}
}

// A look-up of an operation that changed meanwhile is stale. Only an unknown operation can be absent.
func TestAbsenceOfAChangedOperationIsStale(t *testing.T) {
	op := inDoubt()
	ev := gone(op)
	op.Claim = 2
	_, decision := next(t, op, false, ev)
	assert.Equal(t, machine.Stale, decision)
	op.State, op.LookAt = journal.StatePending, time.Time{}
	_, decision = next(t, op, false, gone(op))
	assert.Equal(t, machine.Ignored, decision)
}

func TestEvidenceOfAnEffect(t *testing.T) {
	const pay1, pay2 = "payment pay_1", "payment pay_2"
	completed := func(op *journal.Operation, object string, answer journal.Answer) {
		op.State, op.LookAt, op.Object, op.Answer, op.Delivered = journal.StateCompleted, time.Time{}, object, &answer, true
	}
	for _, tc := range []struct {
		name     string
		op       func(*journal.Operation)
		ev       func(*machine.Event)
		decision machine.Decision
		state    journal.State
		object   string
		dead     string
		seconds  int
		kept     int
	}{
		{"unknown", nil, nil, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"unknown, of another account", nil, func(ev *machine.Event) { ev.Account = "acct_2" }, machine.Ignored, journal.StateUnknown, "", "", 0, 0},
		{"unknown, without an account", nil, func(ev *machine.Event) { ev.Account = "" }, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"unknown, the object of another, after a failed look-up", func(op *journal.Operation) {
			op.Evidence = []journal.Evidence{{Finding: journal.FindingInconclusive}}
		}, func(ev *machine.Event) { ev.Taken = true }, machine.Recorded, journal.StateUnknown, "", "", 0, 2},
		{"unknown, of an unknown account", func(op *journal.Operation) { op.Account = "" }, nil, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"unknown, the object of another", nil, func(ev *machine.Event) { ev.Taken = true }, machine.Recorded, journal.StateUnknown, "", "", 0, 1},
		{"unknown, a second time the object of another", func(op *journal.Operation) { op.Evidence = []journal.Evidence{{Finding: journal.FindingAmbiguous}} },
			func(ev *machine.Event) { ev.Taken = true }, machine.Recorded, journal.StateUnknown, "", "more than one object", 0, 2},
		{"unknown, ambiguous in another round", func(op *journal.Operation) {
			op.Generation, op.Evidence = 1, []journal.Evidence{{Finding: journal.FindingAmbiguous}}
		}, func(ev *machine.Event) { ev.Taken = true }, machine.Recorded, journal.StateUnknown, "", "", 0, 2},
		{"unknown, after a trace of another object", func(op *journal.Operation) {
			op.Evidence = []journal.Evidence{{Finding: journal.FindingTookEffect, Object: pay2}}
		}, nil, machine.Recorded, journal.StateUnknown, "", "more than one object", 0, 2},
		{"unknown, after a trace of the same object", func(op *journal.Operation) {
			op.Evidence = []journal.Evidence{{Finding: journal.FindingTookEffect, Object: pay1, Source: journal.SourceEvent}}
		}, nil, machine.Recorded, journal.StateCompleted, pay1, "", 0, 2},
		{"unknown, after a trace of another object in another round", func(op *journal.Operation) {
			op.Generation, op.Evidence = 1, []journal.Evidence{{Finding: journal.FindingTookEffect, Object: pay2}}
		}, nil, machine.Recorded, journal.StateCompleted, pay1, "", 0, 2},
		{"unknown, reversed since", nil, func(ev *machine.Event) { ev.Evidence.Finding = journal.FindingReversed }, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"on hold, never sent", func(op *journal.Operation) {
			neverLeft(op)
			op.Resolved = &journal.Resolved{Resolution: journal.Hold}
		}, nil, machine.Recorded, journal.StateUnknown, "", "another program", 0, 1},
		{"on hold", func(op *journal.Operation) { op.Resolved = &journal.Resolved{Resolution: journal.Hold} },
			nil, machine.Recorded, journal.StateUnknown, "", "", 0, 1},
		{"on hold, the object of another", func(op *journal.Operation) { op.Resolved = &journal.Resolved{Resolution: journal.Hold} },
			func(ev *machine.Event) { ev.Taken = true }, machine.Recorded, journal.StateUnknown, "", "", 0, 1},
		{"pending", func(op *journal.Operation) { op.State, op.LookAt = journal.StatePending, time.Time{} }, nil, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"pending, the object of another", func(op *journal.Operation) { op.State, op.LookAt = journal.StatePending, time.Time{} },
			func(ev *machine.Event) { ev.Taken = true }, machine.Ignored, journal.StatePending, "", "", 0, 0},
		{"pending, never sent", func(op *journal.Operation) { neverLeft(op); op.State = journal.StatePending },
			nil, machine.Recorded, journal.StateUnknown, "", "another program", 0, 1},
		{"pending, never sent, by fields", func(op *journal.Operation) { neverLeft(op); op.State = journal.StatePending },
			func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisFields }, machine.Ignored, journal.StatePending, "", "", 0, 0},
		{"pending, never sent, by our reference", func(op *journal.Operation) { neverLeft(op); op.State = journal.StatePending },
			func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisReference }, machine.Recorded, journal.StateUnknown, "", "another program", 0, 1},
		{"pending, never sent, by the caller's reference", func(op *journal.Operation) {
			neverLeft(op)
			op.State, op.ReferenceOurs = journal.StatePending, false
		}, func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisReference }, machine.Ignored, journal.StatePending, "", "", 0, 0},
		{"pending, never sent, after earlier evidence", func(op *journal.Operation) {
			neverLeft(op)
			op.Attention, op.Evidence = "another program", []journal.Evidence{{Finding: journal.FindingAmbiguous, Object: pay1}}
		}, nil, machine.Recorded, journal.StateUnknown, "", "another program", 0, 2},
		{"pending, and refused so far", func(op *journal.Operation) {
			op.State, op.LookAt, op.MayHaveRun = journal.StatePending, time.Time{}, false
		}, nil, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"cancelled, never sent", func(op *journal.Operation) { neverLeft(op); op.State = journal.StateCancelled },
			nil, machine.Recorded, journal.StateUnknown, "", "another program", 0, 1},
		{"cancelled by hand, never sent", func(op *journal.Operation) { byHand(op, journal.NotExecuted); neverLeft(op) },
			func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisFields }, machine.Ignored, journal.StateCancelled, "", "", 0, 0},
		{"cancelled by hand", func(op *journal.Operation) { byHand(op, journal.NotExecuted) }, nil, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"cancelled by hand, by fields", func(op *journal.Operation) { byHand(op, journal.NotExecuted) },
			func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisFields }, machine.Ignored, journal.StateCancelled, "", "", 0, 0},
		{"unknown, by fields", nil, func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisFields }, machine.Recorded, journal.StateUnknown, "", "", 0, 1},
		{"unknown, a second time by fields", func(op *journal.Operation) { op.Evidence = []journal.Evidence{{Finding: journal.FindingAmbiguous}} },
			func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisFields }, machine.Recorded, journal.StateUnknown, "", "shows no mark of it", 0, 2},
		{"unknown, by the caller's unique reference", func(op *journal.Operation) { op.ReferenceOurs = false }, callers(true),
			machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"unknown, by a shared reference of the caller", func(op *journal.Operation) { op.ReferenceOurs = false }, callers(false),
			machine.Recorded, journal.StateUnknown, "", "", 0, 1},
		{"unknown, by a reference of ours in a field", nil, callers(true),
			machine.Recorded, journal.StateUnknown, "", "", 0, 1},
		{"unknown, by the caller's unique reference, in an adopted journal", func(op *journal.Operation) { op.ReferenceOurs, op.Adopted = false, true }, callers(true),
			machine.Recorded, journal.StateUnknown, "", "", 0, 1},
		{"unknown, by another's reference", func(op *journal.Operation) { op.ReferenceOurs, op.Reference = false, "r" }, callers(true),
			machine.Recorded, journal.StateUnknown, "", "", 0, 1},
		{"cancelled by hand, against the caller's reference", func(op *journal.Operation) { byHand(op, journal.NotExecuted); op.ReferenceOurs = false }, callers(true),
			machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"pending, by a shared reference of the caller", func(op *journal.Operation) {
			op.State, op.LookAt, op.ReferenceOurs = journal.StatePending, time.Time{}, false
		}, callers(false), machine.Ignored, journal.StatePending, "", "", 0, 0},
		{"cancelled by hand, against the program's own look-up", func(op *journal.Operation) { byHand(op, journal.NotExecuted) },
			func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisPerson }, machine.Recorded, journal.StateUnknown, "", "an operator", 0, 1},
		{"cancelled by hand, against our reference", func(op *journal.Operation) { byHand(op, journal.NotExecuted) },
			func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisReference }, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"in the round of another decision, by the program's own look-up", func(op *journal.Operation) {
			op.Resolved = &journal.Resolved{Resolution: journal.SendAgain, Generation: 3}
		},
			func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisPerson }, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"held once, by the program's own look-up", func(op *journal.Operation) { op.Resolved = &journal.Resolved{Resolution: journal.Reinstate} },
			func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisPerson }, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},

		{"completed by it", func(op *journal.Operation) { completed(op, pay1, journal.Answer{}) }, nil, machine.Ignored, journal.StateCompleted, pay1, "", 0, 0},
		{"completed by another", func(op *journal.Operation) { completed(op, pay2, journal.Answer{}) }, nil, machine.SecondEffect, journal.StateCompleted, pay2, "twice", 1, 1},
		{"completed by another object, with this evidence already recorded", func(op *journal.Operation) {
			completed(op, pay2, journal.Answer{})
			op.SecondEffects, op.Evidence = 1, []journal.Evidence{{Finding: journal.FindingTookEffect, Object: pay1}}
		}, nil, machine.Ignored, journal.StateCompleted, pay2, "", 1, 1},
		{"completed without an object", func(op *journal.Operation) { completed(op, "", journal.Answer{}) }, nil, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"completed without an object, by fields", func(op *journal.Operation) { completed(op, "", journal.Answer{}) },
			func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisFields }, machine.Ignored, journal.StateCompleted, "", "", 0, 0},
		{"completed by it, and reversed", func(op *journal.Operation) { completed(op, pay1, journal.Answer{}) },
			func(ev *machine.Event) { ev.Evidence.Finding = journal.FindingReversed }, machine.Recorded, journal.StateCompleted, pay1, "", 0, 1},
		{"completed by it, and reversed, with this evidence already recorded", func(op *journal.Operation) {
			completed(op, pay1, journal.Answer{})
			op.Evidence = []journal.Evidence{{Finding: journal.FindingReversed, Object: pay1}}
		}, func(ev *machine.Event) { ev.Evidence.Finding = journal.FindingReversed }, machine.Ignored, journal.StateCompleted, pay1, "", 0, 1},
		{"completed by it, with this evidence already recorded, and reversed", func(op *journal.Operation) {
			completed(op, pay1, journal.Answer{})
			op.Evidence = []journal.Evidence{{Finding: journal.FindingTookEffect, Object: pay1}}
		}, func(ev *machine.Event) { ev.Evidence.Finding = journal.FindingReversed }, machine.Recorded, journal.StateCompleted, pay1, "", 0, 2},
		{"refused", func(op *journal.Operation) { completed(op, pay1, journal.Answer{Refused: true}) }, nil, machine.Contradicted, journal.StateCompleted, pay1, "refused", 0, 1},
		{"refused, with an object of its own", func(op *journal.Operation) { completed(op, pay2, journal.Answer{Refused: true}) },
			nil, machine.Contradicted, journal.StateCompleted, pay2, "refused", 0, 1},
		{"refused, which was contradicted", func(op *journal.Operation) {
			completed(op, pay1, journal.Answer{Refused: true})
			op.Evidence = []journal.Evidence{{Finding: journal.FindingTookEffect, Object: pay1}}
		}, nil, machine.Ignored, journal.StateCompleted, pay1, "", 0, 1},
		{"refused by a person's decision", func(op *journal.Operation) { completed(op, pay1, journal.Answer{Refused: true, ByHand: true}) },
			nil, machine.Ignored, journal.StateCompleted, pay1, "", 0, 0},
		{"reaped", func(op *journal.Operation) {
			completed(op, pay2, journal.Answer{})
			op.Answer, op.Tombstone = nil, true
		},
			nil, machine.SecondEffect, journal.StateCompleted, pay2, "twice", 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			op := inDoubt()
			if tc.op != nil {
				tc.op(&op)
			}
			ev := seen(op, journal.FindingTookEffect, pay1)
			if tc.ev != nil {
				tc.ev(&ev)
			}
			require.Empty(t, brokenLaws(op, false, ev))
			got, decision := next(t, op, false, ev)
			assert.Equal(t, tc.decision.String(), decision.String())
			assert.Equal(t, tc.state.String(), got.State.String())
			assert.Equal(t, tc.object, got.Object)
			assert.Equal(t, tc.seconds, got.SecondEffects)
			assert.Len(t, got.Evidence, tc.kept)
			assert.True(t, strings.Contains(got.Attention, tc.dead) && (tc.dead == "") == (got.Attention == ""), got.Attention)
			assert.True(t, got.Attention == "" || got.LookAt.IsZero())
			if got.State == journal.StateUnknown && op.State != journal.StateUnknown {
				assert.Equal(t, got.Attention, got.Cause)
			}
			assert.Equal(t, got.Tombstone || decision == machine.Ignored && op.Delivered || got.State == journal.StateCompleted && op.Delivered && got.Attention == "", got.Delivered,
				"what somebody has to see to is offered once more")
			if decision == machine.Recorded {
				assert.Equal(t, "acct_1", got.Account)
			}
			if got.State == journal.StateCompleted && op.State != journal.StateCompleted {
				assert.True(t, got.Answer.Found)
				assert.Equal(t, pay1, got.Answer.Pointer)
				assert.True(t, got.Answer.Omitted)
			}
		})
	}
}

// callers makes an event show the caller's reference. sole means that no other operation ever had it.
func callers(sole bool) func(*machine.Event) {
	return func(ev *machine.Event) { ev.Evidence.Basis, ev.Reference, ev.Sole = journal.BasisFields, "ref-0", sole }
}

// neverLeft changes an operation into one that no attempt has left.
func neverLeft(op *journal.Operation) {
	op.MayHaveRun, op.Failed, op.FirstSentAt, op.LastEndedAt, op.LookAt = false, false, time.Time{}, time.Time{}, time.Time{}
}

// byHand records a person's decision that the operation's generation was not executed.
func byHand(op *journal.Operation, said journal.Resolution) {
	op.State, op.LookAt, op.MayHaveRun, op.ByHand = journal.StateCancelled, time.Time{}, false, true
	op.Resolved = &journal.Resolved{Resolution: said, Generation: op.Generation}
}

func TestEvidenceOfAnEarlierRound(t *testing.T) {
	later := inDoubt()
	later.Generation, later.Rounds = 1, []journal.Round{{Key: "old key"}}
	unsent := later
	unsent.MayHaveRun, unsent.State, unsent.LookAt = false, journal.StatePending, time.Time{}
	waits := unsent
	waits.MayHaveRun = true
	said := unsent
	said.Resolved = &journal.Resolved{Resolution: journal.SendAgain}
	held := later
	held.Resolved = &journal.Resolved{Resolution: journal.Hold, Generation: 1}
	held.MayHaveRun = false
	neither := unsent
	neither.Rounds = nil
	known := later
	known.Evidence = []journal.Evidence{{Finding: journal.FindingTookEffect, Object: "payment pay_1"}}
	for _, tc := range []struct {
		name     string
		op       journal.Operation
		finding  journal.Finding
		change   func(*machine.Event)
		decision machine.Decision
		state    journal.State
	}{
		{"the next one may have run", later, journal.FindingTookEffect, nil, machine.SecondEffect, journal.StateUnknown},
		{"the next one waits to be sent again", waits, journal.FindingTookEffect, nil, machine.SecondEffect, journal.StateUnknown},
		{"which is known", known, journal.FindingTookEffect, nil, machine.Ignored, journal.StateUnknown},
		{"the next one was not sent", unsent, journal.FindingTookEffect, nil, machine.Recorded, journal.StateCompleted},
		{"the next one is on hold", held, journal.FindingTookEffect, nil, machine.Recorded, journal.StateUnknown},
		{"nor was this one", neither, journal.FindingTookEffect, nil, machine.Ignored, journal.StatePending},
		{"and it is another's", unsent, journal.FindingTookEffect, func(ev *machine.Event) { ev.Taken = true }, machine.Ignored, journal.StatePending},
		{"it was refused", unsent, journal.FindingRefused, nil, machine.Ignored, journal.StatePending},
		{"against a person's decision", said, journal.FindingTookEffect, nil, machine.Recorded, journal.StateCompleted},
		{"against a person's decision, by the program's own look-up", said, journal.FindingTookEffect, func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisPerson },
			machine.Recorded, journal.StateUnknown},
		{"by fields", unsent, journal.FindingTookEffect, func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisFields }, machine.Ignored, journal.StatePending},
	} {
		ev := seen(tc.op, tc.finding, "payment pay_1")
		ev.Generation = 0
		if tc.change != nil {
			tc.change(&ev)
		}
		got, decision := next(t, tc.op, false, ev)
		assert.Equal(t, tc.decision, decision, tc.name)
		assert.Equal(t, tc.state, got.State, tc.name)
		if got.State == journal.StateCompleted {
			assert.Equal(t, 0, got.Answer.Generation)
		}
		assert.Equal(t, got.State == journal.StateUnknown && len(tc.op.Evidence) == 0, got.Attention != "", "%s: nobody need see to what is sent again: %s", tc.name, got.Attention)
	}
}

func TestEvidenceOfARefusal(t *testing.T) {
	for _, tc := range []struct {
		name     string
		op       func(*journal.Operation)
		ev       func(*machine.Event)
		decision machine.Decision
		state    journal.State
	}{
		{"of the only attempt", nil, nil, machine.Recorded, journal.StateCompleted},
		{"of the only attempt, pending", func(op *journal.Operation) { op.State, op.LookAt = journal.StatePending, time.Time{} }, nil, machine.Recorded, journal.StateCompleted},
		{"of one of two attempts", func(op *journal.Operation) { op.Attempts = 2 }, nil, machine.Recorded, journal.StateUnknown},
		{"of one of two claims", func(op *journal.Operation) { op.Claim = 2 }, nil, machine.Recorded, journal.StateUnknown},
		{"at a provider that recognises refusals", func(op *journal.Operation) { op.Attempts, op.Terms.Remembers = 2, memory.Everything }, nil, machine.Recorded, journal.StateCompleted},
		{"of an operation that was never sent", func(op *journal.Operation) {
			neverLeft(op)
			op.Resolved = &journal.Resolved{Resolution: journal.Hold}
		}, nil, machine.Ignored, journal.StateUnknown},
		{"on hold", func(op *journal.Operation) { op.Resolved = &journal.Resolved{Resolution: journal.Hold} }, nil, machine.Recorded, journal.StateUnknown},
		{"of an operation that took effect", func(op *journal.Operation) {
			op.Evidence = []journal.Evidence{{Finding: journal.FindingTookEffect, Object: "payment pay_1"}}
		}, nil, machine.Recorded, journal.StateUnknown},
		{"by the object of another", nil, func(ev *machine.Event) { ev.Taken = true }, machine.Recorded, journal.StateUnknown},
		{"of a candidate", nil, func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisFields }, machine.Recorded, journal.StateUnknown},
		{"by its reference", nil, func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisReference }, machine.Recorded, journal.StateCompleted},
		{"of a cancelled operation", func(op *journal.Operation) { byHand(op, journal.NotExecuted) }, nil, machine.Ignored, journal.StateCancelled},
		{"against a person's decision to send again, by the program's own look-up", func(op *journal.Operation) {
			op.Resolved = &journal.Resolved{Resolution: journal.SendAgain}
		}, func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisPerson }, machine.Recorded, journal.StateUnknown},
		{"against a person's decision to send again, by its key", func(op *journal.Operation) {
			op.Resolved = &journal.Resolved{Resolution: journal.SendAgain}
		}, nil, machine.Recorded, journal.StateCompleted},
		{"against a person's decision on an earlier round, by the program's own look-up", func(op *journal.Operation) {
			op.Resolved = &journal.Resolved{Resolution: journal.SendAgain, Generation: -1}
		}, func(ev *machine.Event) { ev.Evidence.Basis = journal.BasisPerson }, machine.Recorded, journal.StateCompleted},
		{"of a completed operation", func(op *journal.Operation) {
			op.State, op.LookAt, op.Answer = journal.StateCompleted, time.Time{}, &journal.Answer{}
		}, nil, machine.Ignored, journal.StateCompleted},
	} {
		op := inDoubt()
		if tc.op != nil {
			tc.op(&op)
		}
		ev := seen(op, journal.FindingRefused, "payment pay_1")
		if tc.ev != nil {
			tc.ev(&ev)
		}
		got, decision := next(t, op, false, ev)
		assert.Equal(t, tc.decision, decision, tc.name)
		assert.Equal(t, tc.state, got.State, tc.name)
		assert.True(t, got.State != journal.StateCompleted || decision == machine.Ignored || got.Answer.Refused, tc.name)
		if got.State == journal.StateUnknown && decision != machine.Ignored && !ev.Taken && got.Resolved == nil {
			assert.Contains(t, got.Evidence[len(got.Evidence)-1].Why, map[bool]string{true: "no mark", false: "a part of"}[ev.Evidence.Basis == journal.BasisFields], tc.name)
		}
	}
}

func TestInvalidEvidenceIsRefused(t *testing.T) {
	for name, change := range map[string]func(*machine.Event){
		"no evidence":              func(ev *machine.Event) { ev.Evidence = nil },
		"no finding":               func(ev *machine.Event) { ev.Evidence.Finding = 0 },
		"no such finding":          func(ev *machine.Event) { ev.Evidence.Finding = journal.FindingReversed + 1 },
		"no claim":                 func(ev *machine.Event) { ev.Claim = 0 },
		"a claim to come":          func(ev *machine.Event) { ev.Claim = 2 },
		"a generation below zero":  func(ev *machine.Event) { ev.Generation = -1 },
		"a generation to come":     func(ev *machine.Event) { ev.Generation = 1 },
		"an effect without object": func(ev *machine.Event) { ev.Object = "" },
		"an absence without its time": func(ev *machine.Event) {
			ev.Evidence.Finding, ev.Evidence.Source = journal.FindingAbsent, journal.SourceHook
		},
	} {
		op := inDoubt()
		ev := seen(op, journal.FindingTookEffect, "payment pay_1")
		change(&ev)
		_, _, err := machine.Next(op, false, ev)
		assert.ErrorIs(t, err, journal.ErrInvalidEvent, name)
	}
	_, _, err := machine.Next(journal.Operation{}, false, seen(inDoubt(), journal.FindingTookEffect, "payment pay_1"))
	assert.ErrorIs(t, err, journal.ErrInvalidEvent)
	_, _, err = machine.Next(inDoubt(), false, machine.Event{Kind: machine.EventLook, At: noon})
	assert.ErrorIs(t, err, journal.ErrInvalidEvent)
}

func TestLooksAreLeasedOneAtATime(t *testing.T) {
	look := machine.Event{Kind: machine.EventLook, At: noon, Last: noon, Due: noon.Add(time.Minute)}
	for _, tc := range []struct {
		name     string
		op       func(*journal.Operation)
		ev       func(*machine.Event)
		decision machine.Decision
	}{
		{"due", nil, nil, machine.Look},
		{"due now", func(op *journal.Operation) { op.LookAt = noon }, nil, machine.Look},
		{"due later", func(op *journal.Operation) { op.LookAt = noon.Add(time.Second) }, nil, machine.Ignored},
		{"due later, and asked for", func(op *journal.Operation) { op.LookAt = noon.Add(time.Second) }, func(ev *machine.Event) { ev.Asked = true }, machine.Look},
		{"asked for again", func(op *journal.Operation) { op.LookedAt = noon.Add(-59 * time.Second) }, func(ev *machine.Event) { ev.Asked = true }, machine.Later},
		{"asked for a minute later", func(op *journal.Operation) { op.LookedAt = noon.Add(-time.Minute) }, func(ev *machine.Event) { ev.Asked = true }, machine.Look},
		{"asked for, and a clock ahead made the look-up", func(op *journal.Operation) { op.LookedAt = noon.Add(time.Minute) }, func(ev *machine.Event) { ev.Asked = true }, machine.Look},
		{"asked for by a clock that is behind", func(op *journal.Operation) { op.LookedAt = noon.Add(59 * time.Second) }, func(ev *machine.Event) { ev.Asked = true }, machine.Later},
		{"due soon after another", func(op *journal.Operation) { op.LookedAt = noon.Add(-time.Second) }, nil, machine.Look},
		{"dead", func(op *journal.Operation) { op.Attention, op.LookAt = "ambiguous", time.Time{} }, nil, machine.Ignored},
		{"dead, and asked for", func(op *journal.Operation) { op.Attention, op.LookAt = "ambiguous", time.Time{} }, func(ev *machine.Event) { ev.Asked = true }, machine.Look},
		{"of a provider", nil, func(ev *machine.Event) { ev.From = []string{"stripe"} }, machine.Look},
		{"of others", nil, func(ev *machine.Event) { ev.From = []string{"adyen"} }, machine.Ignored},
		{"completed", func(op *journal.Operation) { op.State, op.LookAt = journal.StateCompleted, time.Time{} }, nil, machine.Ignored},
		{"completed, and asked for", func(op *journal.Operation) { op.State, op.LookAt = journal.StateCompleted, time.Time{} },
			func(ev *machine.Event) { ev.Asked = true }, machine.Ignored},
	} {
		op, ev := inDoubt(), look
		if tc.op != nil {
			tc.op(&op)
		}
		if tc.ev != nil {
			tc.ev(&ev)
		}
		got, decision := next(t, op, false, ev)
		assert.Equal(t, tc.decision, decision, tc.name)
		if decision == machine.Look {
			assert.Equal(t, 1, got.Looks)
			assert.Equal(t, noon, got.LookedAt)
			assert.Equal(t, noon.Add(time.Minute), got.LookAt)
			assert.Empty(t, got.Attention)
		}
	}
	hint := machine.Event{Kind: machine.EventHint, At: noon, Last: noon}
	dead, later := inDoubt(), inDoubt()
	dead.Attention, dead.LookAt = "nothing can look", time.Time{}
	later.LookAt = noon.Add(time.Hour)
	for _, op := range []journal.Operation{dead, later} {
		got, decision := next(t, op, false, hint)
		assert.Equal(t, machine.Recorded, decision)
		assert.Equal(t, noon, got.LookAt)
		assert.Empty(t, got.Attention)
	}
	hint.Due = noon.Add(-time.Hour)
	got, _ := next(t, later, false, hint)
	assert.Equal(t, noon, got.LookAt)
	hint.Due = noon.Add(time.Minute)
	got, _ = next(t, later, false, hint)
	assert.Equal(t, noon.Add(time.Minute), got.LookAt)
	hint.Due = time.Time{}
	_, decision := next(t, inDoubt(), false, hint)
	assert.Equal(t, machine.Ignored, decision, "it is due")
	dead.State = journal.StateCompleted
	_, decision = next(t, dead, false, hint)
	assert.Equal(t, machine.Ignored, decision)
}

// Evidence that contradicts itself needs a decision. Look-ups and hints that decide nothing leave its reason as it is.
func TestDisputedOperationStaysOnTheList(t *testing.T) {
	look := machine.Event{Kind: machine.EventLook, At: noon, Last: noon, Due: noon.Add(time.Minute), Asked: true}
	hint := machine.Event{Kind: machine.EventHint, At: noon, Last: noon}
	objects := func(op journal.Operation) journal.Operation {
		op.State, op.Holder, op.LookAt = journal.StateInFlight, "A", time.Time{}
		op.Found.MayHaveRun = true
		op, _ = next(t, op, true, seen(op, journal.FindingTookEffect, "payment pay_1"))
		op, _ = next(t, op, true, seen(op, journal.FindingTookEffect, "payment pay_2"))
		doubt := machine.Event{Kind: machine.EventMarkUnknown, At: noon, Last: noon, Session: "A", Claim: op.Claim, Open: true, LookAfter: time.Minute}
		op, _ = next(t, op, true, doubt)
		return op
	}
	candidates := func(op journal.Operation) journal.Operation {
		for _, object := range []string{"payment pay_1", "payment pay_1, payment pay_2"} {
			op, _ = next(t, op, false, seen(op, journal.FindingAmbiguous, object))
		}
		return op
	}
	for name, make := range map[string]func(journal.Operation) journal.Operation{"two objects show its key": objects, "candidates, twice": candidates} {
		op := make(inDoubt())
		require.Equal(t, journal.StateUnknown, op.State, name)
		require.True(t, op.Disputed, name)
		why := op.Attention
		stays := func(after string, op journal.Operation) {
			t.Helper()
			assert.Equal(t, why, op.Attention, "%s: %s", name, after)
			assert.True(t, op.Disputed && op.LookAt.IsZero(), "%s: %s", name, after)
			assert.Empty(t, machine.Violations(op, noon), "%s: %s", name, after)
		}
		asked, decision := next(t, op, false, look)
		require.Equal(t, machine.Look, decision, name)
		stays("a caller asks", asked)
		for _, finding := range []journal.Finding{journal.FindingInconclusive, journal.FindingInProgress, journal.FindingAmbiguous} {
			ev := seen(asked, finding, "")
			ev.Due = noon.Add(time.Hour)
			got, _ := next(t, asked, false, ev)
			stays(finding.String(), got)
			ev.Attention = "given up after 168h0m0s"
			got, _ = next(t, asked, false, ev)
			stays(finding.String()+" at the end of the schedule", got)
		}
		hinted, decision := next(t, op, false, hint)
		assert.Equal(t, machine.Ignored, decision, name)
		stays("an event that proves nothing", hinted)

		decided, _ := next(t, asked, false, machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Resolution: journal.Executed, Claim: op.Claim, Object: "payment pay_1"})
		assert.Equal(t, journal.StateCompleted, decided.State, name)
		assert.Empty(t, decided.Attention, name)
		assert.False(t, decided.Disputed, name)
	}
}

func TestUndecidedEvidenceSetsTheNextLookup(t *testing.T) {
	op := inDoubt()
	ev := seen(op, journal.FindingInconclusive, "")
	got, _ := next(t, op, false, ev)
	assert.Equal(t, op.LookAt, got.LookAt, "it stays due")
	ev.Due = noon.Add(-time.Hour)
	got, _ = next(t, op, false, ev)
	assert.Equal(t, op.LookAt, got.LookAt)
	ev.Due = noon.Add(time.Hour)
	got, _ = next(t, op, false, ev)
	assert.Equal(t, noon.Add(time.Hour), got.LookAt)
	ev.Attention = "403"
	got, _ = next(t, op, false, ev)
	assert.Equal(t, "403", got.Attention)
	assert.True(t, got.LookAt.IsZero())
	ambiguous := op
	ambiguous.Evidence = []journal.Evidence{{Finding: journal.FindingAmbiguous}}
	alive, _ := next(t, ambiguous, false, seen(op, journal.FindingInconclusive, ""))
	assert.Empty(t, alive.Attention)
	round := op
	round.Generation, round.Evidence = 1, []journal.Evidence{{Finding: journal.FindingInconclusive, Source: journal.SourceLook}}
	round, _ = next(t, round, false, seen(round, journal.FindingInconclusive, ""))
	assert.Len(t, round.Evidence, 2, "of another round")
	got, _ = next(t, got, false, seen(op, journal.FindingInProgress, ""))
	assert.Equal(t, "403", got.Attention, "nothing was said of a next look")
	assert.Len(t, got.Evidence, 2)
	again, _ := next(t, got, false, seen(op, journal.FindingInProgress, ""))
	assert.Len(t, again.Evidence, 2, "the same as the latest takes its place")
}

// An operation keeps its first evidence, the evidence that decides, and the latest.
func TestKeptEvidenceIsBounded(t *testing.T) {
	op := inDoubt()
	op.State, op.Holder, op.LookAt = journal.StateInFlight, "A", time.Time{}
	op.Found.MayHaveRun = true
	refused := seen(op, journal.FindingRefused, "payment pay_9")
	op, _ = next(t, op, true, refused)
	op, decision := next(t, op, true, seen(op, journal.FindingTookEffect, "payment pay_1"))
	require.Equal(t, machine.Recorded, decision)
	_, decision = next(t, op, true, seen(op, journal.FindingTookEffect, "payment pay_1"))
	assert.Equal(t, machine.Ignored, decision, "it was heard")
	reversed, decision := next(t, op, true, seen(op, journal.FindingReversed, "payment pay_1"))
	assert.Equal(t, machine.Recorded, decision)
	assert.Len(t, reversed.Evidence, 3)
	crowd := op
	for i := range 12 {
		crowd, _ = next(t, crowd, true, seen(op, journal.FindingTookEffect, "payment "+string(rune('a'+i))))
	}
	require.Len(t, crowd.Evidence, 9)
	assert.Equal(t, "payment pay_9", crowd.Evidence[0].Object)
	assert.Equal(t, "payment l", crowd.Evidence[8].Object)
	round := op
	round.Generation, round.Evidence = 1, []journal.Evidence{{Finding: journal.FindingRefused}}
	_, decision = next(t, round, true, seen(round, journal.FindingRefused, ""))
	assert.Equal(t, machine.Recorded, decision, "of another round")
	for i := range 12 {
		ev := seen(op, journal.FindingRefused, "payment pay_"+string(rune('a'+i)))
		op, _ = next(t, op, true, ev)
	}
	require.Len(t, op.Evidence, 9)
	assert.Equal(t, "payment pay_9", op.Evidence[0].Object)
	assert.Equal(t, journal.FindingTookEffect, op.Evidence[1].Finding)
	assert.Equal(t, "payment pay_l", op.Evidence[8].Object)
}

// Evidence that arrives during a claim is weighed when the claim ends.
func TestKeptEvidenceIsWeighed(t *testing.T) {
	held := inDoubt()
	held.State, held.Holder, held.LookAt, held.SettledAt, held.Attempts = journal.StateInFlight, "A", time.Time{}, time.Time{}, 0
	heard := func(findings ...journal.Finding) journal.Operation {
		op := held
		for i, f := range findings {
			ev := seen(op, f, "payment pay_"+string(rune('1'+i)))
			ev.Answer = &journal.Answer{Status: 200, Body: []byte("seen")}
			op, _ = next(t, op, true, ev)
		}
		return op
	}
	alone := func(op journal.Operation) journal.Operation {
		op.Evidence = op.Evidence[:1]
		return op
	}
	end := func(kind machine.EventKind, change func(*machine.Event)) machine.Event {
		ev := machine.Event{Kind: kind, At: noon, Last: noon, Session: "A", Claim: 1, Attempts: 1}
		if change != nil {
			change(&ev)
		}
		return ev
	}
	took, refused := journal.FindingTookEffect, journal.FindingRefused
	alike := heard(refused, refused) // only the second is known to be the operation's own
	alike.Evidence[0].Basis = journal.BasisFields
	alike.Evidence[0].Answer = &journal.Answer{Status: 200, Refused: true, Body: []byte("another's")}
	noted := heard(took)
	noted.Evidence = append(noted.Evidence, journal.Evidence{Finding: journal.FindingReversed, Object: "payment pay_1"})
	for _, tc := range []struct {
		name     string
		op       journal.Operation
		ev       machine.Event
		decision machine.Decision
		state    journal.State
		dead     string
	}{
		{"park", heard(took), end(machine.EventPark, func(ev *machine.Event) { ev.Open = true }), machine.Weighed, journal.StateCompleted, ""},
		{"doubt", heard(took), end(machine.EventMarkUnknown, nil), machine.Weighed, journal.StateCompleted, ""},
		{"cancel, nothing was sent", heard(took), end(machine.EventCancel, func(ev *machine.Event) { ev.Unsent = true }), machine.Weighed, journal.StateUnknown, "another program"},
		{"two objects", heard(took, took), end(machine.EventMarkUnknown, nil), machine.Weighed, journal.StateUnknown, "more than one"},
		{"a refusal and an effect", heard(refused, took), end(machine.EventMarkUnknown, nil), machine.Weighed, journal.StateCompleted, ""},
		{"an effect and a refusal", heard(took, refused), end(machine.EventMarkUnknown, nil), machine.Weighed, journal.StateCompleted, ""},
		{"a refusal", heard(refused), end(machine.EventMarkUnknown, nil), machine.Weighed, journal.StateCompleted, ""},
		{"a refusal of a candidate", alone(alike), end(machine.EventMarkUnknown, nil), machine.Recorded, journal.StateUnknown, ""},
		{"a refusal after another's", alike, end(machine.EventMarkUnknown, nil), machine.Weighed, journal.StateCompleted, ""},
		{"a refusal of one of two", heard(refused), end(machine.EventMarkUnknown, func(ev *machine.Event) { ev.Attempts = 2 }), machine.Recorded, journal.StateUnknown, ""},
		{"a refusal, nothing was sent", heard(refused), end(machine.EventCancel, func(ev *machine.Event) { ev.Unsent = true }), machine.Recorded, journal.StateCancelled, ""},
		{"nothing", heard(), end(machine.EventMarkUnknown, nil), machine.Recorded, journal.StateUnknown, ""},
		{"its own refusal that does not stand", heard(took), end(machine.EventComplete, func(ev *machine.Event) {
			ev.Open, ev.Answer = true, &journal.Answer{Refused: true}
		}), machine.Weighed, journal.StateCompleted, ""},
		{"its own answer", heard(took), end(machine.EventComplete, func(ev *machine.Event) { ev.Answer = &journal.Answer{Status: 201} }), machine.Recorded, journal.StateCompleted, ""},
		{"with a note", noted, end(machine.EventMarkUnknown, nil), machine.Weighed, journal.StateCompleted, ""},
		{"its own refusal, and nothing else", heard(), end(machine.EventComplete, func(ev *machine.Event) { ev.Answer = &journal.Answer{Refused: true} }),
			machine.Recorded, journal.StateCompleted, ""},
		{"its own refusal", heard(took), end(machine.EventComplete, func(ev *machine.Event) { ev.Answer = &journal.Answer{Refused: true} }),
			machine.Recorded, journal.StateCompleted, "refused"},
		{"its own answer, of another object", heard(took), end(machine.EventComplete, func(ev *machine.Event) {
			ev.Answer, ev.Object = &journal.Answer{Status: 201}, "payment pay_7"
		}), machine.Recorded, journal.StateCompleted, "more than one"},
		{"its own answer, of this object", heard(took), end(machine.EventComplete, func(ev *machine.Event) {
			ev.Answer, ev.Object = &journal.Answer{Status: 201}, "payment pay_1"
		}), machine.Recorded, journal.StateCompleted, ""},
		{"its own answer, of another's object", heard(), end(machine.EventComplete, func(ev *machine.Event) {
			ev.Answer, ev.Object, ev.Taken = &journal.Answer{Status: 201}, "payment pay_1", true
		}), machine.Recorded, journal.StateCompleted, "another operation"},
		{"a claim of a dead session's operation", heard(took), machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B"}, machine.Weighed, journal.StateCompleted, ""},
		{"a begin of a dead session's operation", heard(took), begin(journal.Named, stated), machine.Weighed, journal.StateCompleted, ""},
		{"an adoption of a dead session's operation", heard(took), machine.Event{Kind: machine.EventAdopt, At: noon, Last: noon}, machine.Weighed, journal.StateCompleted, ""},
		{"a decision on a dead session's operation", heard(took), end(machine.EventResolve, func(ev *machine.Event) { ev.Resolution = journal.NotExecuted }),
			machine.Weighed, journal.StateCompleted, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Empty(t, brokenLaws(tc.op, false, tc.ev))
			got, decision := next(t, tc.op, false, tc.ev)
			assert.Equal(t, tc.decision.String(), decision.String())
			assert.Equal(t, tc.state.String(), got.State.String())
			assert.True(t, strings.Contains(got.Attention, tc.dead) && (tc.dead == "") == (got.Attention == ""), got.Attention)
			for _, e := range got.Evidence {
				assert.Nil(t, e.Answer)
			}
			if decision == machine.Weighed && got.State == journal.StateCompleted {
				assert.Equal(t, []byte("seen"), got.Answer.Body)
				assert.NotEmpty(t, got.Object)
				assert.Equal(t, tc.name == "a refusal" || tc.name == "a refusal after another's", got.Answer.Refused)
			}
			if tc.ev.Kind == machine.EventComplete && decision == machine.Recorded {
				assert.Equal(t, tc.ev.Object != "" && !tc.ev.Taken, got.Object != "")
			}
		})
	}
	large := seen(held, took, "payment pay_1")
	large.Answer = &journal.Answer{Status: 200, Body: make([]byte, machine.MaxEvidenceAnswer+1)}
	op, _ := next(t, held, true, large)
	assert.Nil(t, op.Evidence[0].Answer.Body)
	assert.True(t, op.Evidence[0].Answer.Omitted)
	large.Answer = &journal.Answer{Status: 200, Body: make([]byte, machine.MaxEvidenceAnswer)}
	op, _ = next(t, held, true, large)
	assert.False(t, op.Evidence[0].Answer.Omitted)
}

// Within one generation, an answer with another object is a second effect.
func TestAnotherObjectIsASecondEffect(t *testing.T) {
	op := inDoubt()
	op, _ = next(t, op, false, seen(op, journal.FindingTookEffect, "payment pay_1"))
	late := machine.Event{Kind: machine.EventComplete, At: noon, Last: noon, Session: "A", Claim: 1, Object: "payment pay_2", Answer: &journal.Answer{Status: 201}}
	got, decision := next(t, op, false, late)
	assert.Equal(t, machine.SecondEffect, decision)
	assert.Equal(t, 1, got.SecondEffects)
	assert.NotEmpty(t, got.Attention)
	assert.Equal(t, "payment pay_1", got.Object)
	assert.Empty(t, machine.Violations(got, noon))
	for name, row := range map[string]struct {
		change   func(*journal.Operation, *machine.Event)
		decision machine.Decision
	}{
		"a refusal":          {func(_ *journal.Operation, ev *machine.Event) { ev.Answer = &journal.Answer{Refused: true} }, machine.Contradicted},
		"no object":          {func(_ *journal.Operation, ev *machine.Event) { ev.Object = "" }, machine.Recorded},
		"the same":           {func(_ *journal.Operation, ev *machine.Event) { ev.Object = "payment pay_1" }, machine.Recorded},
		"nothing to compare": {func(op *journal.Operation, _ *machine.Event) { op.Object = "" }, machine.Recorded},
	} {
		op, ev := op, late
		row.change(&op, &ev)
		_, decision := next(t, op, false, ev)
		assert.Equal(t, row.decision, decision, name)
	}
}

// No process sends a withdrawn operation. Look-ups for it go on.
func TestWithdrawnIsNotSent(t *testing.T) {
	say := func(op journal.Operation, what journal.Resolution) machine.Event {
		return machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Resolution: what, Claim: op.Claim, Generation: op.Generation, By: "jane", Cause: "cancelled", Key: "k"}
	}
	unknown := inDoubt()
	op, decision := next(t, unknown, false, say(unknown, journal.Withdraw))
	assert.Equal(t, machine.Recorded, decision)
	assert.Equal(t, unknown.LookAt, op.LookAt)
	assert.Equal(t, "jane", op.Withdrawn.By)
	held := op
	held.Resolved = &journal.Resolved{Resolution: journal.Hold}
	_, _, err := machine.Next(held, false, say(op, journal.SendAgain))
	assert.ErrorContains(t, err, "withdrawn")
	wanted, _ := next(t, held, false, say(op, journal.Reinstate))
	assert.Nil(t, wanted.Withdrawn)
	assert.True(t, wanted.OnHold(), "the hold is another decision, and ends by itself")
	cancelled, _ := next(t, op, false, say(op, journal.NotExecuted))
	_, decision = next(t, cancelled, false, begin(journal.Named, stated))
	assert.Equal(t, machine.Withdrawn, decision)
	reinstated, _ := next(t, cancelled, false, say(op, journal.Reinstate))
	assert.Nil(t, reinstated.Withdrawn)
	_, decision = next(t, reinstated, false, begin(journal.Named, stated))
	assert.Equal(t, machine.Execute, decision)
	found, _ := next(t, op, false, seen(op, journal.FindingTookEffect, "payment pay_1"))
	assert.Equal(t, journal.StateCompleted, found.State)
	assert.NotNil(t, found.Withdrawn, "whoever hears of it is told")

	delivered := cancelled
	delivered.Delivered, delivered.Holder, delivered.SettledAt, delivered.Withdrawn = true, "", noon.Add(-time.Hour), nil
	kept, _ := next(t, delivered, false, say(op, journal.Withdraw))
	assert.True(t, kept.Delivered)
	assert.Equal(t, noon.Add(-time.Hour), kept.SettledAt, "it has its outcome")
	dead := inFlight(journal.Named, stated)
	left, _ := next(t, dead, false, say(dead, journal.Withdraw))
	assert.Equal(t, journal.StateUnknown, left.State)
	assert.Equal(t, "an operator withdrew it, and it may have run", left.Cause)
	assert.Equal(t, noon, left.LastEndedAt)
	unsent := pending(journal.Named, false)
	left, _ = next(t, unsent, false, say(unsent, journal.Withdraw))
	assert.Equal(t, journal.StateCancelled, left.State)
	assert.Equal(t, "an operator withdrew it", left.Cause)

	never := machine.MaySend(machine.Question{Withdrawn: true})
	assert.Equal(t, machine.Never, never.Answer)
	assert.Contains(t, never.Reason, "withdrew")
}

// A decision against evidence needs force.
func TestResolutionAgainstEvidenceNeedsForce(t *testing.T) {
	op := inDoubt()
	op.Attention, op.LookAt = "more than one", time.Time{}
	op.Evidence = []journal.Evidence{{Finding: journal.FindingTookEffect, Object: "payment pay_1"}}
	for _, what := range []journal.Resolution{journal.NotExecuted, journal.SendAgain} {
		ev := machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Resolution: what, Claim: op.Claim, Generation: op.Generation, Key: "k"}
		_, _, err := machine.Next(op, false, ev)
		assert.ErrorContains(t, err, "evidence", what)
		ev.Forced = true
		_, decision := next(t, op, false, ev)
		assert.Equal(t, machine.Recorded, decision)
	}
	ev := machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Resolution: journal.Executed, Claim: op.Claim, Generation: op.Generation}
	got, _ := next(t, op, false, ev)
	assert.Equal(t, journal.StateCompleted, got.State)
	assert.Empty(t, got.Attention)
}

// A client that looks up unknown operations delivers such an operation once it needs attention.
func TestUnknownIsDeliveredOnceItNeedsAttention(t *testing.T) {
	op := inDoubt()
	claim := machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B", Looking: true}
	_, decision := next(t, op, false, claim)
	assert.Equal(t, machine.Ignored, decision)
	claim.Looking = false
	_, decision = next(t, op, false, claim)
	assert.Equal(t, machine.Offer, decision)
	claim.Looking = true
	op.Attention, op.LookAt = "nothing can look", time.Time{}
	_, decision = next(t, op, false, claim)
	assert.Equal(t, machine.Offer, decision)
	op.Attention, op.State, op.Answer = "", journal.StateCompleted, &journal.Answer{}
	_, decision = next(t, op, false, claim)
	assert.Equal(t, machine.Offer, decision)
}

func TestEarlierGenerationsAreFoundByTheirMarks(t *testing.T) {
	op := inDoubt()
	op.Generation, op.Key, op.Reference = 2, "key", "ref-2"
	op.Rounds = []journal.Round{{Generation: 0, Key: "old key", Reference: "ref-0"}, {Generation: 1, Key: "key", Reference: "ref-1"}}
	for _, tc := range []struct {
		by    machine.By
		value string
		sent  bool
		want  int
		found bool
	}{
		{machine.ByKey, "key", true, 2, true},
		{machine.ByKey, "key", false, 1, true},
		{machine.ByKey, "old key", true, 0, true},
		{machine.ByReference, "ref-2", false, 2, true},
		{machine.ByReference, "ref-1", true, 1, true},
		{machine.ByReference, "key", true, 0, false},
		{machine.ByKey, "ref-1", true, 0, false},
		{machine.ByKey, "", true, 0, false},
	} {
		op.MayHaveRun = tc.sent
		got, found := machine.RoundBy(&op, tc.by, tc.value)
		assert.Equal(t, tc.found, found, tc)
		assert.Equal(t, tc.want, got, tc)
	}
	op.Evidence = []journal.Evidence{{Generation: 1, Finding: journal.FindingTookEffect, Object: "payment pay_1"}}
	got, found := machine.RoundBy(&op, machine.ByObject, "payment pay_1")
	assert.True(t, found)
	assert.Equal(t, 1, got)
	assert.True(t, machine.Proves(&op, "acct_1", "payment pay_1"))
	assert.True(t, machine.Proves(&op, "", "payment pay_1"))
	assert.False(t, machine.Proves(&op, "acct_2", "payment pay_1"))
	_, found = machine.RoundBy(&op, machine.ByObject, "payment pay_2")
	assert.False(t, found)
}

// Evidence keeps an operation for as long as providers repeat events. An operation without a tombstone stays for as
// long as an event may name it.
func TestReapKeepsOperationsThatAnEventMayName(t *testing.T) {
	reap := func(op journal.Operation, days int) machine.Decision {
		at := noon.Add(time.Duration(days) * 24 * time.Hour)
		_, decision := next(t, op, false, machine.Event{Kind: machine.EventReap, At: at, Last: at})
		return decision
	}
	for _, tc := range []struct {
		name   string
		naming journal.Naming
		state  journal.State
		change func(*journal.Operation)
		days   int
	}{
		{"a tombstone is left", journal.Named, journal.StateCompleted, func(op *journal.Operation) { op.Object = "payment pay_1" }, 1},
		{"unnamed, nothing can name it", journal.Generated, journal.StateCompleted, func(op *journal.Operation) {}, 1},
		{"unnamed, with an object", journal.Generated, journal.StateCompleted, func(op *journal.Operation) { op.Object = "payment pay_1" }, 35},
		{"unnamed, with a reference", journal.Carried, journal.StateCompleted, func(op *journal.Operation) { op.Reference = "order-1" }, 35},
		{"cancelled", journal.Named, journal.StateCancelled, func(op *journal.Operation) {}, 1},
		{"cancelled, with a reference", journal.Named, journal.StateCancelled, func(op *journal.Operation) { op.Reference = "order-1" }, 35},
	} {
		op := operation(tc.naming, stated)
		op.State, op.Delivered, op.SettledAt = tc.state, true, noon
		tc.change(&op)
		assert.Equal(t, machine.Ignored, reap(op, tc.days-1), tc.name)
		assert.Equal(t, machine.Recorded, reap(op, tc.days), tc.name)
	}
}

// A cancelled operation that was withdrawn stays as long as the withdrawal stands. Otherwise a caller that asks by its
// name would send it. An operation without a name is reaped: no caller can ask for it.
func TestWithdrawnOutlivesItsKeep(t *testing.T) {
	for naming, want := range map[journal.Naming]machine.Decision{
		journal.Named: machine.Ignored, journal.Carried: machine.Ignored, journal.Generated: machine.Recorded,
	} {
		op := operation(naming, stated)
		op.State, op.Delivered, op.SettledAt = journal.StateCancelled, true, noon
		op.Withdrawn = &journal.Resolved{Resolution: journal.Withdraw, By: "jane"}
		after := noon.Add(400 * 24 * time.Hour)
		_, decision := next(t, op, false, machine.Event{Kind: machine.EventReap, At: after, Last: after})
		assert.Equal(t, want, decision, naming)
	}
}

func TestEvidenceKeepsAnOperation(t *testing.T) {
	op := inDoubt()
	op, _ = next(t, op, false, seen(op, journal.FindingTookEffect, "payment pay_1"))
	op.Delivered = true
	reap := machine.Event{Kind: machine.EventReap, At: noon.Add(34 * 24 * time.Hour), Last: noon.Add(34 * 24 * time.Hour)}
	_, decision := next(t, op, false, reap)
	assert.Equal(t, machine.Ignored, decision)
	reap.At, reap.Last = noon.Add(35*24*time.Hour), noon.Add(35*24*time.Hour)
	tomb, decision := next(t, op, false, reap)
	assert.Equal(t, machine.Recorded, decision)
	assert.Equal(t, op.Evidence, tomb.Evidence)
	assert.Equal(t, op.Object, tomb.Object)
	reap.Keep = 36 * 24 * time.Hour
	_, decision = next(t, op, false, reap)
	assert.Equal(t, machine.Ignored, decision)
	op.Evidence = nil
	reap.At, reap.Last, reap.Keep = noon.Add(2*24*time.Hour), noon.Add(2*24*time.Hour), 0
	_, decision = next(t, op, false, reap)
	assert.Equal(t, machine.Recorded, decision)
}

func TestEarlierGenerationsKeepTheirMarks(t *testing.T) {
	op := inDoubt()
	again := func(op journal.Operation) journal.Operation {
		ev := machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Resolution: journal.SendAgain, Claim: op.Claim, Generation: op.Generation,
			Key: op.Key + "'", Reference: "another"}
		op, decision := next(t, op, false, ev)
		require.Equal(t, machine.Recorded, decision)
		op.FirstSentAt = noon
		return op
	}
	ours := again(op)
	assert.Equal(t, "another", ours.Reference)
	assert.Equal(t, []journal.Round{{Key: "its key", Reference: "ref-0"}}, ours.Rounds)
	op.ReferenceOurs = false
	assert.Equal(t, "ref-0", again(op).Reference, "the caller's request has it still")
	for range 20 {
		op = again(op)
	}
	require.Len(t, op.Rounds, 16)
	assert.Equal(t, 4, op.Rounds[0].Generation)
	assert.Equal(t, 19, op.Rounds[15].Generation)
	assert.Empty(t, machine.Violations(op, noon))
}

// A late answer of an earlier round that shows the recorded object is no second effect.
func TestMergedGenerationsAreOneEffect(t *testing.T) {
	op := inDoubt()
	op.Generation = 1
	op, _ = next(t, op, false, seen(op, journal.FindingTookEffect, "payment pay_1"))
	late := machine.Event{Kind: machine.EventComplete, At: noon, Last: noon, Claim: 1, Generation: 0, Object: "payment pay_1", Answer: &journal.Answer{Status: 201}}
	_, decision := next(t, op, false, late)
	assert.Equal(t, machine.Ignored, decision)
	late.Object = "payment pay_2"
	_, decision = next(t, op, false, late)
	assert.Equal(t, machine.SecondEffect, decision)
	late.Object = ""
	_, decision = next(t, op, false, late)
	assert.Equal(t, machine.SecondEffect, decision)
}

// A trace of the operation forbids an absence for good, however much undecided evidence follows.
func TestDecisiveEvidenceIsNotCrowdedOut(t *testing.T) {
	crowded := func(op journal.Operation, finding journal.Finding) journal.Operation {
		op, _ = next(t, op, true, seen(op, finding, "payment pay_1"))
		for i := range 30 {
			ev := seen(op, journal.FindingInconclusive, "")
			ev.Evidence.Source = []string{journal.SourceLook, journal.SourceHook}[i%2]
			op, _ = next(t, op, true, ev)
		}
		return op
	}
	for _, finding := range []journal.Finding{journal.FindingInProgress, journal.FindingInconclusive} {
		op := crowded(inDoubt(), finding)
		op, _ = next(t, op, true, gone(op))
		require.Equal(t, journal.StateUnknown, op.State)
		assert.Equal(t, "an earlier look-up or webhook saw a trace of it", op.Evidence[len(op.Evidence)-1].Why)
	}
}

// A look-up by a session that died is due again after the first pause of the schedule. A finding ends the session's hold.
func TestALookUpEndsWithItsSession(t *testing.T) {
	const pause = 10 * time.Second
	lease := noon.Add(10 * time.Minute)
	looks := machine.Event{Kind: machine.EventLook, At: noon, Last: noon, Due: lease, Looker: "A"}
	claims := func(after time.Duration) machine.Event {
		return machine.Event{Kind: machine.EventClaim, At: noon.Add(after), Last: noon.Add(after), Session: "B", LookAfter: pause, Looking: true}
	}
	op := inDoubt()
	op.Holder, op.Delivered = "", true
	leased, decision := next(t, op, false, looks)
	require.Equal(t, machine.Look, decision)
	require.Equal(t, "A", leased.Holder)

	_, decision = next(t, leased, true, claims(time.Hour))
	assert.Equal(t, machine.Ignored, decision, "it lives")
	for after, due := range map[time.Duration]time.Duration{time.Second: pause, time.Minute: time.Minute, time.Hour: lease.Sub(noon)} {
		got, decision := next(t, leased, false, claims(after))
		assert.Equal(t, machine.Recorded, decision)
		assert.Equal(t, noon.Add(due), got.LookAt)
		assert.Empty(t, got.Holder)
		_, decision = next(t, got, false, claims(after))
		assert.Equal(t, machine.Ignored, decision, "once")
	}

	found := seen(leased, journal.FindingInconclusive, "")
	found.At, found.Evidence.Source, found.Looker, found.Due = noon.Add(time.Second), journal.SourceLook, "A", noon.Add(time.Hour)
	ended, decision := next(t, leased, true, found)
	require.Equal(t, machine.Recorded, decision)
	assert.Empty(t, ended.Holder)
	back, _ := next(t, leased, true, machine.Event{Kind: machine.EventLook, At: noon, Last: noon, Due: lease, Looker: "A", GivesBack: true})
	assert.Empty(t, back.Holder)

	op.Holder, op.Delivered = "C", false
	delivers, _ := next(t, op, true, looks)
	assert.Equal(t, "C", delivers.Holder, "it delivers the outcome meanwhile")
	ended, _ = next(t, delivers, true, found)
	assert.Equal(t, "C", ended.Holder)
	left, decision := next(t, op, false, claims(time.Second))
	require.Equal(t, machine.Recorded, decision)
	assert.Empty(t, left.Holder, "it died before")
	assert.Equal(t, op.LookAt, left.LookAt)
}

// A process gives back a look-up that it did not make. The look-up is due at once.
func TestALookIsGivenBack(t *testing.T) {
	op := inDoubt()
	lease := noon.Add(10 * time.Minute)
	leased, decision := next(t, op, false, machine.Event{Kind: machine.EventLook, At: noon, Last: noon, Due: lease})
	require.Equal(t, machine.Look, decision)
	back := machine.Event{Kind: machine.EventLook, At: noon.Add(time.Second), Last: noon, Due: lease, GivesBack: true}
	got, decision := next(t, leased, false, back)
	assert.Equal(t, machine.Recorded, decision)
	assert.Equal(t, op.Looks, got.Looks)
	assert.Equal(t, noon.Add(time.Second), got.LookAt)
	assert.Zero(t, got.LookedAt, "nobody has looked")
	asked := machine.Event{Kind: machine.EventLook, At: noon.Add(2 * time.Second), Last: noon, Due: lease, Asked: true}
	_, decision = next(t, got, false, asked)
	assert.Equal(t, machine.Look, decision, "who asks does not wait for a look that was not made")

	for name, row := range map[string]struct {
		source  string
		present bool
	}{
		"a look": {journal.SourceLook, true}, "the program's own": {journal.SourceHook, true},
		"an event": {journal.SourceEvent, false},
	} {
		before := leased
		before.Evidence = []journal.Evidence{
			{At: noon.Add(-30 * time.Second), Source: row.source, Finding: journal.FindingInconclusive},
			{At: noon.Add(-40 * time.Second), Source: row.source, Finding: journal.FindingInconclusive}, // from a clock that is behind
		}
		got, _ := next(t, before, false, back)
		assert.Equal(t, row.present, got.LookedAt.Equal(noon.Add(-30*time.Second)), name)
	}

	for name, change := range map[string]func(*journal.Operation){
		"another's by now":    func(op *journal.Operation) { op.LookAt = lease.Add(time.Minute) },
		"it has an outcome":   func(op *journal.Operation) { op.State, op.LookAt = journal.StateCancelled, time.Time{} },
		"unknown anew":        func(op *journal.Operation) { op.Looks = 0 },
		"and dead in between": func(op *journal.Operation) { op.Attention, op.LookAt = "given up", time.Time{} },
	} {
		other := leased
		change(&other)
		_, decision = next(t, other, false, back)
		assert.Equal(t, machine.Ignored, decision, name)
	}
}

// The program's own look-up finds nothing. That counts from a quarter of an hour after the handling time of the last attempt,
// by the time at which the program was asked.
func TestLookupHookThatRanTooEarly(t *testing.T) {
	for name, row := range map[string]struct {
		began time.Duration // after the last attempt
		state journal.State
	}{
		"asked too early, and evidence in time": {10 * time.Minute, journal.StateUnknown},
		"asked in time":                         {time.Hour, journal.StateCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			op := inDoubt()
			ev := gone(op)
			ev.Absence.Began = op.LastEndedAt.Add(row.began)
			got, decision := next(t, op, false, ev)
			assert.Equal(t, machine.Recorded, decision)
			assert.Equal(t, row.state, got.State)
			assert.Equal(t, row.state == journal.StateUnknown, strings.Contains(got.Evidence[0].Why, "asked too early"), got.Evidence[0].Why)
		})
	}
}

// The program's own look-up proves no absence if the journal was restored, if a clock was wrong, or if something of the
// operation was seen.
func TestAbsenceByTheHookNeedsEveryClause(t *testing.T) {
	for name, row := range map[string]struct {
		says string
		op   func(*journal.Operation)
		ev   func(*machine.Event)
	}{
		"on hold":                        {"on hold", func(op *journal.Operation) { op.Resolved = &journal.Resolved{Resolution: journal.Hold} }, nil},
		"resolved before":                {"resolved it before", func(op *journal.Operation) { op.Resolved = &journal.Resolved{Resolution: journal.Executed} }, nil},
		"in a journal that was restored": {"restored", func(op *journal.Operation) { op.Adopted = true }, nil},
		"sent by a clock that ran ahead": {"clock", func(op *journal.Operation) { op.WindowClosed = true }, nil},
		"sent by a clock in doubt":       {"clock", func(op *journal.Operation) { op.SentSince = op.FirstSentAt.Add(-time.Hour) }, nil},
		"looked for by a clock in doubt": {"clock", nil, func(ev *machine.Event) { ev.Unconfirmed = noon.Add(time.Minute) }},
		"by a clock behind the journal":  {"clock", nil, func(ev *machine.Event) { ev.Last = noon.Add(2 * time.Hour) }},
		"within the handling time":       {"too early", func(op *journal.Operation) { op.Terms.Handling = 3 * time.Hour }, nil},
		"within today's handling time":   {"too early", nil, func(ev *machine.Event) { ev.Absence.Handling = 3 * time.Hour }},
		"by a look-up that is to begin":  {"too early", nil, func(ev *machine.Event) { ev.Absence.Began = noon.Add(time.Minute) }},
		"after a second effect":          {"took effect", func(op *journal.Operation) { op.SecondEffects = 1 }, nil},
		"after a trace": {"saw a trace", func(op *journal.Operation) {
			op.Evidence = []journal.Evidence{{Finding: journal.FindingInProgress}}
		}, nil},
		"after an unclear trace": {"saw a trace", func(op *journal.Operation) {
			op.Evidence = []journal.Evidence{{Finding: journal.FindingInconclusive, Object: "payment pay_1"}}
		}, nil},
		"after two objects with its key": {"saw a trace", func(op *journal.Operation) {
			op.Evidence = []journal.Evidence{{Finding: journal.FindingAmbiguous, Object: "payment pay_1, payment pay_2"}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			op := inDoubt()
			if row.op != nil {
				row.op(&op)
			}
			ev := gone(op)
			if row.ev != nil {
				row.ev(&ev)
			}
			got, decision := next(t, op, false, ev)
			assert.Equal(t, machine.Recorded, decision)
			assert.Equal(t, journal.StateUnknown, got.State)
			kept := got.Evidence[len(got.Evidence)-1]
			assert.Equal(t, journal.FindingInconclusive, kept.Finding)
			assert.Contains(t, kept.Why, row.says)
		})
	}
}

// Evidence of an effect of an earlier generation counts as a second effect. The generation in flight is left to end.
func TestSecondEffectBesideOneUnderWay(t *testing.T) {
	op := inFlight(journal.Named, stated)
	op.Rounds = []journal.Round{{Key: "old key"}}
	ev := seen(op, journal.FindingTookEffect, "order 1")
	ev.Evidence.Source, ev.Generation, ev.Claim = journal.SourceEvent, 0, 1
	after, decision := next(t, op, true, ev)
	require.Equal(t, machine.SecondEffect, decision)
	assert.Equal(t, 1, after.SecondEffects)
	assert.Equal(t, journal.StateInFlight, after.State)
	assert.Empty(t, after.Attention)
	assert.Zero(t, after.SettledAt)
}

// If there is too much evidence, and all but the latest shows an object, the latest is kept. The first stays too, and
// the second oldest goes.
func TestLatestOfTooMuchEvidence(t *testing.T) {
	op := inDoubt()
	for n := range 9 {
		op.Evidence = append(op.Evidence, journal.Evidence{
			At: noon.Add(time.Duration(n-90) * time.Minute), Source: journal.SourceLook, Finding: journal.FindingInProgress, Why: strings.Repeat("x", n),
		})
	}
	ev := seen(op, journal.FindingInconclusive, "")
	ev.Due = noon.Add(time.Hour)
	after, decision := next(t, op, false, ev)
	require.Equal(t, machine.Recorded, decision)
	require.Len(t, after.Evidence, 9)
	assert.Equal(t, journal.FindingInconclusive, after.Evidence[8].Finding)
	assert.Empty(t, after.Evidence[0].Why, "the first stays")
	assert.Equal(t, "xx", after.Evidence[1].Why, "the second oldest goes")
}
