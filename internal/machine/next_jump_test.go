package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// A clock that has jumped, and is not confirmed yet.

const day = 24 * time.Hour

var believed = noon.Add(machine.Confirmation) // when the clock of these tests will be confirmed

func jumped(ev machine.Event) machine.Event {
	ev.Unconfirmed = believed
	return ev
}

// An operation that is first sent by a clock after a jump ahead also gets the journal's time.
func TestJumpAheadDatesByTheJournalToo(t *testing.T) {
	last := noon.Add(-3 * day)
	for _, tc := range []struct {
		name  string
		ev    func(ev machine.Event) machine.Event
		since time.Time
	}{
		{"ahead", func(ev machine.Event) machine.Event { ev.Last = last; return jumped(ev) }, last},
		{"believed", func(ev machine.Event) machine.Event { ev.Last = last; return ev }, time.Time{}},
		{"behind", func(ev machine.Event) machine.Event { ev.Last = noon.Add(3 * day); return jumped(ev) }, time.Time{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			op, decision := next(t, journal.Operation{}, false, tc.ev(begin(journal.Named, guarded)))
			require.Equal(t, machine.Execute, decision, "new operations go on")
			assert.Equal(t, noon, op.FirstSentAt, "what travels is the asker's own time")
			assert.Equal(t, tc.since, op.SentSince)
			if !tc.since.IsZero() {
				assert.Empty(t, machine.Violations(op, last))
				assert.NotEmpty(t, machine.Violations(op, last.Add(-journal.MaxMargin-time.Millisecond)))
			}

			park := machine.Event{Kind: machine.EventPark, At: noon, Last: last, Session: "B", Claim: 1, Unsent: true}
			op, _ = next(t, op, true, park)
			assert.Zero(t, op.FirstSentAt)
			assert.Zero(t, op.SentSince)
		})
	}
	t.Run("not an operation that was sent before", func(t *testing.T) {
		op := operation(journal.Named, guarded)
		op.State = journal.StatePending
		first := op.FirstSentAt
		ev := jumped(begin(journal.Named, guarded))
		ev.Last = last
		op, _ = next(t, op, false, ev)
		assert.Equal(t, first, op.FirstSentAt)
		assert.Zero(t, op.SentSince)
	})
	t.Run("a new generation's window is its own", func(t *testing.T) {
		op := operation(journal.Named, guarded)
		op.State, op.SentSince = journal.StateCancelled, last
		ev := begin(journal.Named, guarded)
		ev.Intent.Fingerprint, ev.Intent.NextKey = "another request", func(int) string { return "another key" }
		op, _ = next(t, op, false, ev)
		assert.Zero(t, op.SentSince)
	})
}

// sentMeanwhile is a due operation that may have run, first sent at noon by a clock that had jumped ahead three days.
func sentMeanwhile() journal.Operation {
	op := operation(journal.Named, guarded)
	op.State, op.MayHaveRun, op.DueAt, op.WakeAt = journal.StatePending, true, noon, noon
	op.FirstSentAt, op.SentSince, op.CreatedAt, op.UpdatedAt = noon, noon.Add(-3*day), noon, noon
	return op
}

// If a jump ahead is confirmed, the window begins when that clock said.
func TestJumpAheadThatIsConfirmed(t *testing.T) {
	last := noon.Add(-3 * day)
	ev := machine.Event{Kind: machine.EventClock, At: believed, Last: last, Since: noon.Add(-time.Minute)}
	op, decision := next(t, sentMeanwhile(), false, ev)
	assert.Equal(t, machine.Ignored, decision)
	assert.Zero(t, op.SentSince)
	assert.Equal(t, noon, op.FirstSentAt)
	_, decision = next(t, op, false, machine.Event{Kind: machine.EventClaim, Session: "B", At: believed, Last: believed})
	assert.Equal(t, machine.Execute, decision)

	for name, change := range map[string]func(ev *machine.Event){
		"first sent before it jumped":            func(ev *machine.Event) { ev.Since = noon.Add(time.Millisecond) },
		"first sent later than it stands":        func(ev *machine.Event) { ev.At = noon.Add(-time.Millisecond) },
		"first sent during another jump":         func(ev *machine.Event) { ev.Last = last.Add(time.Millisecond) },
		"it came back, and nothing is confirmed": func(ev *machine.Event) { ev.Since = time.Time{} },
	} {
		ev := ev
		change(&ev)
		op, _ := next(t, sentMeanwhile(), false, ev)
		assert.Equal(t, last, op.SentSince, name)
		_, decision = next(t, op, false, machine.Event{Kind: machine.EventClaim, Session: "B", At: believed, Last: believed})
		assert.Equal(t, machine.Stop, decision, name)
	}
	left := sentMeanwhile() // by a clock that was further ahead still, in between
	left.UpdatedAt, left.DueAt = noon.Add(day), noon.Add(day+time.Minute)
	op, _ = next(t, left, false, ev)
	assert.Equal(t, believed.Add(time.Minute), op.DueAt)
	answered := sentMeanwhile()
	answered.State = journal.StateCompleted
	op, _ = next(t, answered, false, ev)
	assert.Equal(t, answered, op, "what has an answer is left alone")
	for _, exact := range []func(ev *machine.Event){
		func(ev *machine.Event) { ev.Since = noon }, func(ev *machine.Event) { ev.Since = noon.Add(time.Microsecond) }, func(ev *machine.Event) { ev.At = noon },
	} {
		ev := ev
		exact(&ev)
		op, _ := next(t, sentMeanwhile(), false, ev)
		assert.Zero(t, op.SentSince)
	}
}

