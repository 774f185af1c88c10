package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// found is an operation that an event has completed without an answer, three hours after its first send.
func found() journal.Operation {
	op := inDoubt()
	op.Terms = journal.Terms{Remembers: providers.Everything, Retention: 24 * time.Hour, Guard: true}
	op.Form, op.State, op.LookAt = "header", journal.StateCompleted, time.Time{}
	op.Answer, op.Object = &journal.Answer{Found: true, Omitted: true}, "payment pay_1"
	return op
}

// The request of a completed operation goes out again only for an answer that the journal lacks, and only if the provider
// recognises its key.
func TestMayRepeatClauseByClause(t *testing.T) {
	for name, row := range map[string]struct {
		change func(op *journal.Operation, today *machine.Today, clock *time.Time)
		want   machine.PermissionAnswer
	}{
		"inside the window": {func(*journal.Operation, *machine.Today, *time.Time) {}, machine.SendNow},
		"a cut-off answer": {func(op *journal.Operation, _ *machine.Today, _ *time.Time) {
			op.Answer = &journal.Answer{Status: 200, Cut: true}
		}, machine.SendNow},
		"a secret answer": {func(op *journal.Operation, _ *machine.Today, _ *time.Time) {
			op.Answer = &journal.Answer{Status: 200, Omitted: true}
		}, machine.SendNow},
		"a whole answer": {func(op *journal.Operation, _ *machine.Today, _ *time.Time) { op.Answer = &journal.Answer{Status: 200} }, machine.Never},
		"an unknown outcome": {func(op *journal.Operation, _ *machine.Today, _ *time.Time) {
			op.State, op.Answer = journal.StateUnknown, nil
		}, machine.Never},
		"after the window":                    {func(_ *journal.Operation, _ *machine.Today, clock *time.Time) { *clock = clock.Add(21 * time.Hour) }, machine.Never},
		"a provider that remembers nothing":   {func(op *journal.Operation, _ *machine.Today, _ *time.Time) { op.Terms.Remembers = providers.Nothing }, machine.Never},
		"a table of today that promises less": {func(_ *journal.Operation, today *machine.Today, _ *time.Time) { today.Terms.Retention = 2 * time.Hour }, machine.Never},
		"another form of the key":             {func(_ *journal.Operation, today *machine.Today, _ *time.Time) { today.Form = "body" }, machine.Never},
		"no guard, within the handling time": {func(op *journal.Operation, _ *machine.Today, _ *time.Time) {
			op.Terms.Guard, op.Terms.Handling, op.LastEndedAt = false, time.Hour, noon.Add(-time.Minute)
		}, machine.NotBefore},
		"the word of a person alone": {func(op *journal.Operation, _ *machine.Today, _ *time.Time) {
			op.Answer.ByHand, op.Answer.Found = true, false
		}, machine.Never},
		"withdrawn":                          {func(op *journal.Operation, _ *machine.Today, _ *time.Time) { op.Withdrawn = &journal.Resolved{} }, machine.Never},
		"contradicted":                       {func(op *journal.Operation, _ *machine.Today, _ *time.Time) { op.Attention = "more than one object" }, machine.Never},
		"a second effect":                    {func(op *journal.Operation, _ *machine.Today, _ *time.Time) { op.SecondEffects = 1 }, machine.Never},
		"an answer of an earlier generation": {func(op *journal.Operation, _ *machine.Today, _ *time.Time) { op.Generation = 1 }, machine.Never},
		"refused, and remembered":            {func(op *journal.Operation, _ *machine.Today, _ *time.Time) { op.Answer.Refused = true }, machine.SendNow},
		"refused, and forgotten": {func(op *journal.Operation, _ *machine.Today, _ *time.Time) {
			op.Answer.Refused, op.Terms.Remembers = true, providers.SuccessesCleanFailures
		}, machine.Never},
		"refused, and forgotten by today's table": {func(op *journal.Operation, today *machine.Today, _ *time.Time) {
			op.Answer.Refused, today.Terms.Remembers = true, providers.SuccessesCleanFailures
		}, machine.Never},
	} {
		op, clock := found(), noon
		today := machine.Today{Terms: op.Terms, Form: op.Form}
		row.change(&op, &today, &clock)
		got := machine.MayRepeat(&op, today, clock, noon, time.Time{})
		assert.Equal(t, row.want, got.Answer, "%s: %s", name, got.Reason)
		assert.Equal(t, row.want == machine.SendNow, got.Reason == "", name)
	}
}

