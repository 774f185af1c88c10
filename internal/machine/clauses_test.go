package machine_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// completeWith ends A's claim with an answer.
func completeWith(a journal.Answer) machine.Event {
	ev := release(machine.EventComplete)
	ev.Answer = &a
	return ev
}

// An answer that lacks a part is replaced by a whole one alone. One that contradicts it replaces none.
func TestTheAnswerThatComesLate(t *testing.T) {
	cut := func(op *journal.Operation) { op.Answer.Found, op.Answer.Cut = false, true }
	named := func(op *journal.Operation) { op.Object = "payment pay_1" }
	nameless := func(op *journal.Operation) { op.Object = "" }
	for name, row := range map[string]struct {
		op       func(op *journal.Operation)
		ev       func(ev *machine.Event)
		decision machine.Decision
		object   string
	}{
		"whole":                      {named, nil, machine.Recorded, "payment pay_1"},
		"whole, of a named object":   {nameless, func(ev *machine.Event) { ev.Object = "payment pay_1" }, machine.Recorded, "payment pay_1"},
		"whole, of another's object": {nameless, func(ev *machine.Event) { ev.Object, ev.Taken = "payment pay_1", true }, machine.Recorded, ""},
		"cut off too":                {named, func(ev *machine.Event) { ev.Answer.Cut = true }, machine.Replay, "payment pay_1"},
		"a refusal of what was seen to take effect": {named, func(ev *machine.Event) { ev.Answer.Refused = true }, machine.Contradicted, "payment pay_1"},
		"a refusal after a success":                 {func(op *journal.Operation) { cut(op); named(op) }, func(ev *machine.Event) { ev.Answer.Refused = true }, machine.Replay, "payment pay_1"},
	} {
		op := found()
		row.op(&op)
		ev := machine.Event{Kind: machine.EventComplete, At: noon, Last: noon, Session: "A", Claim: op.Claim, Answer: &journal.Answer{Status: 201, Body: []byte("paid")}}
		if row.ev != nil {
			row.ev(&ev)
		}
		got, decision := next(t, op, false, ev)
		assert.Equal(t, row.decision, decision, name)
		assert.Equal(t, row.object, got.Object, name)
		assert.Equal(t, row.decision == machine.Recorded, got.Answer.Status == 201, name)
		assert.Equal(t, row.decision == machine.Contradicted || ev.Taken, got.Attention != "", name)
	}
}

// A refusal decides its operation only if no other attempt may have run, or if the provider recognises the request.
func TestTheRefusalThatDecides(t *testing.T) {
	ran := func(op *journal.Operation) { op.Found.MayHaveRun = true }
	for name, row := range map[string]struct {
		remembers memory.Memory
		op        func(op *journal.Operation)
		status    int
		want      journal.State
	}{
		"the only attempt":                        {memory.Nothing, func(*journal.Operation) {}, 400, journal.StateCompleted},
		"beside an effect of an earlier round":    {memory.Everything, func(op *journal.Operation) { op.SecondEffects = 1 }, 400, journal.StateUnknown},
		"remembered":                              {memory.Everything, ran, 400, journal.StateCompleted},
		"not remembered":                          {memory.SuccessesLostAnswers, ran, 400, journal.StateUnknown},
		"a decline that is remembered as success": {memory.SuccessesLostAnswers, ran, 200, journal.StateCompleted},
		"a decline, of which nothing is kept":     {memory.Nothing, ran, 200, journal.StateUnknown},
	} {
		op := inFlight(journal.Named, journal.Terms{Remembers: row.remembers, Retention: 24 * time.Hour, Guard: true})
		row.op(&op)
		ev := completeWith(journal.Answer{Status: row.status, Refused: true})
		ev.At = noon.Add(time.Minute)
		got, _ := next(t, op, true, ev)
		assert.Equal(t, row.want.String(), got.State.String(), name)
		if row.want == journal.StateUnknown {
			assert.Equal(t, ev.At, got.LastEndedAt, "%s: by a clock that has gone on", name)
		}
	}
}