// If a clock far ahead postponed an operation, and a clock far behind that one postpones it again, the record keeps the
// first clock's time.
func TestJumpAheadIsKnownAfterAnother(t *testing.T) {
	ahead := noon.Add(20 * day)
	for lead, kept := range map[time.Duration]bool{machine.Leap: false, machine.Leap + time.Millisecond: true, 18 * day: true, 22 * day: true} {
		op := operation(journal.Named, guarded)
		op.State, op.MayHaveRun, op.UpdatedAt = journal.StatePending, true, ahead
		op.DueAt, op.WakeAt = ahead.Add(time.Minute), ahead.Add(time.Minute)
		at := ahead.Add(-lead)
		op, decision := next(t, op, false, jumped(machine.Event{Kind: machine.EventClaim, Session: "B", At: at, Last: noon}))
		require.Equal(t, machine.Later, decision)
		assert.Equal(t, kept, op.UpdatedAt.Equal(ahead), lead)
		assert.Equal(t, !kept, op.UpdatedAt.Equal(at), lead)
		if kept {
			op, _ = next(t, op, false, machine.Event{Kind: machine.EventClock, At: noon, Last: noon})
			assert.Equal(t, noon.Add(time.Minute), op.DueAt)
		}
	}
	sent := operation(journal.Named, guarded)
	sent.State, sent.MayHaveRun, sent.FirstSentAt, sent.UpdatedAt = journal.StatePending, false, time.Time{}, ahead
	sent, decision := next(t, sent, false, machine.Event{Kind: machine.EventClaim, Session: "B", At: noon, Last: noon})
	require.Equal(t, machine.Execute, decision)
	assert.Equal(t, noon, sent.UpdatedAt, "what is more than put off is dated by who does it")
}

