package machine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// guarded is a provider that recognises everything for a day; its window is 23 hours.
var guarded = journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true}

// slow is the same provider without a guard.
var slow = journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Handling: 10 * time.Minute}

func TestTheResendRuleClauseByClause(t *testing.T) {
	type question = machine.Question
	const now, never, notBefore = machine.SendNow, machine.Never, machine.NotBefore
	clockAt := func(q *question, at time.Time) { q.Clock, q.Last = at, at }
	for _, tc := range []struct {
		name   string
		change func(q *question) // of an ambiguous attempt at noon, an hour ago, under guarded
		want   machine.PermissionAnswer
		at     time.Time
	}{
		{"inside the window", func(q *question) {}, now, time.Time{}},
		{"last millisecond of the window", func(q *question) { clockAt(q, noon.Add(23*time.Hour-time.Millisecond)) }, now, time.Time{}},
		{"at the end of the window", func(q *question) { clockAt(q, noon.Add(23*time.Hour)) }, never, time.Time{}},
		{"in the margin", func(q *question) { clockAt(q, noon.Add(23*time.Hour+time.Minute)) }, never, time.Time{}},
		{"after the retention", func(q *question) { clockAt(q, noon.Add(25*time.Hour)) }, never, time.Time{}},
		{"the margin of a short retention is a quarter, before", func(q *question) {
			q.Terms.Retention = 40 * time.Minute
			clockAt(q, noon.Add(30*time.Minute-time.Millisecond))
		}, now, time.Time{}},
		{"the margin of a short retention is a quarter, at its start", func(q *question) {
			q.Terms.Retention = 40 * time.Minute
			clockAt(q, noon.Add(30*time.Minute))
		}, never, time.Time{}},
		{"the margin of a long retention is an hour", func(q *question) {
			q.Terms.Retention = 30 * 24 * time.Hour
			clockAt(q, noon.Add(30*24*time.Hour-time.Hour-time.Millisecond))
		}, now, time.Time{}},

		{"nothing may have run", func(q *question) { *q = question{Clock: q.Clock, Last: q.Last} }, now, time.Time{}},
		{"nothing may have run, though the window is over", func(q *question) {
			q.MayHaveRun, q.WindowClosed = false, true
			clockAt(q, noon.Add(48*time.Hour))
		}, now, time.Time{}},
		{"nothing may have run, though the clock is behind", func(q *question) {
			q.MayHaveRun, q.Last = false, noon.Add(9*time.Hour)
		}, now, time.Time{}},

		{"nothing is recognised", func(q *question) { q.Terms.Remembers = memory.Nothing }, never, time.Time{}},
		{"successes alone are recognised", func(q *question) { q.Terms.Remembers = memory.Successes }, never, time.Time{}},
		{"successes are recognised and failures are clean", func(q *question) { q.Terms.Remembers = memory.SuccessesCleanFailures }, now, time.Time{}},
		{"no retention is promised", func(q *question) { q.Terms.Retention = 0 }, never, time.Time{}},
		{"a negative retention", func(q *question) { q.Terms.Retention = -time.Hour }, never, time.Time{}},
		{"the first send is not dated", func(q *question) { q.FirstSentAt = time.Time{} }, never, time.Time{}},
		{"the window was closed", func(q *question) { q.WindowClosed = true }, never, time.Time{}},

		{"no guard and no stated handling time", func(q *question) { q.Terms.Guard = false }, never, time.Time{}},
		{"no guard and a negative handling time", func(q *question) {
			q.Terms.Guard, q.Terms.Handling = false, -time.Minute
		}, never, time.Time{}},
		{"no guard, handling time has passed", func(q *question) {
			q.Terms = slow
			q.LastEndedAt = q.Clock.Add(-10 * time.Minute)
		}, now, time.Time{}},
		{"no guard, handling time has a millisecond to go", func(q *question) {
			q.Terms = slow
			q.LastEndedAt = q.Clock.Add(-10*time.Minute + time.Millisecond)
		}, notBefore, noon.Add(time.Hour + time.Millisecond)},
		{"no guard, the attempt has just ended", func(q *question) {
			q.Terms = slow
			q.LastEndedAt = q.Clock
		}, notBefore, noon.Add(70 * time.Minute)},
		{"no guard, handling time ends with the window", func(q *question) {
			q.Terms = slow
			clockAt(q, noon.Add(22*time.Hour+55*time.Minute))
			q.LastEndedAt = noon.Add(22*time.Hour + 50*time.Minute)
		}, never, time.Time{}},
		{"no guard, handling time ends a millisecond before the window", func(q *question) {
			q.Terms = slow
			clockAt(q, noon.Add(22*time.Hour+45*time.Minute))
			q.LastEndedAt = noon.Add(22*time.Hour + 50*time.Minute - time.Millisecond)
		}, notBefore, noon.Add(23*time.Hour - time.Millisecond)},
		{"with a guard the handling time does not matter", func(q *question) {
			q.Terms.Handling, q.LastEndedAt = 5*time.Hour, q.Clock
		}, now, time.Time{}},

		{"the clock is behind by exactly the margin", func(q *question) { q.Last = noon.Add(2 * time.Hour) }, now, time.Time{}},
		{"the clock is behind by more than the margin", func(q *question) {
			q.Last = noon.Add(2*time.Hour + time.Millisecond)
		}, notBefore, noon.Add(2*time.Hour + time.Millisecond)},
		{"the clock is behind, and the journal's time is past the window", func(q *question) { q.Last = noon.Add(23 * time.Hour) }, never, time.Time{}},
		{"behind by less than the margin the journal's time counts", func(q *question) {
			q.Clock, q.Last = noon.Add(22*time.Hour+30*time.Minute), noon.Add(23*time.Hour)
		}, never, time.Time{}},
		{"behind by more than the margin, first sent later than the clock", func(q *question) {
			q.Clock, q.Last = noon.Add(-time.Millisecond), noon.Add(2*time.Hour)
		}, never, time.Time{}},
		{"behind by more than the margin, first sent at the clock's time", func(q *question) {
			q.Clock, q.Last = noon, noon.Add(2*time.Hour)
		}, notBefore, noon.Add(2 * time.Hour)},
		{"behind by less than the margin, first sent later than the clock", func(q *question) {
			q.Clock, q.Last = noon.Add(-30*time.Minute), noon
		}, now, time.Time{}},
		{"behind without a guard: both must have passed", func(q *question) {
			q.Terms, q.LastEndedAt, q.Last = slow, noon.Add(3*time.Hour), noon.Add(3*time.Hour)
		}, notBefore, noon.Add(3*time.Hour + 10*time.Minute)},
		{"the journal has seen no time yet", func(q *question) { q.Last = time.Time{} }, now, time.Time{}},

		{"idempotent, within the caller's own call", func(q *question) {
			q.Terms, q.Idempotent = journal.Terms{}, true
		}, now, time.Time{}},
		{"idempotent, though the window is over", func(q *question) {
			q.Idempotent, q.WindowClosed = true, true
			clockAt(q, noon.Add(48*time.Hour))
		}, now, time.Time{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := question{MayHaveRun: true, Terms: guarded, FirstSentAt: noon, LastEndedAt: noon}
			clockAt(&q, noon.Add(time.Hour))
			tc.change(&q)
			p := machine.MaySend(q)
			assert.Equal(t, tc.want, p.Answer)
			assert.Equal(t, tc.at, p.At)
			assert.Equal(t, tc.want == machine.SendNow, p.Reason == "", "who may not send is told why")
		})
	}
}