// After an earlier round took effect, a success needs a person, and a refusal by hand does not.
func TestTheSuccessAfterASecondEffect(t *testing.T) {
	op := inFlight(journal.Named, guarded)
	op.SecondEffects = 1
	got, _ := next(t, op, true, completeWith(journal.Answer{Status: 200}))
	assert.NotEmpty(t, got.Attention)

	op.State, op.Holder = journal.StateUnknown, ""
	got, _ = next(t, op, false, machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Generation: 1, Claim: 2, Resolution: journal.Executed, Answer: &journal.Answer{Refused: true}})
	assert.Equal(t, journal.StateCompleted, got.State)
	assert.Empty(t, got.Attention)
}

func TestTheLastAnswerIsBounded(t *testing.T) {
	for size, kept := range map[int]bool{journal.MaxLastAnswer: true, journal.MaxLastAnswer + 1: false} {
		ev := release(machine.EventMarkUnknown)
		ev.LastAnswer = &journal.Answer{Status: 503, Body: bytes.Repeat([]byte("x"), size)}
		op, _ := next(t, inFlight(journal.Named, guarded), true, ev)
		require.NotNil(t, op.LastAnswer)
		assert.Equal(t, 503, op.LastAnswer.Status)
		assert.Equal(t, kept, len(op.LastAnswer.Body) == size, size)
		assert.Equal(t, !kept, op.LastAnswer.Omitted, size)
	}
}

// An answer may shorten the provider's retention, and never makes it longer.
func TestTheRetentionThatAnAnswerDeclares(t *testing.T) {
	for declared, want := range map[time.Duration]time.Duration{0: 24 * time.Hour, time.Hour: time.Hour, 48 * time.Hour: 24 * time.Hour, -1: 0} {
		ev := release(machine.EventMarkUnknown)
		ev.Retention = declared
		op, _ := next(t, inFlight(journal.Named, guarded), true, ev)
		assert.Equal(t, want, op.Terms.Retention, declared)
	}
}

// An attempt without an answer does not show that the provider is busy.
func TestUnansweredIsNotBusy(t *testing.T) {
	ev := release(machine.EventPark)
	ev.Open, ev.Unanswered = true, true
	op, _ := next(t, inFlight(journal.Named, guarded), true, ev)
	assert.Zero(t, op.BusySince)
}

func TestResolveByTheObjectOfAnother(t *testing.T) {
	op := inDoubt()
	for resolution, refused := range map[journal.Resolution]bool{journal.Executed: true, journal.NotExecuted: false} {
		_, _, err := machine.Next(op, false, machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Claim: op.Claim, Resolution: resolution, Taken: true})
		assert.Equal(t, refused, err != nil, resolution)
	}
}

// One name at two endpoints of inbound requests is two requests.
func TestBeginFromAnotherInboundEndpoint(t *testing.T) {
	for recorded, want := range map[string]machine.Decision{"payments.create": machine.Misuse, "payments.refund": machine.Replay, "": machine.Replay} {
		op := operation(journal.Named, guarded)
		op.State, op.MayHaveRun, op.Answer, op.InboundEndpoint = journal.StateCompleted, true, &journal.Answer{Status: 200, Generation: 1}, recorded
		ev := begin(journal.Named, guarded)
		ev.Intent.InboundEndpoint = "payments.refund"
		_, decision := next(t, op, false, ev)
		assert.Equal(t, want, decision, recorded)
	}
}

// A generation that no attempt left is not among the rounds, by which an object is recognised.
func TestTheRoundOfAGenerationThatNeverLeft(t *testing.T) {
	for sent, rounds := range map[bool]int{true: 1, false: 0} {
		op := operation(journal.Named, guarded)
		op.State, op.Rounds = journal.StateCancelled, nil
		if !sent {
			op.FirstSentAt, op.LastEndedAt = time.Time{}, time.Time{}
		}
		ev := begin(journal.Named, guarded)
		ev.Intent.Fingerprint, ev.Intent.NextKey = "another request", func(int) string { return "another key" }
		op, _ = next(t, op, false, ev)
		assert.Len(t, op.Rounds, rounds, sent)
	}
}