// An operation that a clock parked before it was set back pauses for as long as planned.
func TestJumpBackKeepsPauses(t *testing.T) {
	year := 365 * day
	ahead := noon.Add(year)
	written := func() journal.Operation {
		op := operation(journal.Named, guarded)
		op.State, op.MayHaveRun = journal.StatePending, true
		op.CreatedAt, op.UpdatedAt, op.LastEndedAt, op.BusySince = ahead, ahead, ahead, ahead
		op.DueAt, op.WakeAt = ahead.Add(time.Minute), ahead.Add(time.Hour)
		op.FirstSentAt, op.SentSince = ahead, noon.Add(-time.Minute)
		return op
	}
	ev := machine.Event{Kind: machine.EventClock, At: noon, Last: noon}
	op, _ := next(t, written(), false, ev)
	assert.Equal(t, noon.Add(time.Minute), op.DueAt)
	assert.Equal(t, noon.Add(time.Hour), op.WakeAt)
	for _, at := range []time.Time{op.CreatedAt, op.UpdatedAt, op.LastEndedAt, op.BusySince} {
		assert.Equal(t, noon, at)
	}
	assert.Equal(t, ahead, op.FirstSentAt, "what was said to the provider stays")
	assert.Equal(t, noon.Add(-time.Minute), op.SentSince)
	assert.Zero(t, op.SettledAt)

	for name, tc := range map[string]struct {
		op    func(op *journal.Operation)
		ev    func(ev *machine.Event)
		stays bool
	}{
		"by a confirmed clock, a day ahead":           {func(op *journal.Operation) { op.UpdatedAt = noon.Add(day) }, func(ev *machine.Event) { ev.Last = noon.Add(day) }, true},
		"by a confirmed clock, more than a day ahead": {func(op *journal.Operation) { op.UpdatedAt = noon.Add(day + 1e6) }, func(ev *machine.Event) { ev.Last = noon.Add(2 * day) }, false},
		"an hour ahead of the journal's latest time":  {func(op *journal.Operation) { op.UpdatedAt = noon.Add(time.Hour) }, func(*machine.Event) {}, false},
		"of the same time":                            {func(op *journal.Operation) { op.UpdatedAt = noon }, func(ev *machine.Event) { ev.Last = noon.Add(-time.Hour) }, true},
		"by a clock that is unconfirmed itself":       {func(*journal.Operation) {}, func(ev *machine.Event) { ev.Unconfirmed = believed }, true},
		"completed":                                   {func(op *journal.Operation) { op.State = journal.StateCompleted }, func(*machine.Event) {}, true},
	} {
		op, ev := written(), ev
		tc.op(&op)
		tc.ev(&ev)
		after, _ := next(t, op, false, ev)
		assert.Equal(t, tc.stays, after.DueAt.Equal(op.DueAt), name)
	}
	margin := written().Terms.Margin()
	for last, want := range map[time.Duration]time.Duration{-margin / 2: 0, margin / 2: margin / 2, margin: margin, margin + time.Millisecond: 0} {
		op, _ := next(t, written(), false, machine.Event{Kind: machine.EventClock, At: noon, Last: noon.Add(last)})
		assert.Equal(t, noon.Add(want+time.Minute), op.DueAt, "from the later one of two clocks that are right: %v", last)
		assert.Equal(t, noon.Add(want+time.Hour), op.WakeAt)
	}
	parked := written()
	parked.UpdatedAt, parked.DueAt = noon, noon.Add(-time.Minute)
	op, _ = next(t, parked, false, machine.Event{Kind: machine.EventClock, At: noon, Last: noon.Add(-time.Minute)})
	assert.Equal(t, parked, op, "a clock that stands where it was written has not come back")
	flying := written()
	flying.State, flying.Holder, flying.DueAt, flying.WakeAt = journal.StateInFlight, "A", time.Time{}, time.Time{}
	op, _ = next(t, flying, true, ev)
	assert.Zero(t, op.DueAt, "an operation in flight is not due")
	assert.Zero(t, op.WakeAt)
	overdue := written()
	overdue.DueAt = ahead.Add(-time.Minute)
	overdue.LastEndedAt = noon.Add(-time.Minute)
	op, _ = next(t, overdue, false, ev)
	assert.Equal(t, noon, op.DueAt, "due at once")
	assert.Equal(t, noon.Add(-time.Minute), op.LastEndedAt, "what is not ahead stays")
	for due, want := range map[time.Duration]time.Duration{-time.Minute: 0, time.Minute: time.Minute, day: day, day + time.Millisecond: 0} {
		asked := written()
		asked.DueAt, asked.WakeAt = noon.Add(due), ahead.Add(time.Hour)
		op, _ = next(t, asked, false, ev)
		assert.Equal(t, noon.Add(want), op.DueAt, "%v: until when a provider has asked for patience, by a clock that was right", due)
		assert.Equal(t, noon.Add(time.Hour), op.WakeAt)
	}
}

// An unconfirmed clock closes no window.
func TestUnconfirmedJumpClosesNoWindow(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.MayHaveRun, op.FirstSentAt = journal.StatePending, true, noon.Add(2*time.Hour)
	for _, unconfirmed := range []bool{true, false} {
		ev := machine.Event{Kind: machine.EventClock, At: noon, Last: noon.Add(3 * time.Hour)}
		if unconfirmed {
			ev = jumped(ev)
		}
		after, _ := next(t, op, false, ev)
		assert.Equal(t, !unconfirmed, after.WindowClosed)
	}
	op.SentSince = noon.Add(-time.Hour)
	after, _ := next(t, op, false, machine.Event{Kind: machine.EventClock, At: noon, Last: noon.Add(3 * time.Hour)})
	assert.False(t, after.WindowClosed, "it is dated otherwise")
}

