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

// Tests of the fields that Next writes beside the state. The table of transitions leaves them out.

// inFlight is an operation that session A holds since before noon.
func inFlight(naming journal.Naming, terms journal.Terms) journal.Operation {
	op := operation(naming, terms)
	op.State, op.Holder, op.MayHaveRun = journal.StateInFlight, "A", true
	op.Found = journal.Found{FirstSentAt: op.FirstSentAt}
	return op
}

// release ends A's claim at noon.
func release(kind machine.EventKind) machine.Event {
	return machine.Event{Kind: kind, At: noon, Last: noon, Session: "A", Claim: 2, Generation: 1}
}

func next(t *testing.T, op journal.Operation, live bool, ev machine.Event) (journal.Operation, machine.Decision) {
	t.Helper()
	op, decision, err := machine.Next(op, live, ev)
	require.NoError(t, err)
	return op, decision
}

// A first begin records the intent and counts as sent.
func TestFirstBeginCountsAsSent(t *testing.T) {
	ev := begin(journal.Carried, slow)
	ev.At, ev.Asker = noon.Add(123456*time.Nanosecond), 5
	op, decision := next(t, journal.Operation{}, false, ev)
	assert.Equal(t, machine.Execute, decision)
	assert.Equal(t, journal.Operation{
		Ref: ev.Ref, Naming: journal.Carried, Provider: "stripe", Endpoint: "POST /v1/charges", Key: "its key", KeyCarried: true,
		Fingerprint: "the request", Terms: slow, Request: ev.Intent.Request,
		Mode: "test", Form: "header Idempotency-Key",
		State: journal.StateInFlight, Holder: "B", Claim: 1, Asker: 5, MayHaveRun: true, Failed: true, FirstSentAt: noon, CreatedAt: noon, UpdatedAt: noon,
	}, op)
}

// A later claim keeps the first send and remembers what it found.
func TestLaterClaimKeepsTheFirstSend(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.MayHaveRun, op.Told, op.Cause = journal.StatePending, true, true, "503"
	first := op.FirstSentAt
	op, decision := next(t, op, false, machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B"})
	assert.Equal(t, machine.Execute, decision)
	assert.Equal(t, first, op.FirstSentAt)
	assert.Equal(t, journal.Found{State: journal.StatePending, MayHaveRun: true, FirstSentAt: first}, op.Found)
	assert.False(t, op.Told)
	assert.Empty(t, op.Cause)
}

func TestParkRestoresItsFields(t *testing.T) {
	before := noon.Add(-2 * time.Hour)
	for _, tc := range []struct {
		name         string
		found        journal.Found
		open, unsent bool
		mayHaveRun   bool
		firstSentAt  time.Time
		endedNow     bool
	}{
		{"a first claim, nothing sent", journal.Found{}, false, true, false, time.Time{}, false},
		{"a first claim, answered without effect", journal.Found{}, false, false, false, before, true},
		{"a first claim, left open", journal.Found{}, true, false, true, before, true},
		{"after harmless attempts, nothing sent", journal.Found{FirstSentAt: before}, false, true, false, before, false},
		{"after an open attempt, nothing sent", journal.Found{MayHaveRun: true, FirstSentAt: before}, false, true, true, before, false},
		{"after an open attempt, answered without effect", journal.Found{MayHaveRun: true, FirstSentAt: before}, false, false, true, before, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			op := inFlight(journal.Named, guarded)
			op.Found = tc.found
			ev := release(machine.EventPark)
			ev.Open, ev.Unsent, ev.Attempts = tc.open, tc.unsent, 2
			ended := op.LastEndedAt
			if tc.endedNow {
				ended = noon
			}
			op, _ = next(t, op, true, ev)
			assert.Equal(t, journal.StatePending, op.State)
			assert.Equal(t, tc.mayHaveRun, op.MayHaveRun)
			assert.Equal(t, tc.firstSentAt, op.FirstSentAt)
			assert.Equal(t, ended, op.LastEndedAt)
			assert.Equal(t, 5, op.Attempts)
			assert.Empty(t, op.Holder)
		})
	}
}

func TestWhenAParkedOperationIsDue(t *testing.T) {
	windowEnds := noon.Add(-2 * time.Hour).Add(23 * time.Hour)
	for _, tc := range []struct {
		name       string
		naming     journal.Naming
		terms      journal.Terms
		change     func(op *journal.Operation, ev *machine.Event)
		state      journal.State
		due, wakes time.Time
	}{
		{"at once if no time is given", journal.Named, guarded, nil, journal.StatePending, noon, noon},
		{"at once if the time has passed", journal.Named, guarded, func(_ *journal.Operation, ev *machine.Event) {
			ev.Due = noon.Add(-time.Hour)
		}, journal.StatePending, noon, noon},
		{"at the time given", journal.Named, guarded, func(_ *journal.Operation, ev *machine.Event) {
			ev.Due, ev.Open = noon.Add(time.Hour), true
		}, journal.StatePending, noon.Add(time.Hour), noon.Add(time.Hour)},
		{"never, past the window", journal.Named, guarded, func(_ *journal.Operation, ev *machine.Event) {
			ev.Due, ev.Open, ev.DueOwn = windowEnds, true, true
		}, journal.StateUnknown, time.Time{}, time.Time{}},
		{"never, past the window, and not to be repeated before it", journal.Named, guarded, func(_ *journal.Operation, ev *machine.Event) {
			ev.Due, ev.Open = windowEnds, true
		}, journal.StateUnknown, windowEnds, time.Time{}},
		{"past the window, if no attempt may have run", journal.Named, guarded, func(_ *journal.Operation, ev *machine.Event) {
			ev.Due = windowEnds.Add(time.Hour)
		}, journal.StatePending, windowEnds.Add(time.Hour), windowEnds.Add(time.Hour)},
		{"not before the handling time has passed", journal.Named, slow, func(_ *journal.Operation, ev *machine.Event) {
			ev.Due, ev.Open = noon.Add(time.Minute), true
		}, journal.StatePending, noon.Add(10 * time.Minute), noon.Add(10 * time.Minute)},
		{"after the handling time as given", journal.Named, slow, func(_ *journal.Operation, ev *machine.Event) {
			ev.Due, ev.Open = noon.Add(time.Hour), true
		}, journal.StatePending, noon.Add(time.Hour), noon.Add(time.Hour)},
		{"not before a clock that is behind has caught up", journal.Named, guarded, func(_ *journal.Operation, ev *machine.Event) {
			ev.Last, ev.Open = noon.Add(5*time.Hour), true
		}, journal.StatePending, noon.Add(5 * time.Hour), noon.Add(5 * time.Hour)},
		{"carried, its caller has an error, left to that caller until the window ends", journal.Carried, guarded, func(_ *journal.Operation, ev *machine.Event) {
			ev.Due, ev.Open, ev.Told = noon.Add(time.Minute), true, true
		}, journal.StatePending, noon.Add(time.Minute), windowEnds},
		{"carried, its caller has an error, never sent: a window from its creation", journal.Carried, guarded, func(op *journal.Operation, ev *machine.Event) {
			op.Found, ev.Unsent, ev.Told = journal.Found{}, true, true
		}, journal.StatePending, noon, noon.Add(20 * time.Hour)},
		{"carried, its caller has no error, woken when due", journal.Carried, guarded, func(_ *journal.Operation, ev *machine.Event) {
			ev.Due, ev.Open = noon.Add(time.Minute), true
		}, journal.StatePending, noon.Add(time.Minute), noon.Add(time.Minute)},
		{"busy for a day", journal.Named, guarded, func(op *journal.Operation, ev *machine.Event) {
			op.BusySince = noon.Add(-machine.MaxBusy)
			op.Terms.Retention = 30 * 24 * time.Hour
			ev.Open, ev.Busy = true, true
		}, journal.StateUnknown, time.Time{}, time.Time{}},
		{"busy for a millisecond less", journal.Named, guarded, func(op *journal.Operation, ev *machine.Event) {
			op.BusySince = noon.Add(-machine.MaxBusy + time.Millisecond)
			op.Terms.Retention = 30 * 24 * time.Hour
			ev.Open, ev.Busy = true, true
		}, journal.StatePending, noon, noon},
	} {
		t.Run(tc.name, func(t *testing.T) {
			op, ev := inFlight(tc.naming, tc.terms), release(machine.EventPark)
			if tc.change != nil {
				tc.change(&op, &ev)
			}
			op, decision := next(t, op, true, ev)
			assert.Equal(t, machine.Recorded, decision)
			assert.Equal(t, tc.state, op.State)
			assert.Equal(t, tc.due, op.DueAt)
			assert.Equal(t, tc.wakes, op.WakeAt)
		})
	}
}

