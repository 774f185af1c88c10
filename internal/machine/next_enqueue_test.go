package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// enqueued is an event that asks at noon for what operation returns, to be sent later.
func enqueued(change func(ev *machine.Event)) machine.Event {
	ev := begin(journal.Named, guarded)
	ev.Kind, ev.Session = machine.EventEnqueue, ""
	if change != nil {
		change(&ev)
	}
	return ev
}

func notAfter(at time.Time) func(*machine.Event) {
	return func(ev *machine.Event) { ev.Intent.NotAfter = at }
}

func claimAt(at time.Time) machine.Event {
	return machine.Event{Kind: machine.EventClaim, At: at, Last: at, Session: "B"}
}

func TestEnqueuedOperationIsSentByAClaim(t *testing.T) {
	due := noon.Add(time.Hour)
	op, decision := next(t, journal.Operation{}, false, enqueued(func(ev *machine.Event) { ev.Due = due }))
	require.Equal(t, machine.Recorded, decision)
	assert.Equal(t, "enqueued", op.Cause)
	assert.Equal(t, due, op.WakeAt)
	assert.Equal(t, "amount=1", string(op.Request.Body))
	assert.Equal(t, "its key", op.Key)
	assert.Empty(t, machine.Violations(op, time.Time{}), "the journal's time need not have moved")

	op, decision = next(t, op, false, claimAt(due.Add(-time.Millisecond)))
	require.Equal(t, machine.Later, decision)
	op, decision = next(t, op, false, claimAt(due))
	require.Equal(t, machine.Execute, decision)
	assert.EqualValues(t, 1, op.Claim)
	assert.Equal(t, due, op.FirstSentAt)
	assert.True(t, op.Enqueued)
	assert.Empty(t, op.Cause)
}

// An operation that a clock enqueues after a jump, without a due time, is due at once by that clock and by the
// journal's. The transaction does not show the journal that the asker's clock came back.
func TestEnqueuedByAClockThatHasJumped(t *testing.T) {
	year := noon.Add(365 * day)
	for _, tc := range []struct {
		name          string
		at, due, want time.Time
	}{
		{"ahead", year, time.Time{}, noon},
		{"ahead, due at a time that it takes for past", year, noon.Add(time.Hour), noon.Add(time.Hour)},
		{"ahead, due at a later time", year, year.Add(time.Hour), year.Add(time.Hour)},
		{"behind", noon.Add(-365 * day), time.Time{}, noon.Add(-365 * day)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			op, decision := next(t, journal.Operation{}, false, enqueued(func(ev *machine.Event) {
				ev.At, ev.Last, ev.Unconfirmed, ev.Due = tc.at, noon, tc.at.Add(10*time.Minute), tc.due
			}))
			require.Equal(t, machine.Recorded, decision)
			assert.Equal(t, tc.want, op.DueAt)
			assert.Empty(t, machine.Violations(op, time.Time{}))
			_, decision = next(t, op, false, claimAt(tc.want))
			assert.Equal(t, machine.Execute, decision)
		})
	}
}

// A caller who asks for an enqueued operation sends it too, once it is due.
func TestEnqueuedOperationIsSentByABegin(t *testing.T) {
	op, _ := next(t, journal.Operation{}, false, enqueued(nil))
	op, decision := next(t, op, false, begin(journal.Named, guarded))
	require.Equal(t, machine.Execute, decision)
	assert.True(t, op.Enqueued)

	op, _ = next(t, journal.Operation{}, false, enqueued(func(ev *machine.Event) { ev.Due = noon.Add(time.Hour) }))
	_, decision = next(t, op, false, begin(journal.Named, guarded))
	assert.Equal(t, machine.Later, decision)
}