func TestWaitingCallerGetsTheReason(t *testing.T) {
	q := machine.Question{MayHaveRun: true, Terms: slow, FirstSentAt: noon, LastEndedAt: noon, Clock: noon, Last: noon}
	assert.Contains(t, machine.MaySend(q).Reason, "still be working")
	q.Terms, q.Last = guarded, noon.Add(2*time.Hour)
	assert.Contains(t, machine.MaySend(q).Reason, "the clock stands behind")
}

// An error that forbids any resend names the fact that is missing for the provider.
func TestNeverResendNamesTheMissingFact(t *testing.T) {
	for _, tc := range []struct {
		terms journal.Terms
		says  string
	}{
		{journal.Terms{Remembers: memory.Nothing, Retention: day, Guard: true}, "recognises no key"},
		{journal.Terms{Remembers: memory.Successes, Retention: day, Guard: true}, "remembers successes only"},
		{journal.Terms{Remembers: memory.SuccessesLostAnswers, Guard: true}, "retention is not known"},
		{journal.Terms{Remembers: memory.SuccessesLostAnswers, Retention: day}, "no in-flight guard"},
	} {
		p := machine.MaySend(machine.Question{MayHaveRun: true, Terms: tc.terms, FirstSentAt: noon, LastEndedAt: noon, Clock: noon, Last: noon})
		assert.Equal(t, machine.Never, p.Answer)
		assert.Contains(t, p.Reason, tc.says)
	}
}

