package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// The holder of a claim has six clocks. Each decides in a row of its own, and the row after it shows its bound.
func TestTheClocksOfAClaim(t *testing.T) {
	const now, never, notBefore = machine.SendNow, machine.Never, machine.NotBefore
	type holder struct {
		op       journal.Operation
		progress machine.Progress
		at       time.Time
	}
	passes := func(h *holder, d time.Duration) { // the process's clock runs as its own time does
		h.at, h.progress.Now = h.at.Add(d), h.progress.Now.Add(d)
		h.progress.Held, h.progress.Idle = h.progress.Held+d, h.progress.Idle+d
	}
	// opens makes it the first claim: its clock begins the window.
	opens := func(h *holder) {
		h.op.FirstSentAt, h.op.LastEndedAt, h.op.Found = noon, time.Time{}, journal.Found{State: journal.StateAbsent}
		h.progress.Open, h.progress.Sent = true, true
	}
	end := noon.Add(-time.Hour).Add(guarded.Window())
	for _, tc := range []struct {
		name   string
		change func(h *holder) // of a second claim, at noon; the first send was an hour before
		want   machine.PermissionAnswer
		until  time.Time
	}{
		{"all agree", func(*holder) {}, now, time.Time{}},

		// The time of the attempt.
		{"the attempt is at the end of the window", func(h *holder) { h.at = end }, never, time.Time{}},
		{"the attempt is a millisecond before", func(h *holder) { h.at = end.Add(-time.Millisecond) }, now, time.Time{}},

		// The journal's last time.
		{"the journal has seen the end of the window", func(h *holder) { h.progress.Last = end }, never, time.Time{}},
		{"the journal's time is ahead by more than the margin", func(h *holder) { h.progress.Last = noon.Add(2 * time.Hour) }, notBefore, noon.Add(2 * time.Hour)},
		{"it is, and this claim's clock began the window", func(h *holder) { opens(h); h.progress.Last = end.Add(day) }, now, time.Time{}},
		{"the clock was unconfirmed at the claim", func(h *holder) { h.progress.Unconfirmed = believed }, notBefore, believed},
		{"it was not, and began the window", func(h *holder) { opens(h); h.progress.Unconfirmed = believed }, now, time.Time{}},
		{"it was not, and the last attempt ended a window ago by both times", func(h *holder) {
			h.progress.Unconfirmed = believed
			h.op.FirstSentAt, h.op.LastEndedAt = noon.Add(day), noon.Add(-guarded.Window())
			h.op.SentSince = h.op.LastEndedAt.Add(-time.Minute)
		}, never, time.Time{}},

		// The time of the claim.
		{"the clock has stepped back behind the claim", func(h *holder) { h.at = noon.Add(-time.Hour - time.Millisecond); h.op.FirstSentAt = h.at },
			notBefore, noon.Add(-time.Hour - time.Millisecond + machine.Confirmation)},
		{"by no more than the margin", func(h *holder) { h.at = noon.Add(-time.Hour) }, now, time.Time{}},
		{"it began the window", func(h *holder) { opens(h); h.at = noon.Add(-time.Hour - time.Millisecond) },
			notBefore, noon.Add(-time.Hour - time.Millisecond + machine.Confirmation)},

		// The process's clock, against its own time since the claim.
		{"the clock has leapt ahead", func(h *holder) { h.progress.Now = noon.Add(machine.Leap + time.Minute + time.Millisecond) }, notBefore, believed.Add(time.Minute)},
		{"by no more than a leap", func(h *holder) { h.progress.Now = noon.Add(machine.Leap + time.Minute) }, now, time.Time{}},
		{"it is as far ahead, and that time has passed", func(h *holder) { h.op.Terms.Retention = 30 * day; passes(h, 2*day) }, now, time.Time{}},
		{"it has leapt, and began the window", func(h *holder) { opens(h); h.progress.Now = noon.Add(2 * day) }, notBefore, believed.Add(time.Minute)},
		{"it has leapt, and was unconfirmed before", func(h *holder) { h.progress.Now, h.progress.Unconfirmed = noon.Add(2*day), believed }, notBefore, believed},

		// The earliest possible first send.
		{"an earlier clock that ran ahead dated the first send", func(h *holder) { h.op.SentSince = noon.Add(-guarded.Window()) }, never, time.Time{}},
		{"this claim's clock did", func(h *holder) { opens(h); h.op.SentSince = noon.Add(-guarded.Window()) }, now, time.Time{}},

		// The process's own time since an attempt was under way.
		{"nothing was under way for the handling time", func(h *holder) { h.op.Terms = slow; h.progress.Idle = slow.Handling }, now, time.Time{}},
		{"for a minute less", func(h *holder) { h.op.Terms = slow; h.progress.Idle = slow.Handling - time.Minute }, notBefore, noon.Add(2 * time.Minute)},
		{"the record is later than that", func(h *holder) { h.op.Terms, h.op.LastEndedAt, h.progress.Idle = slow, noon, day }, notBefore, noon.Add(slow.Handling)},
		{"the record is older by an hour more", func(h *holder) {
			h.op.Terms, h.op.LastEndedAt, h.op.FirstSentAt = slow, noon.Add(-time.Hour-slow.Handling), noon.Add(-2*time.Hour)
			h.progress.Idle = 0
		}, now, time.Time{}},
		{"it is, and this claim has sent since", func(h *holder) {
			h.op.Terms, h.op.LastEndedAt, h.op.FirstSentAt = slow, noon.Add(-time.Hour-slow.Handling), noon.Add(-2*time.Hour)
			h.progress.Idle, h.progress.Sent = 0, true
		}, notBefore, noon.Add(time.Minute + slow.Handling)},
		{"it has, and the journal's time is ahead within the margin", func(h *holder) {
			h.op.Terms, h.progress.Last, h.progress.Sent, h.progress.Idle = slow, noon.Add(30*time.Minute), true, 9*time.Minute
		}, notBefore, noon.Add(21*time.Minute + slow.Handling)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := holder{op: inFlight(journal.Named, guarded), at: noon.Add(time.Minute)}
			h.op.UpdatedAt, h.op.FirstSentAt, h.op.LastEndedAt = noon, noon.Add(-time.Hour), noon.Add(-time.Hour)
			h.op.Found = journal.Found{State: journal.StatePending, MayHaveRun: true, FirstSentAt: h.op.FirstSentAt}
			h.progress = machine.Progress{Now: h.at, Last: noon, Held: time.Minute, Idle: time.Minute}
			tc.change(&h)
			p := machine.MaySend(h.progress.Question(&h.op, h.at))
			assert.Equal(t, tc.want, p.Answer, p.Reason)
			assert.Equal(t, tc.until, p.At)
		})
	}
}