// A program that sends only named operations leaves unnamed ones to others, unless no other can send them either.
func TestAClaimOfNamedOnlyOnes(t *testing.T) {
	for withheld, want := range map[bool]machine.Decision{false: machine.Ignored, true: machine.Later} {
		op := operation(journal.Carried, guarded)
		op.State, op.MayHaveRun, op.BodyWithheld, op.DueAt, op.WakeAt = journal.StatePending, true, withheld, noon, noon
		ev := claimAt(noon)
		ev.NamedOnly = true
		_, decision := next(t, op, false, ev)
		assert.Equal(t, want, decision, withheld)
	}
}

func TestAnOutcomeOfAHookElsewhereIsNotOffered(t *testing.T) {
	for elsewhere, want := range map[bool]machine.Decision{false: machine.Offer, true: machine.Ignored} {
		op := operation(journal.Named, guarded)
		op.State, op.MayHaveRun, op.Answer = journal.StateCompleted, true, &journal.Answer{Status: 200}
		ev := claimAt(noon)
		ev.HookElsewhere = elsewhere
		_, decision := next(t, op, false, ev)
		assert.Equal(t, want, decision)
	}
}

// A person looks at an operation that only its caller can have sent again, a day after its first park. If it can't have
// run, no person needs to.
func TestWaitsForItsCallerForADay(t *testing.T) {
	const day = journal.PendingAttentionAfter
	long := guarded
	long.Retention = 30 * day
	for name, row := range map[string]struct {
		ran    bool
		parked time.Duration
		needs  bool
		wake   time.Duration // after the first park; 0: at the window's end
	}{
		"it may have run":                   {true, time.Hour, false, day},
		"it may have run, and a day passed": {true, day, true, 0},
		"it can't have run":                 {false, time.Hour, false, 0},
		"it can't have run, after a day":    {false, day, false, 0},
	} {
		op := operation(journal.Carried, long)
		op.State, op.MayHaveRun, op.Told, op.DueAt, op.WakeAt = journal.StatePending, row.ran, true, noon, noon
		op.ParkedSince = noon.Add(-row.parked)
		op, decision := next(t, op, false, claimAt(noon))
		require.Equal(t, machine.Later, decision, name)
		assert.Equal(t, row.needs, op.Attention != "", name)
		wake := op.FirstSentAt.Add(long.Window())
		if row.wake != 0 {
			wake = op.ParkedSince.Add(row.wake)
		}
		assert.Equal(t, wake, op.WakeAt, name)
	}
}

// An operation gets another credential only if no attempt was sent under the recorded one.
func TestSign(t *testing.T) {
	for name, row := range map[string]struct {
		change func(op *journal.Operation, ev *machine.Event)
		want   machine.Decision
		fails  bool
	}{
		"the holder":      {func(*journal.Operation, *machine.Event) {}, machine.Recorded, false},
		"another session": {func(_ *journal.Operation, ev *machine.Event) { ev.Session = "B" }, machine.Stale, false},
		"an older claim":  {func(_ *journal.Operation, ev *machine.Event) { ev.Claim = 1 }, machine.Stale, false},
		"no credential":   {func(_ *journal.Operation, ev *machine.Event) { ev.Credential = "" }, 0, true},
		"it may have run": {func(op *journal.Operation, _ *machine.Event) { op.Found.MayHaveRun = true }, 0, true},
		"it was never signed": {func(op *journal.Operation, _ *machine.Event) {
			op.Found.MayHaveRun, op.Credential = true, journal.Unsigned
		}, machine.Recorded, false},
		"the journal was restored": {func(op *journal.Operation, _ *machine.Event) {
			op.Found.MayHaveRun, op.Credential, op.Adopted = true, journal.Unsigned, true
		}, 0, true},
		"it is not in flight": {func(op *journal.Operation, _ *machine.Event) { op.State = journal.StatePending }, machine.Stale, false},
	} {
		op, ev := inFlight(journal.Named, guarded), release(machine.EventSign)
		op.Credential, ev.Credential, ev.Account = "digest", "another digest", "acct_2"
		row.change(&op, &ev)
		got, decision, err := machine.Next(op, true, ev)
		assert.Equal(t, row.fails, err != nil, name)
		if !row.fails {
			assert.Equal(t, row.want, decision, name)
		}
		assert.Equal(t, !row.fails && row.want == machine.Recorded, got.Credential == "another digest", name)
	}
}