// An unconfirmed clock settles and reaps nothing.
func TestUnconfirmedJumpSettlesNothing(t *testing.T) {
	t.Run("an operation past its window wakes again once the clock is confirmed", func(t *testing.T) {
		op := operation(journal.Carried, guarded)
		op.State, op.MayHaveRun, op.Told, op.DueAt, op.WakeAt = journal.StatePending, true, true, noon, noon
		for _, tc := range []struct{ at, wake time.Time }{
			{noon.Add(100 * day), noon.Add(100 * day)}, {noon, believed},
		} {
			after, decision := next(t, op, false, jumped(machine.Event{Kind: machine.EventClaim, At: tc.at, Last: noon, Session: "B"}))
			assert.Equal(t, machine.Later, decision)
			assert.Equal(t, tc.wake, after.WakeAt)
		}
	})
	t.Run("busy", func(t *testing.T) {
		op, ev := inFlight(journal.Named, guarded), release(machine.EventPark)
		op.BusySince, op.Terms.Retention = noon.Add(-2*machine.MaxBusy), 30*day
		ev.Open, ev.Busy, ev.Last = true, true, noon.Add(-machine.MaxBusy-time.Millisecond)
		op, _ = next(t, op, true, jumped(ev))
		assert.Equal(t, journal.StatePending, op.State)
		assert.Equal(t, believed, op.DueAt)
	})
	t.Run("a carried key whose caller got an error", func(t *testing.T) {
		for _, terms := range []journal.Terms{guarded, {}} {
			op, ev := inFlight(journal.Carried, terms), release(machine.EventPark)
			op.FirstSentAt, op.Found.FirstSentAt = noon.Add(-3*day), noon.Add(-3*day)
			ev.Told, ev.Last = true, noon.Add(-3*day)
			op, _ = next(t, op, true, jumped(ev))
			if terms == guarded {
				assert.Equal(t, journal.StatePending, op.State)
				assert.Equal(t, believed, op.WakeAt)
			} else {
				assert.Equal(t, journal.StateCancelled, op.State, "there is no window")
			}
		}
	})
	t.Run("but it is settled once the clock is confirmed", func(t *testing.T) {
		op, ev := inFlight(journal.Carried, guarded), release(machine.EventPark)
		op.FirstSentAt, op.Found.FirstSentAt, ev.Told = noon.Add(-3*day), noon.Add(-3*day), true
		op, _ = next(t, op, true, ev)
		assert.Equal(t, journal.StateCancelled, op.State, "its window is over")
	})
	t.Run("its window began by the end of its attempt, whichever clock dated the send", func(t *testing.T) {
		op := operation(journal.Carried, guarded)
		op.State, op.MayHaveRun, op.Told = journal.StatePending, true, true
		op.FirstSentAt, op.SentSince, op.LastEndedAt = noon.Add(5*time.Hour), noon.Add(-time.Hour), noon
		ev := jumped(machine.Event{Kind: machine.EventClaim, Session: "B", At: noon.Add(guarded.Window() + time.Hour), Last: noon.Add(guarded.Window() + time.Hour)})
		got, decision := next(t, op, false, ev)
		assert.Equal(t, machine.Stop, decision)
		assert.Equal(t, journal.StateUnknown, got.State)
	})
	t.Run("reap", func(t *testing.T) {
		op := operation(journal.Named, guarded)
		op.State, op.Delivered, op.SettledAt = journal.StateCancelled, true, noon.Add(-100*day)
		_, decision := next(t, op, false, jumped(machine.Event{Kind: machine.EventReap, At: noon, Last: noon.Add(-99 * day), Keep: 2 * day}))
		assert.Equal(t, machine.Ignored, decision)
	})
}

// An answer that a clock far behind records counts as settled at the journal's time. Otherwise a process with the right
// time would reap it at once.
func TestAnswerToAClockBehindIsKept(t *testing.T) {
	for _, tc := range []struct {
		name            string
		behind          time.Duration
		settled, reaped time.Time
	}{
		{"by days", 3 * day, noon, noon.Add(2 * day)},
		{"by the margin", time.Hour, noon.Add(-time.Hour), noon.Add(2*day - time.Hour)},
		{"within the margin", time.Minute, noon.Add(-time.Minute), noon.Add(2*day - time.Minute)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ev := release(machine.EventComplete)
			ev.At, ev.Last, ev.Answer, ev.Delivered = noon.Add(-tc.behind), noon, &journal.Answer{Status: 201}, true
			op, _ := next(t, inFlight(journal.Carried, guarded), true, ev)
			assert.Equal(t, tc.settled, op.SettledAt)
			reap := machine.Event{Kind: machine.EventReap, At: tc.reaped.Add(-time.Millisecond), Last: noon, Keep: 2 * day}
			_, decision := next(t, op, false, reap)
			assert.Equal(t, machine.Ignored, decision)
			reap.At = tc.reaped
			_, decision = next(t, op, false, reap)
			assert.Equal(t, machine.Recorded, decision)
		})
	}
}