func TestTheWindowIsTheRetentionLessTheMargin(t *testing.T) {
	for _, tc := range []struct {
		retention, margin, window time.Duration
	}{
		{time.Minute, 15 * time.Second, 45 * time.Second},
		{4 * time.Hour, time.Hour, 3 * time.Hour},
		{24 * time.Hour, time.Hour, 23 * time.Hour},
		{30 * 24 * time.Hour, time.Hour, 30*24*time.Hour - time.Hour},
		{0, 0, 0},
	} {
		terms := journal.Terms{Remembers: memory.Everything, Retention: tc.retention, Guard: true}
		assert.Equal(t, tc.margin, terms.Margin(), tc.retention)
		assert.Equal(t, tc.window, terms.Window(), tc.retention)
	}
	assert.Zero(t, journal.Terms{Remembers: memory.Everything, Retention: -time.Hour, Guard: true}.Window())
}

// Laws of the resend rule, over random questions. Their times are close enough to each other that every clause applies
// in some.

func TestNeverIsFinalForLaterClocks(t *testing.T) {
	d := seeded(1)
	nevers := 0
	for range 20_000 {
		q := drawQuestion(d)
		if machine.MaySend(q).Answer != machine.Never {
			continue
		}
		nevers++
		// If an operation was first sent later than a clock that is behind, Next closes its window for good. The later
		// question has that fact.
		q.WindowClosed = q.WindowClosed || q.Last.Sub(q.Clock) > q.Terms.Margin() && q.FirstSentAt.After(q.Clock)
		later := q
		for range 5 {
			later.Clock = later.Clock.Add(time.Duration(d(600)) * time.Minute)
			later.Last = latest(later.Last, later.Clock)
			require.Equalf(t, machine.Never, machine.MaySend(later).Answer, "%+v, then %+v", q, later)
		}
	}
	require.Greater(t, nevers, 1000)
}

// If the rule says "not before a time", the rule allows the request at that time.
func TestEnqueuedForLaterIsSentThen(t *testing.T) {
	d := seeded(2)
	waits := 0
	for range 20_000 {
		q := drawQuestion(d)
		p := machine.MaySend(q)
		if p.Answer != machine.NotBefore {
			require.Zero(t, p.At)
			continue
		}
		waits++
		require.Truef(t, p.At.After(q.Clock), "%+v", q)
		q.Clock = p.At
		q.Last = latest(q.Last, q.Clock)
		require.Equalf(t, machine.SendNow, machine.MaySend(q).Answer, "%+v", q)
	}
	require.Greater(t, waits, 500)
}