// A look-up for the outcome, before the operation was completed, does not delay the first one for its answer.
func TestTheAnswersFirstLookUpIsNotDelayed(t *testing.T) {
	op := found()
	op.LookedAt, op.SettledAt = noon.Add(-20*time.Second), noon.Add(-10*time.Second)
	ask := machine.Event{Kind: machine.EventLook, At: noon, Last: noon, Due: noon.Add(time.Minute), Asked: true}
	op, decision := next(t, op, false, ask)
	assert.Equal(t, machine.Look, decision)
	ask.At = noon.Add(50 * time.Second)
	_, decision = next(t, op, false, ask)
	assert.Equal(t, machine.Later, decision)
	ask.At = noon.Add(time.Minute)
	_, decision = next(t, op, false, ask)
	assert.Equal(t, machine.Look, decision)
	ask.Asked = false
	_, decision = next(t, op, false, ask)
	assert.Equal(t, machine.Ignored, decision, "no process looks for an answer unasked")
}

// A clock ran 20 days ahead when the operation was first sent and completed, and was set back. The window that the record
// shows is no longer than the provider's memory of the key, which ended long before.
func TestNoRepeatInTheWindowOfAClockThatRanAhead(t *testing.T) {
	op, ahead := found(), noon.Add(20*24*time.Hour)
	op.FirstSentAt, op.LastEndedAt, op.SettledAt, op.UpdatedAt = ahead, ahead, ahead, ahead
	today := machine.Today{Terms: op.Terms, Form: op.Form}
	later := ahead.Add(time.Hour)
	assert.Equal(t, machine.SendNow, machine.MayRepeat(&op, today, later, later, time.Time{}).Answer, "if the clock was right")

	op, decision := next(t, op, false, machine.Event{Kind: machine.EventLook, At: noon, Last: ahead, Due: noon.Add(time.Minute), Asked: true})
	assert.Equal(t, machine.Look, decision)
	assert.True(t, op.WindowClosed)
	assert.Equal(t, machine.Never, machine.MayRepeat(&op, today, later, later, time.Time{}).Answer)

	// No process asked for it until that clock's time had passed. The journal knows of that clock.
	asked := machine.Event{Kind: machine.EventLook, At: later, Last: later, Due: later.Add(time.Minute), Asked: true}
	for sentAfter, closed := range map[time.Duration]bool{-time.Millisecond: true, 0: true, time.Millisecond: false} {
		op, ev := found(), asked
		op.FirstSentAt, ev.Ahead = ahead, ahead.Add(-sentAfter)
		op, _ = next(t, op, false, ev)
		assert.Equal(t, closed, op.WindowClosed, sentAfter)
	}
	op = found()
	op.FirstSentAt = ahead
	op, _ = next(t, op, false, asked)
	assert.False(t, op.WindowClosed, "no clock was set back")

	op = found()
	op.FirstSentAt = ahead
	op, _ = next(t, op, false, machine.Event{Kind: machine.EventClock, At: noon, Last: ahead, Ahead: ahead})
	assert.False(t, op.WindowClosed, "the clock's event need not reach completed operations")

	whole := found()
	whole.FirstSentAt, whole.Answer = ahead, &journal.Answer{Status: 200}
	whole, _ = next(t, whole, false, machine.Event{Kind: machine.EventClock, At: noon, Last: ahead})
	assert.False(t, whole.WindowClosed, "with its answer, it is not sent again")
}