func TestClockJumpIsConfirmedInTime(t *testing.T) {
	q := machine.Question{MayHaveRun: true, Terms: guarded, FirstSentAt: noon.Add(-time.Hour), Clock: noon, Last: noon, Unconfirmed: believed}
	p := machine.MaySend(q)
	assert.Equal(t, machine.NotBefore, p.Answer)
	assert.Equal(t, believed, p.At)
	assert.Contains(t, p.Reason, "clock")
	q.Clock = believed.Add(time.Hour) // of a later attempt
	assert.Equal(t, q.Clock, machine.MaySend(q).At)
	q.FirstSentAt, q.Clock = noon.Add(-23*time.Hour+time.Millisecond), noon.Add(100*day)
	assert.Equal(t, machine.NotBefore, machine.MaySend(q).Answer, "whether the window is over can't be told yet")
	q.WindowClosed = true
	assert.Equal(t, machine.Never, machine.MaySend(q).Answer)
	q.MayHaveRun = false
	assert.Equal(t, machine.SendNow, machine.MaySend(q).Answer)
}

// An unconfirmed clock settles an operation whose time is over by the journal's last time and by the clock.
func TestUnconfirmedJumpSettlesExpiredOperations(t *testing.T) {
	for name, clock := range map[string]struct{ at, last time.Duration }{
		"ahead": {100 * day, 0},
		"back":  {0, 100 * day},
	} {
		t.Run(name, func(t *testing.T) {
			by := func(over bool) time.Time { // over at noon, or a millisecond later
				if over {
					return noon
				}
				return noon.Add(time.Millisecond)
			}
			seen := func(ev machine.Event) machine.Event {
				ev.At, ev.Last, ev.Unconfirmed = noon.Add(clock.at), noon.Add(clock.last), noon.Add(clock.at+machine.Confirmation)
				return ev
			}
			for _, over := range []bool{true, false} {
				t.Run(map[bool]string{true: "over", false: "not over"}[over], func(t *testing.T) {
					want := func(settled journal.State) journal.State {
						if over {
							return settled
						}
						return journal.StatePending
					}
					named := operation(journal.Named, guarded)
					named.State, named.MayHaveRun, named.FirstSentAt = journal.StatePending, true, by(over).Add(-guarded.Window())
					op, _ := next(t, named, false, seen(machine.Event{Kind: machine.EventClaim, Session: "B"}))
					assert.Equal(t, want(journal.StateUnknown), op.State)

					told := operation(journal.Carried, guarded)
					told.State, told.Told, told.FirstSentAt, told.CreatedAt = journal.StatePending, true, time.Time{}, by(over).Add(-guarded.Window())
					op, _ = next(t, told, false, seen(machine.Event{Kind: machine.EventClaim, Session: "B"}))
					assert.Equal(t, want(journal.StateCancelled), op.State)

					parked, park := inFlight(journal.Carried, guarded), release(machine.EventPark)
					parked.FirstSentAt, parked.Found.FirstSentAt = time.Time{}, time.Time{}
					parked.CreatedAt, park.Unsent, park.Told = by(over).Add(-guarded.Window()), true, true
					op, _ = next(t, parked, true, seen(park))
					assert.Equal(t, want(journal.StateCancelled), op.State)

					busy, park := inFlight(journal.Named, guarded), release(machine.EventPark)
					busy.BusySince, busy.Terms.Retention, park.Open, park.Busy = by(over).Add(-machine.MaxBusy), 30*day, true, true
					op, _ = next(t, busy, true, seen(park))
					assert.Equal(t, want(journal.StateUnknown), op.State)

					done := operation(journal.Named, guarded)
					done.State, done.Delivered, done.SettledAt = journal.StateCancelled, true, by(over).Add(-2*day)
					_, decision := next(t, done, false, seen(machine.Event{Kind: machine.EventReap, Keep: 2 * day}))
					assert.Equal(t, over, decision == machine.Recorded)
				})
			}
		})
	}
}