// The time of "in flight" answers counts from the first of an unbroken row.
func TestInFlightAnswersCountFromTheFirst(t *testing.T) {
	op, ev := inFlight(journal.Named, guarded), release(machine.EventPark)
	ev.Open, ev.Busy = true, true
	op, _ = next(t, op, true, ev)
	assert.Equal(t, noon, op.BusySince)

	claim := machine.Event{Kind: machine.EventClaim, At: noon.Add(time.Minute), Last: noon, Session: "A"}
	op, _ = next(t, op, false, claim)
	ev.Claim, ev.At = op.Claim, noon.Add(2*time.Minute)
	op, _ = next(t, op, true, ev)
	assert.Equal(t, noon, op.BusySince)

	claim.At, ev.At = noon.Add(3*time.Minute), noon.Add(4*time.Minute)
	op, _ = next(t, op, false, claim)
	ev.Claim, ev.Busy = op.Claim, false
	op, _ = next(t, op, true, ev)
	assert.Zero(t, op.BusySince)

	op, ev = inFlight(journal.Named, guarded), release(machine.EventPark)
	op.BusySince, op.Terms.Retention = noon.Add(-2*machine.MaxBusy), 30*day
	ev.Open, ev.Unanswered = true, true
	op, _ = next(t, op, true, ev)
	assert.Equal(t, noon.Add(-2*machine.MaxBusy), op.BusySince, "the provider has said nothing else since")
	assert.Equal(t, journal.StatePending, op.State, "nor that it is still in flight")

	op, ev = inFlight(journal.Named, guarded), release(machine.EventPark)
	ev.Open, ev.Busy, ev.At, ev.Last = true, true, noon.Add(-2*machine.MaxBusy), noon
	op, _ = next(t, op, true, ev)
	assert.Equal(t, noon, op.BusySince, "by a clock that is behind")

	op, ev = inFlight(journal.Named, guarded), release(machine.EventPark)
	ev.Open, ev.Busy, ev.Last = true, true, noon.Add(-time.Hour)
	op, _ = next(t, op, true, ev)
	assert.Equal(t, noon, op.BusySince, "by a clock that has gone on")
}

// A pending operation needs attention once a claim is parked a day after the first, by a time that has surely passed.
func TestParkedForADay(t *testing.T) {
	const day = journal.PendingAttentionAfter
	for name, tc := range map[string]struct {
		since, at, last, unconfirmed time.Time
		needs                        bool
	}{
		"the first":                              {time.Time{}, noon, noon, time.Time{}, false},
		"a day after the first":                  {noon.Add(-day), noon, noon, time.Time{}, true},
		"a millisecond less":                     {noon.Add(-day + time.Millisecond), noon, noon, time.Time{}, false},
		"by a clock that has jumped":             {noon.Add(-time.Hour), noon.Add(2 * day), noon, noon.Add(2*day + 10*time.Minute), false},
		"by a clock that has jumped, and a day":  {noon.Add(-day), noon.Add(2 * day), noon, noon.Add(2*day + 10*time.Minute), true},
		"the first, by a clock that has gone on": {time.Time{}, noon, noon.Add(-time.Hour), time.Time{}, false},
		"the first, by a clock that is behind":   {time.Time{}, noon.Add(-time.Minute), noon, time.Time{}, false},
		"by a clock that is behind":              {noon.Add(-day), noon.Add(-time.Hour), noon, time.Time{}, false},
	} {
		op, ev := inFlight(journal.Named, guarded), release(machine.EventPark)
		op.Found = journal.Found{}
		op.ParkedSince, ev.Unsent = tc.since, true
		ev.At, ev.Last, ev.Unconfirmed = tc.at, tc.last, tc.unconfirmed
		op, _ = next(t, op, true, ev)
		require.Equal(t, journal.StatePending, op.State, name)
		assert.Equal(t, tc.needs, op.Attention != "", name)
		assert.Equal(t, tc.needs, op.NeedsAttention(tc.at) != "", name)
		if since := tc.since; since.IsZero() {
			assert.Equal(t, noon, op.ParkedSince, name)
		} else {
			assert.Equal(t, since, op.ParkedSince, name)
		}
	}

	op := inFlight(journal.Named, guarded)
	op.ParkedSince, op.UpdatedAt = noon.Add(3*day), noon.Add(3*day)
	op.State, op.Holder, op.DueAt, op.WakeAt = journal.StatePending, "", noon.Add(3*day), noon.Add(3*day)
	op, _ = next(t, op, false, machine.Event{Kind: machine.EventClock, At: noon, Last: noon})
	assert.Equal(t, noon, op.ParkedSince, "a clock that ran ahead has come back")
}

// An operation that only its caller can have sent again waits from the later of the caller's time and the journal's.
func TestWaitsForItsCallerSince(t *testing.T) {
	for name, last := range map[string]time.Time{"by a clock that has gone on": noon.Add(-time.Hour), "by a clock that is behind": noon.Add(time.Minute)} {
		op := operation(journal.Carried, guarded)
		op.State, op.MayHaveRun, op.Told, op.DueAt, op.WakeAt = journal.StatePending, true, true, noon, noon
		op, decision := next(t, op, false, machine.Event{Kind: machine.EventClaim, Session: "B", At: noon, Last: last})
		require.Equal(t, machine.Later, decision, name)
		assert.Equal(t, latest(noon, last), op.ParkedSince, name)
	}
}