// A cancelled operation that is enqueued becomes what a begin would make of it, but is not claimed.
func TestEnqueuedAfterItWasCancelled(t *testing.T) {
	cancelled := operation(journal.Named, guarded)
	cancelled.State, cancelled.SettledAt, cancelled.Holder, cancelled.Attention = journal.StateCancelled, noon, "A", "somebody has to see to it"
	cancelled.Found, cancelled.NotAfter = journal.Found{State: journal.StatePending}, noon.Add(-time.Hour)
	again := enqueued(func(ev *machine.Event) {
		ev.Intent.NextKey = func(int) string { return "its next key" }
		ev.Intent.Request.Body, ev.Intent.Mode = []byte("amount=1 "), ""
	})
	op, decision := next(t, cancelled, false, again)
	require.Equal(t, machine.Recorded, decision)
	assert.Equal(t, "amount=1 ", string(op.Request.Body), "the request is its latest asker's")
	assert.Equal(t, "its key", op.Key)
	assert.Empty(t, op.Mode)
	assert.Empty(t, op.Attention)
	assert.Zero(t, op.NotAfter)
	assert.EqualValues(t, 2, op.Claim)
	assert.Empty(t, machine.Violations(op, noon))

	byHand := cancelled
	byHand.ByHand, byHand.Found.MayHaveRun = true, true
	op, _ = next(t, byHand, false, again)
	assert.Equal(t, "its next key", op.Key)
	assert.Equal(t, 2, op.Generation)
	assert.Empty(t, machine.Violations(op, noon))

	op, decision = next(t, op, false, claimAt(noon))
	require.Equal(t, machine.Execute, decision)
	assert.EqualValues(t, 3, op.Claim)

	begun, _ := next(t, cancelled, false, begin(journal.Named, guarded))
	assert.False(t, begun.Enqueued, "whoever begins what was cancelled waits for it")

	withdrawn := cancelled
	withdrawn.Withdrawn = &journal.Resolved{Resolution: journal.Withdraw}
	_, decision = next(t, withdrawn, false, again)
	assert.Equal(t, machine.Withdrawn, decision)
}

// An enqueue closes no window, since the journal may not know the latest time then. The claim closes it.
func TestEnqueueClosesNoWindow(t *testing.T) {
	behind := enqueued(func(ev *machine.Event) { ev.At, ev.Last = noon.Add(-10*time.Hour), noon })
	for _, state := range []journal.State{journal.StatePending, journal.StateCancelled} {
		op := operation(journal.Named, guarded)
		op.State = state
		op, _ = next(t, op, false, behind)
		assert.False(t, op.WindowClosed)
		claim := claimAt(noon.Add(-10 * time.Hour))
		claim.Last = noon
		op, _ = next(t, op, false, claim)
		assert.True(t, op.WindowClosed)
	}
}

func TestInvalidEnqueues(t *testing.T) {
	for says, change := range map[string]func(*machine.Event){
		"needs an intent": func(ev *machine.Event) { ev.Intent = nil },
		"needs a name":    func(ev *machine.Event) { ev.Intent.Naming = journal.Carried },
		"is a secret":     func(ev *machine.Event) { ev.Intent.BodyWithheld = true },
	} {
		for _, op := range []journal.Operation{{}, operation(journal.Named, guarded)} {
			_, _, err := machine.Next(op, false, enqueued(change))
			assert.ErrorIs(t, err, journal.ErrInvalidEvent)
			assert.ErrorContains(t, err, says)
		}
	}
}

// An operation that was not sent in time is cancelled by the process that comes to send it.
func TestNotAfterCancelsUnsentOperations(t *testing.T) {
	by := noon.Add(time.Hour)
	op, _ := next(t, journal.Operation{}, false, enqueued(notAfter(by.Add(time.Microsecond))))
	require.Equal(t, by, op.NotAfter)
	_, decision := next(t, op, false, claimAt(by))
	assert.Equal(t, machine.Execute, decision, "until then it may be sent")

	late := by.Add(time.Millisecond)
	asks := begin(journal.Named, guarded)
	asks.At, asks.Last = late, late
	behind := claimAt(by)
	behind.Last = late
	for name, ev := range map[string]machine.Event{"a claim": claimAt(late), "a caller": asks, "a clock that stands behind": behind} {
		cancelled, decision := next(t, op, false, ev)
		require.Equal(t, machine.Recorded, decision, name)
		assert.Equal(t, journal.StateCancelled, cancelled.State)
		assert.Equal(t, "enqueued; it was not to be sent after 2026-03-01T13:00:00Z", cancelled.Cause)
		assert.Equal(t, "B", cancelled.Holder, "it is an outcome, to be delivered")
		assert.Zero(t, cancelled.Claim)
		assert.Empty(t, machine.Violations(cancelled, late))
	}
}