// An operation that a person has sent again waits to be sent, also in an adopted journal, though an earlier round took
// effect.
func TestAdoptedAfterASecondEffect(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.SecondEffects, op.DueAt, op.WakeAt = journal.StatePending, 1, noon, noon
	op, decision := next(t, op, false, machine.Event{Kind: machine.EventAdopt, At: noon, Last: noon})
	assert.Equal(t, machine.Recorded, decision)
	assert.Equal(t, journal.StatePending, op.State)
}

// A look-up needs an operation that an attempt has left.
func TestALookUpOfAnOperationThatNeverLeft(t *testing.T) {
	op := inDoubt()
	neverLeft(&op)
	look := machine.Event{Kind: machine.EventLook, At: noon, Last: noon, Due: noon.Add(time.Minute)}
	_, decision := next(t, op, false, look)
	assert.Equal(t, machine.Ignored, decision)
}

// Evidence that shows the key keeps that mark, though it also shows the caller's only reference.
func TestTheStrongerMarkStays(t *testing.T) {
	op := inDoubt()
	op.ReferenceOurs = false
	ev := seen(op, journal.FindingTookEffect, "payment pay_1")
	ev.Reference, ev.Sole = "ref-0", true
	op, _ = next(t, op, false, ev)
	require.Len(t, op.Evidence, 1)
	assert.Equal(t, journal.BasisKey, op.Evidence[0].Basis)
}

// A caller's ask for an answer says nothing of the outcome.
func TestALookUpForAnAnswerLeavesTheOutcomeAlone(t *testing.T) {
	op := found()
	op.Attention = "more than one object"
	op, decision := next(t, op, false, machine.Event{Kind: machine.EventLook, At: noon, Last: noon, Due: noon.Add(time.Minute), Asked: true})
	assert.Equal(t, machine.Look, decision)
	assert.Equal(t, "more than one object", op.Attention)
	assert.Zero(t, op.LookAt)
}

// An unknown operation is looked for once a minute however often callers ask, also soon after it has become unknown.
func TestALookUpForAnOutcomeIsDelayed(t *testing.T) {
	op := inDoubt()
	op.LookedAt, op.SettledAt = noon.Add(-20*time.Second), noon.Add(-10*time.Second)
	_, decision := next(t, op, false, machine.Event{Kind: machine.EventLook, At: noon, Last: noon, Due: noon.Add(time.Minute), Asked: true})
	assert.Equal(t, machine.Later, decision)
}

// The clock's own event closes the window of an unknown operation, and a look-up does not.
func TestALookUpForAnOutcomeClosesNoWindow(t *testing.T) {
	op := inDoubt()
	op, _ = next(t, op, false, machine.Event{Kind: machine.EventLook, At: noon, Last: noon, Due: noon.Add(time.Minute), Asked: true, Ahead: noon})
	assert.False(t, op.WindowClosed)
}

// The evidence that came while a process died decides before a person does. An operation that is not in flight was
// weighed before.
func TestResolveAfterASecondEffect(t *testing.T) {
	for state, want := range map[journal.State]machine.Decision{journal.StatePending: machine.Recorded, journal.StateInFlight: machine.Weighed} {
		op := inFlight(journal.Named, guarded)
		op.SecondEffects, op.State = 1, state
		if state == journal.StatePending {
			op.Holder, op.DueAt, op.WakeAt = "", noon, noon
		}
		ev := machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Generation: 1, Claim: 2, Resolution: journal.NotExecuted, Forced: true}
		_, decision := next(t, op, false, ev)
		assert.Equal(t, want, decision, state)
	}
}