func TestOnlyTheHolderReleasesAClaim(t *testing.T) {
	for _, kind := range []machine.EventKind{machine.EventPark, machine.EventMarkUnknown, machine.EventCancel} {
		for _, tc := range []struct {
			session string
			claim   int64
		}{{"B", 2}, {"", 2}, {"A", 1}, {"A", 3}, {"B", 0}} {
			ev := release(kind)
			ev.Session, ev.Claim = tc.session, tc.claim
			op := inFlight(journal.Named, guarded)
			after, decision := next(t, op, true, ev)
			assert.Equal(t, machine.Stale, decision, "%v %v", kind, tc)
			assert.Equal(t, op, after)
		}
		op := inFlight(journal.Named, guarded)
		ev := release(kind)
		ev.Claim, ev.Asker = 0, op.Asker
		_, decision := next(t, op, true, ev)
		assert.Equal(t, kind == machine.EventCancel, decision == machine.Recorded, "%v of an unnumbered claim", kind)
		for _, asker := range []int64{0, op.Asker + 1} {
			ev.Asker = asker
			_, decision = next(t, op, true, ev)
			assert.Equal(t, machine.Stale, decision, "%v of another Begin's claim", kind)
		}
		op.Asker, ev.Asker = 0, 0
		_, decision = next(t, op, true, ev)
		assert.Equal(t, machine.Stale, decision, "%v of a claim of Resume's", kind)
	}
}

// An answer belongs to the session that recorded it until it is delivered.
func TestAnswerBelongsToItsSessionUntilDelivered(t *testing.T) {
	ev := machine.Event{Kind: machine.EventComplete, At: noon, Last: noon, Session: "an older one", Claim: 1, Generation: 1,
		Answer: &journal.Answer{Status: 201}, Attempts: 2}
	op, _ := next(t, inFlight(journal.Named, guarded), true, ev)
	assert.Equal(t, "an older one", op.Holder)
	assert.False(t, op.Delivered)
	assert.Equal(t, noon, op.SettledAt)
	assert.Equal(t, 5, op.Attempts)
	assert.Equal(t, &journal.Answer{Generation: 1, Status: 201}, op.Answer)
	assert.Zero(t, ev.Answer.Generation, "the event's answer is not written to")

	delivered, _ := next(t, op, true, machine.Event{Kind: machine.EventDeliver, At: noon})
	assert.True(t, delivered.Delivered)
	assert.Empty(t, delivered.Holder)

	ev.Delivered = true
	op, _ = next(t, inFlight(journal.Named, guarded), true, ev)
	assert.True(t, op.Delivered, "nobody waits for it")
	assert.Empty(t, op.Holder)
}

func TestUnheldOutcomeIsDelivered(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State = journal.StateUnknown
	for _, live := range []bool{false, true} { // live means nothing without a holder
		after, decision := next(t, op, live, machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B"})
		assert.Equal(t, machine.Offer, decision)
		assert.Equal(t, "B", after.Holder)
	}
}

// An undelivered outcome goes to one session at a time, even if that has no hook.
func TestOutcomeIsDeliveredToOneSession(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.Holder, op.Answer = journal.StateCompleted, "A", &journal.Answer{Status: 201}
	claim := machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B"}

	offered, decision := next(t, op, false, claim)
	assert.Equal(t, machine.Offer, decision)
	assert.Equal(t, "B", offered.Holder)
	_, decision = next(t, offered, true, claim)
	assert.Equal(t, machine.Wait, decision, "it is offered to one session at a time")

	claim.Delivered = true
	offered, decision = next(t, op, false, claim)
	assert.Equal(t, machine.Offer, decision)
	assert.False(t, offered.Delivered)
}

// A caller that got "cancelled" or "needs attention" gets a late answer too, whichever process records it.
func TestAnswerAfterAnOutcomeIsDelivered(t *testing.T) {
	for name, set := range map[string]func(*journal.Operation){
		"cancelled": func(op *journal.Operation) { op.State, op.ByHand, op.MayHaveRun = journal.StateCancelled, true, false },
		"dead":      func(op *journal.Operation) { op.State, op.Attention = journal.StateUnknown, "given up" },
	} {
		op := inDoubt()
		op.Delivered = true
		set(&op)
		late := machine.Event{Kind: machine.EventComplete, At: noon, Last: noon, Session: "A", Claim: 1, Answer: &journal.Answer{Status: 201}, Delivered: true}
		evidence := seen(op, journal.FindingTookEffect, "payment pay_1")
		evidence.Delivered = true
		for _, ev := range []machine.Event{late, evidence} {
			require.Empty(t, brokenLaws(op, false, ev))
			got, _ := next(t, op, false, ev)
			require.Equal(t, journal.StateCompleted, got.State, name)
			assert.False(t, got.Delivered, "%s, %v", name, ev.Kind)
			assert.Empty(t, got.Holder, name)
		}
	}
	alive := inDoubt()
	ev := seen(alive, journal.FindingTookEffect, "payment pay_1")
	ev.Delivered = true
	got, _ := next(t, alive, false, ev)
	assert.True(t, got.Delivered, "nobody was told")
}

// A refusal is the answer only if no earlier attempt may take effect. If a provider does not recognise requests that it
// refused, a delayed earlier request is executed when it arrives, after the refusal of a later one.
func TestRefusalIsTheAnswer(t *testing.T) {
	clean := journal.Terms{Remembers: memory.SuccessesCleanFailures, Retention: 24 * time.Hour, Guard: true}
	for _, tc := range []struct {
		name   string
		terms  journal.Terms
		change func(op *journal.Operation, ev *machine.Event)
		stands bool
	}{
		{"the first attempt's", clean, func(*journal.Operation, *machine.Event) {}, true},
		{"after an attempt of the same claim that is open", clean, func(_ *journal.Operation, ev *machine.Event) { ev.Open = true }, false},
		{"after a claim that may have run", clean, func(op *journal.Operation, _ *machine.Event) { op.Found.MayHaveRun = true }, false},
		{"of a provider that recognises refusals", guarded, func(op *journal.Operation, ev *machine.Event) {
			op.Found.MayHaveRun, ev.Open = true, true
		}, true},
		{"of an idempotent method without a key", journal.Terms{}, func(_ *journal.Operation, ev *machine.Event) { ev.Open = true }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			op, ev := inFlight(journal.Named, tc.terms), release(machine.EventComplete)
			ev.Answer, ev.Attempts = &journal.Answer{Status: 402, Refused: true}, 2
			tc.change(&op, &ev)
			after, decision := next(t, op, true, ev)
			assert.Equal(t, machine.Recorded, decision)
			assert.Equal(t, op.Attempts+2, after.Attempts)
			assert.Equal(t, "A", after.Holder, "the outcome is its session's to deliver")
			if tc.stands {
				assert.Equal(t, journal.StateCompleted, after.State)
				return
			}
			assert.Equal(t, journal.StateUnknown, after.State)
			assert.Nil(t, after.Answer)
			assert.True(t, after.MayHaveRun)
			assert.Contains(t, after.Cause, "refused")

			ev.Answer = &journal.Answer{Status: 201}
			after, decision = next(t, op, true, ev)
			assert.Equal(t, machine.Recorded, decision)
			assert.Equal(t, journal.StateCompleted, after.State, "a success always stands")
		})
	}
}