// Under a claim, only what the claim found and what its own attempts left open may have run, whatever the record says
// meanwhile.
func TestWhatMayHaveRunUnderAClaim(t *testing.T) {
	late := noon.Add(guarded.Retention)
	for name, tc := range map[string]struct {
		change func(op *journal.Operation, p *machine.Progress)
		want   machine.PermissionAnswer
	}{
		"nothing":                      {func(*journal.Operation, *machine.Progress) {}, machine.SendNow},
		"an attempt of it":             {func(_ *journal.Operation, p *machine.Progress) { p.Open = true }, machine.Never},
		"an attempt of an earlier one": {func(op *journal.Operation, _ *machine.Progress) { op.Found.MayHaveRun = true }, machine.Never},
		"an attempt of it, within the window, that was answered by a failure": {func(op *journal.Operation, p *machine.Progress) {
			op.FirstSentAt, op.UpdatedAt, op.Terms.Remembers, p.Open, p.Failed = late, late, memory.SuccessesLostAnswers, true, true
		}, machine.Never},
		"it is idempotent, with neither name nor key": {func(op *journal.Operation, p *machine.Progress) {
			op.Naming, op.Key, p.Open, p.Idempotent = journal.Generated, "", true, true
		}, machine.SendNow},
		"it is idempotent, with a key": {func(op *journal.Operation, p *machine.Progress) {
			op.Naming, op.Key, p.Open, p.Idempotent = journal.Generated, "k", true, true
		}, machine.Never},
		"it is idempotent, with a name": {func(op *journal.Operation, p *machine.Progress) {
			op.Naming, op.Key, p.Open, p.Idempotent = journal.Named, "", true, true
		}, machine.Never},
	} {
		op, p := inFlight(journal.Named, guarded), machine.Progress{Now: late, Last: late, Held: guarded.Retention}
		op.UpdatedAt, op.FirstSentAt, op.Found = noon, noon, journal.Found{State: journal.StatePending}
		tc.change(&op, &p)
		assert.Equal(t, tc.want, machine.MaySend(p.Question(&op, late)).Answer, name)
	}
}