// A passed NotAfter does not stop an operation that may have run.
func TestNotAfterKeepsOperationsThatMayHaveRun(t *testing.T) {
	op, _ := next(t, journal.Operation{}, false, enqueued(notAfter(noon)))
	op, _ = next(t, op, false, claimAt(noon))
	park := machine.Event{Kind: machine.EventPark, At: noon, Last: noon, Session: "B", Claim: 1, Open: true, Due: noon.Add(time.Hour)}
	op, _ = next(t, op, true, park)
	assert.Equal(t, noon.Add(time.Hour), op.WakeAt)
	_, decision := next(t, op, false, claimAt(noon.Add(2*time.Hour)))
	assert.Equal(t, machine.Execute, decision)
}

// An operation that is parked beyond its NotAfter wakes then, to be cancelled.
func TestNotAfterWakesParkedOperations(t *testing.T) {
	by, woken := noon.Add(time.Minute), noon.Add(time.Minute+time.Millisecond)
	op, _ := next(t, journal.Operation{}, false, enqueued(func(ev *machine.Event) { ev.Intent.NotAfter, ev.Due = by, noon.Add(time.Hour) }))
	assert.Equal(t, woken, op.WakeAt)
	asked, decision := next(t, op, false, begin(journal.Named, guarded))
	require.Equal(t, machine.Later, decision)
	assert.Equal(t, woken, asked.WakeAt)

	op, _ = next(t, journal.Operation{}, false, enqueued(notAfter(by)))
	op, _ = next(t, op, false, claimAt(noon))
	park := machine.Event{Kind: machine.EventPark, At: noon, Last: noon, Session: "B", Claim: 1, Unsent: true, Due: noon.Add(time.Hour)}
	op, _ = next(t, op, true, park)
	assert.Equal(t, noon.Add(time.Hour), op.DueAt)
	assert.Equal(t, woken, op.WakeAt)
	op, _ = next(t, op, false, claimAt(woken))
	assert.Equal(t, journal.StateCancelled, op.State)
}

// An operation that a person sends again after its NotAfter is sent.
func TestNotAfterOfAResend(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.MayHaveRun, op.NotAfter = journal.StateUnknown, true, noon.Add(-time.Hour)
	resolve := machine.Event{Kind: machine.EventResolve, Resolution: journal.SendAgain, At: noon, Last: noon, Claim: 2, Generation: 1, Key: "its next key"}
	op, decision := next(t, op, false, resolve)
	require.Equal(t, machine.Recorded, decision)
	_, decision = next(t, op, false, claimAt(noon))
	assert.Equal(t, machine.Execute, decision)
}

// An operation that is never sent in the background is cancelled in time as well.
func TestNotAfterOfAnUnnamedOne(t *testing.T) {
	ev := begin(journal.Carried, guarded)
	ev.Intent.NotAfter = noon.Add(time.Minute)
	op, _ := next(t, journal.Operation{}, false, ev)
	park := machine.Event{Kind: machine.EventPark, At: noon, Last: noon, Session: "B", Claim: 1, Unsent: true, Told: true}
	op, _ = next(t, op, true, park)
	op, decision := next(t, op, false, claimAt(noon.Add(time.Hour)))
	assert.Equal(t, machine.Recorded, decision)
	assert.Equal(t, journal.StateCancelled, op.State)
}