// A refusal under an older claim proves nothing about the newer ones.
func TestRefusalUnderAnOlderClaim(t *testing.T) {
	clean := journal.Terms{Remembers: memory.SuccessesCleanFailures, Retention: 24 * time.Hour, Guard: true}
	ev := release(machine.EventComplete)
	ev.Claim, ev.Answer = 1, &journal.Answer{Status: 402, Refused: true}
	for _, state := range []journal.State{journal.StatePending, journal.StateInFlight, journal.StateUnknown, journal.StateCancelled} {
		op := inFlight(journal.Named, clean)
		op.State = state
		after, decision := next(t, op, true, ev)
		assert.Equal(t, machine.Ignored, decision, state)
		assert.Equal(t, op, after, state)
	}
	op := inFlight(journal.Named, clean)
	op.State = journal.StateUnknown
	ev.Claim = 2
	after, _ := next(t, op, true, ev)
	assert.Equal(t, journal.StateCompleted, after.State, "of the latest claim it still tells, though a takeover gave it up")
}

// An answer of an earlier generation is recorded as its answer.
func TestAnswerOfAnEarlierGeneration(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.Cause = journal.StatePending, "503"
	ev := machine.Event{Kind: machine.EventComplete, At: noon, Last: noon, Session: "A", Claim: 1, Answer: &journal.Answer{Status: 201}}
	op, _ = next(t, op, false, ev)
	assert.Equal(t, journal.StateCompleted, op.State)
	assert.True(t, op.MayHaveRun)
	assert.Empty(t, op.Cause)
	assert.Equal(t, 0, op.Answer.Generation)
	assert.Equal(t, 1, op.Generation)
	assert.Zero(t, op.SecondEffects)
}

// An answer of an earlier generation that comes twice is no second effect.
func TestAnswerOfAnEarlierGenerationTwice(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State = journal.StatePending
	ev := machine.Event{Kind: machine.EventComplete, At: noon, Last: noon, Session: "A", Claim: 1, Answer: &journal.Answer{Status: 201}}
	op, _ = next(t, op, false, ev)
	op, decision := next(t, op, false, ev)
	assert.Equal(t, machine.Replay, decision, "the recorded answer is of this very generation")
	assert.Zero(t, op.SecondEffects)
}

// A second effect is counted, and the newer generation goes on.
func TestSecondEffectIsCounted(t *testing.T) {
	op := inFlight(journal.Named, guarded)
	ev := machine.Event{Kind: machine.EventComplete, At: noon, Last: noon, Session: "A", Claim: 1, Answer: &journal.Answer{Status: 201}}
	after, decision := next(t, op, true, ev)
	assert.Equal(t, machine.SecondEffect, decision)
	op.SecondEffects, op.UpdatedAt = 1, noon
	assert.Equal(t, op, after)
}

// Another request after a cancel is the next generation.
func TestGenerationOfAnotherRequest(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.BusySince, op.WindowClosed = journal.StateCancelled, noon, true
	ev := begin(journal.Named, slow)
	ev.Intent.Fingerprint, ev.Intent.Request.Body = "another request", []byte("amount=2")
	ev.Intent.NextKey = func(generation int) string {
		assert.Equal(t, 2, generation)
		return "its next key"
	}
	op, decision := next(t, op, false, ev)
	assert.Equal(t, machine.Execute, decision)
	assert.Equal(t, 2, op.Generation)
	assert.Equal(t, int64(3), op.Claim)
	assert.Equal(t, "its next key", op.Key)
	assert.Equal(t, "another request", op.Fingerprint)
	assert.Equal(t, slow, op.Terms, "a new life is under the terms of its own Begin")
	assert.Equal(t, ev.Intent.Request, op.Request)
	assert.Equal(t, noon, op.FirstSentAt)
	assert.Equal(t, journal.Found{State: journal.StateCancelled}, op.Found)
	assert.Zero(t, op.Attempts)
	assert.Zero(t, op.BusySince)
	assert.False(t, op.WindowClosed)
}

// A generation that keeps its key keeps the time that it was first sent.
func TestGenerationThatKeepsItsKey(t *testing.T) {
	// The provider may date a key from a refusal, and it
	// knows nothing of generations.
	first := noon.Add(-22 * time.Hour)
	t.Run("another request under a carried key", func(t *testing.T) {
		op := operation(journal.Carried, guarded)
		op.State, op.FirstSentAt = journal.StateCancelled, first
		ev := begin(journal.Carried, guarded)
		ev.Intent.Fingerprint = "another request"
		op, _ = next(t, op, false, ev)
		require.Equal(t, "its key", op.Key)
		assert.Equal(t, first, op.FirstSentAt)
	})
	t.Run("a carried key that is sent again by resolution", func(t *testing.T) {
		op := operation(journal.Carried, guarded)
		op.State, op.MayHaveRun, op.FirstSentAt = journal.StateUnknown, true, first
		ev := machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Generation: 1, Claim: 2, Resolution: journal.SendAgain}
		op, _ = next(t, op, false, ev)
		require.Equal(t, "its key", op.Key)
		assert.Equal(t, first, op.FirstSentAt)
	})
}

// The same request after a cancel is the same generation.
func TestGenerationOfTheSameRequest(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.Holder = journal.StateCancelled, "A"
	first := op.FirstSentAt
	op, _ = next(t, op, false, begin(journal.Named, slow))
	assert.Equal(t, 1, op.Generation)
	assert.Equal(t, "its key", op.Key)
	assert.Equal(t, first, op.FirstSentAt)
	assert.Equal(t, journal.Found{State: journal.StateCancelled, FirstSentAt: first}, op.Found)
	assert.Equal(t, guarded.Narrow(slow), op.Terms)
}

func TestALaterBeginNarrowsTheTerms(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.MayHaveRun = journal.StatePending, true
	op, decision := next(t, op, false, begin(journal.Named, journal.Terms{}))
	assert.Equal(t, machine.Stop, decision)
	assert.Equal(t, journal.StateUnknown, op.State)
	assert.Equal(t, guarded.Narrow(journal.Terms{}), op.Terms)
}