// A person's answer is for an operation without one. Naming an object of a completed operation is no such answer.
func TestSupplyNamesNoObject(t *testing.T) {
	op := found()
	ev := machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Claim: op.Claim, Resolution: journal.Executed, Answer: &journal.Answer{Status: 200}}
	got, decision := next(t, op, false, ev)
	assert.Equal(t, machine.Recorded, decision)
	assert.Nil(t, got.Answer.Replaced, "no provider has sent the found one")
	ev.Object = "payment pay_2"
	_, _, err := machine.Next(op, false, ev)
	assert.Error(t, err)
}

// No session of this program holds an outcome that another program's hook gets.
func TestAnOutcomeOfAHookElsewhereHasNoHolder(t *testing.T) {
	for elsewhere, holder := range map[bool]string{false: "A", true: ""} {
		ev := completeWith(journal.Answer{Status: 200})
		ev.HookElsewhere = elsewhere
		op, _ := next(t, inFlight(journal.Named, guarded), true, ev)
		assert.Equal(t, holder, op.Holder)
		assert.False(t, op.Delivered)
	}
}

func TestAnOutcomeDropsTheLastAnswer(t *testing.T) {
	op := inDoubt()
	op.LastAnswer = &journal.Answer{Status: 503}
	for resolution, state := range map[journal.Resolution]journal.State{journal.Executed: journal.StateCompleted, journal.NotExecuted: journal.StateCancelled} {
		got, _ := next(t, op, false, machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Claim: op.Claim, Resolution: resolution})
		assert.Equal(t, state, got.State)
		assert.Nil(t, got.LastAnswer)
	}
}

// What a person has to look at is delivered if it is what the hook was given.
func TestDeliverTheAttentionThatWasOffered(t *testing.T) {
	for offered, want := range map[string]machine.Decision{"two objects": machine.Recorded, "": machine.Ignored} {
		op := found()
		op.Attention = "two objects"
		ev := machine.Event{Kind: machine.EventDeliver, At: noon, Last: noon, Outcome: journal.StateCompleted, Attention: offered}
		_, decision := next(t, op, false, ev)
		assert.Equal(t, want, decision, offered)
	}
}

func TestAHintOfAnOperationThatNeverLeft(t *testing.T) {
	op := inDoubt()
	op.LookAt = noon.Add(time.Hour)
	hint := machine.Event{Kind: machine.EventHint, At: noon, Last: noon}
	_, decision := next(t, op, false, hint)
	assert.Equal(t, machine.Recorded, decision)
	neverLeft(&op)
	op.LookAt = noon.Add(time.Hour)
	_, decision = next(t, op, false, hint)
	assert.Equal(t, machine.Ignored, decision)
}

// Evidence with a whole answer brings the one that the journal lacks.
func TestEvidenceThatBringsTheAnswer(t *testing.T) {
	for cut, want := range map[bool]machine.Decision{false: machine.Recorded, true: machine.Ignored} {
		op := found()
		ev := seen(op, journal.FindingTookEffect, "payment pay_1")
		ev.Answer = &journal.Answer{Status: 200, Body: []byte("paid"), Cut: cut}
		got, decision := next(t, op, false, ev)
		assert.Equal(t, want, decision, cut)
		assert.Equal(t, !cut, string(got.Answer.Body) == "paid", cut)
	}
}

// A person who says that an operation was not executed, although a second effect is known, has to force that.
func TestNotExecutedAgainstASecondEffect(t *testing.T) {
	for _, forced := range []bool{false, true} {
		op := inDoubt()
		op.SecondEffects = 1
		ev := machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Claim: op.Claim, Resolution: journal.NotExecuted, Forced: forced}
		_, _, err := machine.Next(op, false, ev)
		assert.Equal(t, !forced, err != nil)
	}
}