// Narrowed terms allow nothing that either of the two terms forbids.
func TestNarrowedTermsAllowNoMoreThanEither(t *testing.T) {
	d := seeded(3)
	allowed := 0
	for range 20_000 {
		q := drawQuestion(d)
		one, other := q.Terms, drawTerms(d)
		narrow := one.Narrow(other)
		require.Equal(t, narrow, other.Narrow(one), "the order of the two does not matter")
		require.Equal(t, one, one.Narrow(one))
		require.LessOrEqual(t, narrow.Window(), min(one.Window(), other.Window()))

		q.Terms = narrow
		if machine.MaySend(q).Answer != machine.SendNow {
			continue
		}
		allowed++
		q.Terms = one
		require.Equalf(t, machine.SendNow, machine.MaySend(q).Answer, "%+v allows %+v", narrow, q)
		q.Terms = other
		require.Equalf(t, machine.SendNow, machine.MaySend(q).Answer, "%+v allows %+v", narrow, q)
	}
	require.Greater(t, allowed, 1000)
}

func TestASecondNarrowingDoesNotUndoTheFirst(t *testing.T) {
	d := seeded(4)
	for range 20_000 {
		one, two, three := drawTerms(d), drawTerms(d), drawTerms(d)
		q := drawQuestion(d)
		q.Terms = one.Narrow(two).Narrow(three)
		if machine.MaySend(q).Answer != machine.SendNow {
			continue
		}
		for _, terms := range []journal.Terms{one, two, three} {
			q.Terms = terms
			require.Equalf(t, machine.SendNow, machine.MaySend(q).Answer, "%+v after %+v, %+v, %+v", q, one, two, three)
		}
	}
}

// A negative handling time is narrowed to none.
func TestNarrowedNegativeHandlingTime(t *testing.T) {
	unstated := journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Handling: -time.Minute}
	require.Zero(t, unstated.Window())
	assert.Zero(t, unstated.Narrow(slow).Window())
	assert.Zero(t, slow.Narrow(unstated).Window())
}

func TestRuleAnswersHaveNames(t *testing.T) {
	assert.Equal(t, "never", machine.Never.String())
	assert.Equal(t, "not before", machine.NotBefore.String())
	assert.Equal(t, "now", machine.SendNow.String())
	assert.Equal(t, "PermissionAnswer(9)", machine.PermissionAnswer(9).String())
	assert.Equal(t, "nothing", memory.Nothing.String())
	assert.Equal(t, "everything", memory.Everything.String())
	assert.Equal(t, "memory(9)", memory.Memory(9).String())
}

// draw gives a number below n. Random tests draw from a seed, fuzz tests from
// their input.
type draw func(n int) int

func seeded(seed uint64) draw { return rand.New(rand.NewPCG(seed, 0)).IntN }

func (d draw) oneIn(n int) bool { return d(n) == 0 }

func pick[T any](d draw, from ...T) T { return from[d(len(from))] }

func drawTerms(d draw) journal.Terms {
	if d.oneIn(3) {
		return guarded
	}
	return journal.Terms{
		Remembers: pick(d, memory.Everything, memory.SuccessesCleanFailures, memory.Everything, memory.SuccessesLostAnswers, memory.Successes, memory.Nothing),
		Retention: pick(d, 24*time.Hour, time.Hour, 30*24*time.Hour, 0),
		Guard:     d.oneIn(2),
		Handling:  pick(d, 10*time.Minute, time.Minute, 3*time.Hour, 0),
	}
}

func drawQuestion(d draw) machine.Question {
	near := func() time.Time { return noon.Add(time.Duration(d(120)-60) * 10 * time.Minute) }
	q := machine.Question{
		MayHaveRun:   !d.oneIn(10),
		Terms:        drawTerms(d),
		FirstSentAt:  near(),
		LastEndedAt:  near(),
		WindowClosed: d.oneIn(10),
		Clock:        near(),
		Last:         near(),
		Idempotent:   d.oneIn(20),
	}
	if d.oneIn(20) {
		q.FirstSentAt = time.Time{}
	}
	return q
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