// A takeover dates the last attempt. No caller gets its outcome.
func TestTakeoverDatesTheLastAttempt(t *testing.T) {
	op := inFlight(journal.Carried, slow)
	op.Told = true
	op, decision := next(t, op, false, machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B"})
	assert.Equal(t, machine.Later, decision)
	assert.Equal(t, noon, op.LastEndedAt)
	assert.Equal(t, noon.Add(10*time.Minute), op.DueAt)
	assert.Equal(t, op.DueAt, op.WakeAt)
	assert.NotEmpty(t, op.Cause)

	op, decision = next(t, op, false, machine.Event{Kind: machine.EventClaim, At: op.DueAt, Last: op.DueAt, Session: "B"})
	assert.Equal(t, machine.Execute, decision, "its caller died with its process and was told nothing")
	assert.True(t, op.Found.MayHaveRun)
}

// If a caller is asked to come later, only that caller sends its carried key.
func TestCallerThatComesLaterSendsItsKey(t *testing.T) {
	// An unnamed operation whose caller got an error is never sent in the background.
	due := noon.Add(time.Minute)
	claim := machine.Event{Kind: machine.EventClaim, At: noon.Add(time.Hour), Last: noon, Session: "B"}
	t.Run("parked in the background, then asked for", func(t *testing.T) {
		op := operation(journal.Carried, guarded)
		op.State, op.MayHaveRun, op.DueAt, op.WakeAt = journal.StatePending, true, due, due
		op, decision := next(t, op, false, begin(journal.Carried, guarded))
		require.Equal(t, machine.Later, decision)
		_, decision = next(t, op, false, claim)
		assert.NotEqual(t, machine.Execute, decision)
	})
	t.Run("taken over by a caller before its handling time has passed", func(t *testing.T) {
		op, decision := next(t, inFlight(journal.Carried, slow), false, begin(journal.Carried, slow))
		require.Equal(t, machine.Later, decision)
		_, decision = next(t, op, false, claim)
		assert.NotEqual(t, machine.Execute, decision)
	})
}

// A resolution without an answer says that it was by hand.
func TestResolutionWithoutAnAnswer(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.MayHaveRun = journal.StateUnknown, true
	ev := machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Generation: 1, Claim: 2, Resolution: journal.Executed}
	after, _ := next(t, op, false, ev)
	assert.Equal(t, &journal.Answer{Generation: 1, ByHand: true, Omitted: true}, after.Answer)

	ev.Answer = &journal.Answer{Status: 201, Pointer: "ch_1"}
	after, _ = next(t, op, false, ev)
	assert.Equal(t, &journal.Answer{Generation: 1, Status: 201, Pointer: "ch_1", ByHand: true}, after.Answer)
}

// A name that is resolved as not executed is free in its next generation.
func TestResolutionAsNotExecuted(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.MayHaveRun = journal.StateUnknown, true
	op, _ = next(t, op, false, machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Generation: 1, Claim: 2, Resolution: journal.NotExecuted, Delivered: true})
	assert.Equal(t, journal.StateCancelled, op.State)
	assert.True(t, op.ByHand)
	assert.False(t, op.MayHaveRun)
	assert.True(t, op.Delivered)
	assert.NotEmpty(t, op.Cause)

	ev := begin(journal.Named, guarded)
	ev.Intent.NextKey = func(int) string { return "its next key" }
	op, decision := next(t, op, false, ev)
	assert.Equal(t, machine.Execute, decision)
	assert.Equal(t, 2, op.Generation)
	assert.Equal(t, "its next key", op.Key)
	assert.False(t, op.ByHand)
}

func TestTheKeyOfAGenerationThatIsSentAgain(t *testing.T) {
	for _, tc := range []struct {
		name      string
		naming    journal.Naming
		old, next string
		want      string
		invalid   bool
	}{
		{"a new one", journal.Named, "its key", "its next key", "its next key", false},
		{"a named operation needs one", journal.Named, "its key", "", "", true},
		{"a key other than the last one", journal.Named, "its key", "its key", "", true},
		{"a generated one needs one", journal.Generated, "its key", "", "", true},
		{"a carried one stays", journal.Carried, "its key", "its next key", "its key", false},
		{"without a key there is none", journal.Named, "", "its next key", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			op := operation(tc.naming, guarded)
			op.State, op.MayHaveRun, op.Told, op.Key, op.SettledAt, op.DueOwn = journal.StateUnknown, true, true, tc.old, noon, true
			ev := machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Generation: 1, Claim: 2, Resolution: journal.SendAgain, Key: tc.next}
			after, _, err := machine.Next(op, false, ev)
			if tc.invalid {
				require.ErrorIs(t, err, journal.ErrInvalidEvent)
				assert.Equal(t, op, after)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, after.Key)
			assert.Equal(t, 2, after.Generation)
			assert.False(t, after.DueAt.After(noon), "it is due at once")
			assert.False(t, after.DueAt.After(op.UpdatedAt), "by a clock that is behind this one, too")
			assert.False(t, after.MayHaveRun)
			assert.False(t, after.Told)
			assert.False(t, after.DueOwn)
			assert.Zero(t, after.SettledAt)
			assert.Equal(t, "resolved by hand to be sent again", after.Cause)
		})
	}
}

// A tombstone keeps only what identifies the name.
func TestTombstoneKeepsTheName(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.Delivered, op.SettledAt, op.Answer = journal.StateCompleted, true, noon, &journal.Answer{Status: 201}
	reap := machine.Event{Kind: machine.EventReap, At: noon.Add(24*time.Hour - time.Millisecond)}
	same, decision := next(t, op, false, reap)
	assert.Equal(t, machine.Ignored, decision, "never before the retention has passed")
	assert.Equal(t, op, same)

	reap.At = noon.Add(24 * time.Hour)
	op, decision = next(t, op, false, reap)
	assert.Equal(t, machine.Recorded, decision)
	assert.True(t, op.Tombstone)
	assert.Nil(t, op.Answer)
	assert.Equal(t, journal.Request{}, op.Request)
	assert.Equal(t, "invoice-991/charge", op.ID)
}

// A clock that is behind closes the window of an operation that was sent later than it says.
func TestClockBehindClosesTheWindow(t *testing.T) {
	behind := machine.Event{Kind: machine.EventClock, At: noon.Add(-2*time.Hour - time.Millisecond), Last: noon}
	for _, tc := range []struct {
		name   string
		change func(op *journal.Operation, ev *machine.Event)
		closed bool
	}{
		{"sent later than the clock", nil, true},
		{"sent at the clock's time", func(_ *journal.Operation, ev *machine.Event) { ev.At = noon.Add(-2 * time.Hour) }, false},
		{"behind by the margin", func(op *journal.Operation, ev *machine.Event) {
			op.FirstSentAt, ev.At = noon, noon.Add(-time.Hour)
		}, false},
		{"behind by a millisecond more", func(op *journal.Operation, ev *machine.Event) {
			op.FirstSentAt, ev.At = noon, noon.Add(-time.Hour-time.Millisecond)
		}, true},
		{"pending", func(op *journal.Operation, _ *machine.Event) { op.State, op.Holder = journal.StatePending, "" }, true},
		{"unknown", func(op *journal.Operation, _ *machine.Event) { op.State, op.Holder = journal.StateUnknown, "" }, true},
		{"completed", func(op *journal.Operation, _ *machine.Event) { op.State, op.Holder = journal.StateCompleted, "" }, false},
		{"never sent", func(op *journal.Operation, _ *machine.Event) { op.FirstSentAt = time.Time{} }, false},
		{"by an event that is stale", func(_ *journal.Operation, ev *machine.Event) { ev.Kind = machine.EventPark }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			op, ev := inFlight(journal.Named, guarded), behind
			if tc.change != nil {
				tc.change(&op, &ev)
			}
			want := op
			want.WindowClosed = tc.closed
			after, _ := next(t, op, true, ev)
			assert.Equal(t, want, after)
		})
	}
}