// The window of an operation that was first sent by a clock after a jump is over only if it is over by both times.
func TestJumpIsOverByBothTimes(t *testing.T) {
	op := sentMeanwhile()
	op.LastEndedAt = time.Time{} // the end of its attempts is unknown
	after := noon.Add(2 * time.Hour)
	ev := machine.Event{Kind: machine.EventClaim, Session: "B", At: after, Last: after, Unconfirmed: after.Add(machine.Confirmation)}
	op, decision := next(t, op, false, ev)
	assert.NotEqual(t, machine.Stop, decision)
	assert.Equal(t, journal.StatePending, op.State)
}

// An unsent operation is kept for its caller until its window is over, and no longer.
func TestJumpKeepsUnsentOperations(t *testing.T) {
	op := inFlight(journal.Carried, guarded)
	op.FirstSentAt, op.SentSince = noon, noon.Add(-3*day) // a request that was refused has begun the window
	op.Found = journal.Found{State: journal.StatePending, FirstSentAt: noon}
	after := noon.Add(2 * time.Hour)
	park := machine.Event{Kind: machine.EventPark, At: after, Last: after, Session: op.Holder, Claim: op.Claim, Unsent: true, Told: true}
	ended, _ := next(t, op, true, park)
	assert.Equal(t, journal.StateCancelled, ended.State)
	park.Unconfirmed = after.Add(machine.Confirmation)
	kept, _ := next(t, op, true, park)
	assert.Equal(t, journal.StatePending, kept.State, "the clock may be wrong")
}

// An operation without a window is never kept for its caller, whatever the clock: no process could send it.
func TestJumpKeepsNothingWithoutAWindow(t *testing.T) {
	op := inFlight(journal.Carried, journal.Terms{})
	after := noon.Add(4 * day)
	op.CreatedAt = after
	op.FirstSentAt, op.Found = time.Time{}, journal.Found{}
	park := machine.Event{Kind: machine.EventPark, At: after, Last: noon, Unconfirmed: after.Add(machine.Confirmation),
		Session: op.Holder, Claim: op.Claim, Unsent: true, Told: true}
	ended, _ := next(t, op, true, park)
	assert.Equal(t, journal.StateCancelled, ended.State)

	// An unnamed operation whose process was killed is not sent again, though the clock has gone back behind its first send.
	killed := inFlight(journal.Generated, journal.Terms{})
	killed.FirstSentAt = noon.Add(time.Hour)
	claim := jumped(machine.Event{Kind: machine.EventClaim, Session: "B", At: noon, Last: noon.Add(2 * time.Hour), NamedOnly: true})
	left, decision := next(t, killed, false, claim)
	assert.Equal(t, machine.Stop, decision)
	assert.Equal(t, journal.StateUnknown, left.State, "it may have run")
}

// The window of an operation that waits for its caller counts from its first request, not from its creation. A clock
// after a jump does not end it earlier.
func TestJumpAheadKeepsTheWindowOfOldOperations(t *testing.T) {
	op := operation(journal.Carried, guarded)
	op.State, op.MayHaveRun, op.Told = journal.StatePending, true, true
	op.CreatedAt, op.DueAt, op.WakeAt = noon.Add(-25*time.Hour), noon, noon
	claim := jumped(machine.Event{Kind: machine.EventClaim, At: noon, Last: noon.Add(-time.Minute), Session: "B"})
	got, decision := next(t, op, false, claim)
	assert.Equal(t, machine.Later, decision)
	assert.Equal(t, journal.StatePending, got.State)
	assert.Equal(t, believed, got.WakeAt)

	claim.Unconfirmed = time.Time{}
	claim.At = op.FirstSentAt.Add(guarded.Retention)
	got, decision = next(t, op, false, claim)
	assert.Equal(t, machine.Stop, decision)
	assert.Equal(t, journal.StateUnknown, got.State)
}

// An operation whose provider named no time is due when its handling time has passed, even if the asker's clock is
// unconfirmed. A time that was named stays.
func TestJumpKeepsOnlyADueTimeThatWasNamed(t *testing.T) {
	for name, row := range map[string]struct{ named, due time.Time }{
		"none was named": {time.Time{}, noon.Add(10 * time.Minute)},
		"one was named":  {noon.Add(-time.Hour), noon.Add(-time.Hour)},
	} {
		op := operation(journal.Named, slow)
		op.State, op.MayHaveRun, op.DueAt = journal.StatePending, true, row.named
		op, decision := next(t, op, false, jumped(begin(journal.Named, slow)))
		require.Equal(t, machine.Later, decision, name)
		assert.Equal(t, row.due, op.DueAt, name)
		assert.Equal(t, noon.Add(10*time.Minute), op.WakeAt, name)
	}
}