// While a clock that jumped and the journal's time disagree on whether it is too late, the operation is neither
// cancelled nor sent.
func TestNotAfterUnderAClockThatHasJumped(t *testing.T) {
	by := noon.Add(time.Hour)
	op, _ := next(t, journal.Operation{}, false, enqueued(notAfter(by)))
	for name, tc := range map[string]struct {
		at, last time.Time
		want     machine.Decision
	}{
		"the clock says so":     {by.Add(day), noon, machine.Later},
		"the journal's says so": {noon, by.Add(day), machine.Later},
		"both say so":           {by.Add(2 * day), by.Add(day), machine.Recorded},
		"neither says so":       {noon, noon, machine.Execute},
	} {
		ev := claimAt(tc.at)
		ev.Last, ev.Unconfirmed = tc.last, tc.at.Add(machine.Confirmation)
		next, decision := next(t, op, false, ev)
		assert.Equal(t, tc.want, decision, name)
		if tc.want == machine.Later {
			assert.Equal(t, ev.Unconfirmed, next.WakeAt, name)
			assert.Equal(t, ev.Unconfirmed, next.DueAt, name)
		}
	}
	rests, _ := next(t, journal.Operation{}, false, enqueued(func(ev *machine.Event) { ev.Intent.NotAfter, ev.Due = by, by.Add(3*day) }))
	ev := claimAt(by.Add(day))
	ev.Last, ev.Unconfirmed = noon, by.Add(day).Add(machine.Confirmation)
	rests, _ = next(t, rests, false, ev)
	assert.Equal(t, by.Add(3*day), rests.DueAt)
	assert.Equal(t, ev.Unconfirmed, rests.WakeAt, "it is cancelled by then, if it is too late")
	ev.Unconfirmed = ev.At.Add(-time.Second)
	rests, _ = next(t, op, false, ev)
	assert.Equal(t, ev.At, rests.WakeAt, "not before now")
}

// A caller that comes after its NotAfter gets an error. The journal records nothing.
func TestNotAfterOfABegin(t *testing.T) {
	ev := begin(journal.Named, guarded)
	ev.Intent.NotAfter = noon.Add(-time.Millisecond)
	cancelled := operation(journal.Named, guarded)
	cancelled.State = journal.StateCancelled
	for _, op := range []journal.Operation{{}, cancelled} {
		_, _, err := machine.Next(op, false, ev)
		assert.ErrorContains(t, err, "the time until which it may be sent has passed")
	}
	ev.Intent.NotAfter = noon
	op, decision := next(t, cancelled, false, ev)
	assert.Equal(t, machine.Execute, decision)
	assert.Equal(t, noon, op.NotAfter)

	pending := operation(journal.Named, guarded)
	pending.State, pending.NotAfter = journal.StatePending, noon.Add(time.Hour)
	op, _ = next(t, pending, false, ev)
	assert.Equal(t, noon.Add(time.Hour), op.NotAfter, "what stands is not changed by who asks for it again")
}

// An operation that a clock ahead of the journal's enqueued counts as sent from the journal's time on, once it is
// adopted.
func TestAdoptedAfterItWasEnqueued(t *testing.T) {
	op, _ := next(t, journal.Operation{}, false, enqueued(func(ev *machine.Event) { ev.At = noon.Add(time.Minute) }))
	op, decision := next(t, op, false, machine.Event{Kind: machine.EventAdopt, At: noon.Add(-time.Second), Last: noon})
	require.Equal(t, machine.Recorded, decision)
	assert.Equal(t, noon, op.FirstSentAt)
	assert.Empty(t, machine.Violations(op, noon))
}

// In an adopted journal, evidence settles an operation that was never claimed. Evidence without a claim's number is
// invalid for a claimed operation.
func TestEvidenceOfAnUnclaimedOperation(t *testing.T) {
	op, _ := next(t, journal.Operation{}, false, enqueued(nil))
	op, decision := next(t, op, false, machine.Event{Kind: machine.EventAdopt, At: noon, Last: noon})
	require.Equal(t, machine.Recorded, decision)
	require.Zero(t, op.Claim)
	found := seen(op, journal.FindingTookEffect, "payment pay_1")
	got, decision := next(t, op, false, found)
	assert.Equal(t, machine.Recorded, decision)
	assert.Equal(t, journal.StateCompleted, got.State)
	assert.Empty(t, machine.Violations(got, noon))
	claimed := inDoubt()
	require.Positive(t, claimed.Claim)
	for _, op := range []journal.Operation{claimed, {}} {
		_, _, err := machine.Next(op, false, found)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	}
}