// The time of a clock that ran ahead does not survive a cancel as the start of a window.
func TestClockAheadDatesNoWindow(t *testing.T) {
	// Sent and refused under a clock five hours ahead, then cancelled; the clock is
	// put right and the same request is asked again: its key is as old as its next
	// attempt, not five hours younger.
	op := operation(journal.Named, guarded)
	op.State, op.Delivered, op.FirstSentAt = journal.StateCancelled, true, noon.Add(5*time.Hour)
	ev := begin(journal.Named, guarded)
	ev.Last = noon.Add(5 * time.Hour)
	op, decision := next(t, op, false, ev)
	require.Equal(t, machine.Execute, decision)
	assert.True(t, op.WindowClosed || !op.FirstSentAt.After(noon), "first sent at noon, recorded as %v with an open window", op.FirstSentAt)
}

// If a begin narrows the margin, the narrower one counts for its own claim.
func TestMarginThatABeginNarrows(t *testing.T) {
	// First sent, and refused, under a clock that is put back by half an hour: less
	// than the margin of the old terms, more than the quarter hour of the new.
	narrow := guarded
	narrow.Retention = time.Hour
	for _, state := range []journal.State{journal.StatePending, journal.StateCancelled} {
		op := operation(journal.Named, guarded)
		op.State, op.FirstSentAt = state, noon.Add(30*time.Minute)
		ev := begin(journal.Named, narrow)
		ev.Last = noon.Add(30 * time.Minute)
		op, decision := next(t, op, false, ev)
		require.Equal(t, machine.Execute, decision, state)
		assert.True(t, op.WindowClosed, "%v: first sent at noon, recorded as %v", state, op.FirstSentAt)
	}
}

func TestAWindowThatIsPutBackIsNotClosed(t *testing.T) {
	// Claimed under a clock five hours ahead, and nothing left the machine: the
	// stamp that closed the window is gone with the claim.
	op := inFlight(journal.Named, guarded)
	op.Found, op.FirstSentAt = journal.Found{}, noon.Add(5*time.Hour)
	ev := release(machine.EventPark)
	ev.Last, ev.Unsent = noon.Add(5*time.Hour), true
	op, _ = next(t, op, true, ev)
	require.Zero(t, op.FirstSentAt)
	assert.False(t, op.WindowClosed)
}

// Handling time counts from the later of the clock and the journal.
func TestHandlingTimeFromTheLaterClock(t *testing.T) {
	// The clock was put back by half an hour, which is less than the margin. Now, by
	// the resend rule, is the journal's noon: the provider may work until 12:10.
	halfPast := noon.Add(-30 * time.Minute)
	t.Run("after a takeover", func(t *testing.T) {
		ev := begin(journal.Named, slow)
		ev.At = halfPast
		op, decision := next(t, inFlight(journal.Named, slow), false, ev)
		assert.Equal(t, machine.Later, decision)
		assert.Equal(t, noon.Add(10*time.Minute), op.DueAt)
	})
	t.Run("after a park", func(t *testing.T) {
		ev := release(machine.EventPark)
		ev.At, ev.Open = halfPast, true
		op, _ := next(t, inFlight(journal.Named, slow), true, ev)
		assert.Equal(t, noon.Add(10*time.Minute), op.DueAt)
	})
	t.Run("after a refusal that does not stand", func(t *testing.T) {
		ev := release(machine.EventComplete)
		ev.At, ev.Open, ev.Answer = halfPast, true, &journal.Answer{Refused: true}
		op := inFlight(journal.Named, slow)
		op.Terms.Remembers = memory.SuccessesCleanFailures
		op, _ = next(t, op, true, ev)
		require.Equal(t, journal.StateUnknown, op.State)
		assert.Equal(t, noon, op.LastEndedAt)
	})
}

func TestEventsThatAreRefused(t *testing.T) {
	answer := &journal.Answer{Status: 201}
	for _, tc := range []struct {
		name string
		ev   machine.Event
	}{
		{"no kind", machine.Event{}},
		{"a kind of a later release", machine.Event{Kind: 99}},
		{"a Begin without an intent", machine.Event{Kind: machine.EventBegin, Session: "B"}},
		{"a Begin without a session", machine.Event{Kind: machine.EventBegin, Intent: &machine.Intent{}}},
		{"a Claim without a session", machine.Event{Kind: machine.EventClaim}},
		{"a Complete without an answer", machine.Event{Kind: machine.EventComplete, Claim: 2, Generation: 1}},
		{"a Complete without a claim", machine.Event{Kind: machine.EventComplete, Generation: 1, Answer: answer}},
		{"a Complete under a claim to come", machine.Event{Kind: machine.EventComplete, Claim: 3, Generation: 1, Answer: answer}},
		{"a Complete of a generation to come", machine.Event{Kind: machine.EventComplete, Claim: 2, Generation: 2, Answer: answer}},
		{"a Complete of no generation", machine.Event{Kind: machine.EventComplete, Claim: 2, Generation: -1, Answer: answer}},
		{"a Park that is open and unsent", machine.Event{Kind: machine.EventPark, Session: "A", Claim: 2, Open: true, Unsent: true}},
		{"a Resolve without a resolution", machine.Event{Kind: machine.EventResolve, Generation: 1, Claim: 2}},
		{"a Resolve of a later release", machine.Event{Kind: machine.EventResolve, Generation: 1, Claim: 2, Resolution: 99}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			op := inFlight(journal.Named, guarded)
			tc.ev.At, tc.ev.Last = noon, noon
			after, decision, err := machine.Next(op, false, tc.ev)
			var refused *machine.EventError
			require.ErrorAs(t, err, &refused)
			require.ErrorIs(t, err, journal.ErrInvalidEvent)
			assert.Equal(t, tc.ev.Kind, refused.Kind)
			assert.Equal(t, journal.StateInFlight, refused.State)
			assert.NotEmpty(t, refused.Reason)
			assert.Contains(t, err.Error(), "in_flight")
			assert.Equal(t, machine.Ignored, decision)
			assert.Equal(t, op, after)
		})
	}
}

func TestStatesEventsAndDecisionsHaveNames(t *testing.T) {
	assert.Equal(t, "absent", journal.StateAbsent.String())
	assert.Equal(t, "State(9)", journal.State(9).String())
	assert.Equal(t, "generated", journal.Generated.String())
	assert.Equal(t, "Naming(9)", journal.Naming(9).String())
	assert.Equal(t, "clock", machine.EventClock.String())
	assert.Equal(t, "EventKind(0)", machine.EventKind(0).String())
	assert.Equal(t, "EventKind(99)", machine.EventKind(99).String())
	assert.Equal(t, "offer", machine.Offer.String())
	assert.Equal(t, "Decision(99)", machine.Decision(99).String())
	for _, state := range journal.States {
		assert.Equal(t, state == journal.StateCompleted || state == journal.StateCancelled, state.Settled(), state)
	}
}

func TestADeliveryIsOfTheOutcomeThatItNames(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.Delivered = journal.StateCompleted, false
	op.Answer = &journal.Answer{Status: 200}
	for _, tc := range []struct {
		outcome    journal.State
		generation int
		want       machine.Decision
	}{
		{journal.StateUnknown, op.Generation, machine.Ignored},
		{journal.StateCompleted, op.Generation - 1, machine.Ignored},
		{journal.StateCompleted, op.Generation, machine.Recorded},
		{journal.StateAbsent, 0, machine.Recorded},
	} {
		ev := machine.Event{Kind: machine.EventDeliver, At: noon, Last: noon, Outcome: tc.outcome, Generation: tc.generation}
		after, decision := next(t, op, true, ev)
		assert.Equal(t, tc.want, decision, "%v", tc)
		assert.Equal(t, tc.want == machine.Recorded, after.Delivered)
	}
}

// An adopted operation counts as sent from its creation until now.
func TestAdoptedCountsAsSent(t *testing.T) {
	adopt := machine.Event{Kind: machine.EventAdopt, At: noon, Last: noon.Add(time.Minute)}
	for _, tc := range []struct {
		name   string
		change func(op *journal.Operation)
		state  journal.State
		due    time.Time
	}{
		{"pending, never sent", func(op *journal.Operation) {
			op.State, op.FirstSentAt, op.DueAt, op.WakeAt = journal.StatePending, time.Time{}, noon.Add(-time.Hour), noon.Add(-time.Hour)
		}, journal.StatePending, noon},
		{"pending until later", func(op *journal.Operation) {
			op.State, op.DueAt, op.WakeAt = journal.StatePending, noon.Add(time.Hour), noon.Add(time.Hour)
		}, journal.StatePending, noon.Add(time.Hour)},
		{"pending at a provider that may still be working on it", func(op *journal.Operation) {
			op.State, op.Terms = journal.StatePending, slow
		}, journal.StatePending, noon.Add(11 * time.Minute)},
		{"pending at one without a window", func(op *journal.Operation) { op.State, op.Terms = journal.StatePending, journal.Terms{} },
			journal.StateUnknown, time.Time{}},
		{"pending since longer than the window, first sent within it", func(op *journal.Operation) {
			op.State, op.CreatedAt = journal.StatePending, noon.Add(-23*time.Hour)
		}, journal.StateUnknown, time.Time{}},
		{"pending since longer than the window, first sent by a clock that was never confirmed", func(op *journal.Operation) {
			op.State, op.CreatedAt, op.SentSince, op.FirstSentAt = journal.StatePending, noon.Add(-23*time.Hour), noon.Add(-time.Hour), noon.Add(50*time.Hour)
		}, journal.StateUnknown, time.Time{}},
		{"in flight in a session that is dead", func(op *journal.Operation) { op.State, op.Holder = journal.StateInFlight, "A" },
			journal.StatePending, noon},
		{"cancelled", func(op *journal.Operation) { op.State, op.Delivered = journal.StateCancelled, true }, journal.StateUnknown, time.Time{}},
		{"cancelled by hand", func(op *journal.Operation) { op.State, op.Delivered, op.ByHand = journal.StateCancelled, true, true },
			journal.StateUnknown, time.Time{}},
		{"unknown", func(op *journal.Operation) { op.State, op.MayHaveRun = journal.StateUnknown, true }, journal.StateUnknown, time.Time{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			op := operation(journal.Named, guarded)
			tc.change(&op)
			was := op
			op, decision := next(t, op, false, adopt)
			assert.Equal(t, machine.Recorded, decision)
			assert.Equal(t, tc.state, op.State)
			assert.True(t, op.MayHaveRun)
			assert.Equal(t, was.CreatedAt, op.FirstSentAt)
			assert.Equal(t, noon.Add(time.Minute), op.LastEndedAt)
			assert.Equal(t, tc.due, op.DueAt)
			assert.Equal(t, tc.due, op.WakeAt)
			assert.False(t, op.ByHand)
			assert.False(t, op.DueOwn)
			assert.Empty(t, op.Holder)
			if was.State != journal.StateUnknown {
				assert.Contains(t, op.Cause, "the journal was restored")
				assert.False(t, op.Delivered, "a new outcome is offered")
			}
			again, _ := next(t, op, false, adopt)
			again.Cause = op.Cause // may say less: a due time says it
			assert.Equal(t, op, again, "once is enough")
		})
	}
}

// A caller with its own key may ask for an adopted operation until its window ends.
func TestAdoptedByACallerWithItsOwnKey(t *testing.T) {
	op := operation(journal.Carried, guarded)
	op.State, op.Told = journal.StatePending, true
	op, _ = next(t, op, false, machine.Event{Kind: machine.EventAdopt, At: noon, Last: noon})
	require.Equal(t, journal.StatePending, op.State)
	assert.Equal(t, noon, op.DueAt)
	assert.Equal(t, op.CreatedAt.Add(23*time.Hour), op.WakeAt, "it is not sent in the background before that, nor then")
	_, decision := next(t, op, false, begin(journal.Carried, guarded))
	assert.Equal(t, machine.Execute, decision)
}

// If a clock ran ahead at the creation, adoption closes the operation's window.
func TestAdoptedUnderAClockThatRanAhead(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.FirstSentAt, op.CreatedAt = journal.StatePending, time.Time{}, noon.Add(5*time.Hour)
	op, _ = next(t, op, false, machine.Event{Kind: machine.EventAdopt, At: noon, Last: noon.Add(5 * time.Hour)})
	assert.True(t, op.WindowClosed)
	assert.Equal(t, journal.StateUnknown, op.State)
}

// A clock that had leapt enqueued the operation. While no clock is believed that says how old it is, it counts as sent
// from the journal's latest time. A clock that is believed, and is behind the creation, closes its window.
func TestAdoptedAfterALeap(t *testing.T) {
	op, _ := next(t, journal.Operation{}, false, enqueued(func(ev *machine.Event) { ev.At = noon.Add(3 * day) }))
	last := noon.Add(-time.Hour)
	for name, tc := range map[string]struct {
		ev     machine.Event
		sent   time.Time
		closed bool
	}{
		"the same clock":                    {jumped(machine.Event{At: noon.Add(3 * day), Last: last}), last, false},
		"a clock that has leapt less":       {jumped(machine.Event{At: noon.Add(2 * day), Last: last}), last, false},
		"a clock that has leapt back":       {jumped(machine.Event{At: noon.Add(-5 * time.Hour), Last: last}), last, false},
		"a right clock":                     {machine.Event{At: noon, Last: last}, noon, true},
		"a clock behind by the margin":      {machine.Event{At: noon.Add(3*day - time.Hour), Last: last}, noon.Add(3*day - time.Hour), false},
		"a clock behind by more":            {machine.Event{At: noon.Add(3*day - time.Hour - 1e6), Last: last}, noon.Add(3*day - time.Hour - 1e6), true},
		"a clock that is ahead as the leap": {machine.Event{At: noon.Add(3*day + time.Hour), Last: last}, noon.Add(3 * day), false},
	} {
		tc.ev.Kind = machine.EventAdopt
		adopted, decision := next(t, op, false, tc.ev)
		assert.Equal(t, machine.Recorded, decision, name)
		assert.Equal(t, tc.sent, adopted.FirstSentAt, name)
		assert.Equal(t, tc.closed, adopted.WindowClosed, name)
		assert.Equal(t, tc.closed, adopted.State == journal.StateUnknown, name)
		seen := tc.ev.Last
		if tc.ev.Unconfirmed.IsZero() {
			seen = tc.ev.At
		}
		assert.Empty(t, machine.Violations(adopted, seen), name)
	}
}

// The cancel of a Begin with a lost result finds its claim by the time of the last change. A mere read must not hide
// it.
func TestReadingDoesNotChangeTheOperation(t *testing.T) {
	held := inFlight(journal.Named, guarded)
	ask := begin(journal.Named, guarded)
	ask.At = noon.Add(time.Minute)
	other := begin(journal.Named, guarded)
	intent := *other.Intent
	intent.Fingerprint = "another request"
	other.Intent = &intent
	for _, tc := range []struct {
		ev   machine.Event
		want machine.Decision
	}{{ask, machine.Wait}, {other, machine.Misuse}} {
		after, decision := next(t, held, true, tc.ev)
		assert.Equal(t, tc.want, decision)
		assert.Equal(t, held, after)
	}
}

// The recorded credential is that of the begin that may send first.
func TestCredentialOfTheFirstBegin(t *testing.T) {
	for _, ran := range []bool{false, true} {
		op := operation(journal.Named, guarded)
		op.State, op.MayHaveRun, op.Credential = journal.StatePending, ran, "the first"
		ev := begin(journal.Named, guarded)
		ev.Intent.Credential = "another"
		op, decision := next(t, op, false, ev)
		require.Equal(t, machine.Execute, decision)
		if ran {
			assert.Equal(t, "the first", op.Credential, "the provider may know the key under that one")
		} else {
			assert.Equal(t, "another", op.Credential)
		}
	}
}

// A call that comes too early keeps the due time. With a carried key only its caller sends it, until the window ends.
func TestBeginBeforeItIsDue(t *testing.T) {
	due := noon.Add(time.Hour)
	for _, tc := range []struct {
		naming journal.Naming
		told   bool
		wake   time.Time
	}{
		{journal.Named, false, due},
		{journal.Carried, true, noon.Add(21 * time.Hour)}, // by its caller alone, until the window ends
	} {
		op := operation(tc.naming, guarded)
		op.State, op.MayHaveRun, op.DueAt, op.WakeAt = journal.StatePending, true, due, due
		op, decision := next(t, op, false, begin(tc.naming, guarded))
		assert.Equal(t, machine.Later, decision, tc.naming)
		assert.Equal(t, due, op.DueAt, tc.naming)
		assert.Equal(t, tc.told, op.Told, tc.naming)
		assert.Equal(t, tc.wake, op.WakeAt, tc.naming)
	}
}

// An operation that is due later than the resend rule asks stays due then.
func TestDueLaterThanTheRuleAsks(t *testing.T) {
	for _, tc := range []struct{ due, want time.Time }{
		{noon.Add(time.Hour), noon.Add(time.Hour)},
		{noon.Add(time.Minute), noon.Add(9 * time.Minute)}, // its last attempt ended a minute ago
	} {
		op := operation(journal.Named, slow)
		op.State, op.MayHaveRun, op.DueAt, op.WakeAt = journal.StatePending, true, tc.due, tc.due
		op, decision := next(t, op, false, begin(journal.Named, slow))
		assert.Equal(t, machine.Later, decision)
		assert.Equal(t, tc.want, op.DueAt)
		assert.Equal(t, tc.want, op.WakeAt)
	}
}

// A caller's window ends by the later of the clock and the journal.
func TestCallersWindowEndsByTheLaterClock(t *testing.T) {
	end := noon.Add(21 * time.Hour)
	for _, tc := range []struct{ at, last time.Time }{
		{end, noon}, {noon, end},
	} {
		op := operation(journal.Carried, guarded)
		op.State, op.MayHaveRun, op.Told, op.WakeAt = journal.StatePending, true, true, end
		op.FirstSentAt = noon.Add(-2 * time.Hour)
		op, decision := next(t, op, false, machine.Event{Kind: machine.EventClaim, Session: "B", At: tc.at, Last: tc.last})
		assert.Equal(t, machine.Stop, decision)
		assert.Equal(t, journal.StateUnknown, op.State)
	}
}

// A cancel without a number belongs to the begin of its own session.
func TestUnnumberedCancelBySameSession(t *testing.T) {
	op := inFlight(journal.Named, guarded)
	op.Found = journal.Found{}
	ev := machine.Event{Kind: machine.EventCancel, At: noon, Last: noon, Session: "B", Asker: op.Asker, Unsent: true}
	after, decision := next(t, op, true, ev)
	assert.Equal(t, machine.Stale, decision, "another session's Begin")
	assert.Equal(t, op, after)
	ev.Session = "A"
	after, decision = next(t, op, true, ev)
	assert.Equal(t, machine.Recorded, decision)
	assert.Equal(t, journal.StateCancelled, after.State)
}

// An attempt ends at the later of the clock and the journal.
func TestAttemptEndsByTheLaterClock(t *testing.T) {
	for _, tc := range []struct{ at, last time.Time }{
		{noon, noon.Add(time.Minute)}, {noon.Add(time.Minute), noon},
	} {
		ev := release(machine.EventPark)
		ev.At, ev.Last, ev.Open = tc.at, tc.last, true
		op, _ := next(t, inFlight(journal.Named, slow), true, ev)
		assert.Equal(t, noon.Add(time.Minute), op.LastEndedAt)
	}
}
