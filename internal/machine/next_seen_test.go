package machine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// Tests of what a claim asks of today's release, and of the state that a decision refers to.

func claimed(today machine.Today, known bool) machine.Event {
	return machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B",
		Today: func(*journal.Operation) (machine.Today, bool) { return today, known }}
}

func pending(naming journal.Naming, ran bool) journal.Operation {
	op := operation(naming, guarded)
	op.State, op.MayHaveRun, op.DueAt, op.WakeAt = journal.StatePending, ran, noon, noon
	return op
}

func TestAClaimNarrowsByTodaysTable(t *testing.T) {
	form := pending(journal.Named, true).Form
	week := journal.Terms{Remembers: memory.Everything, Retention: time.Hour, Guard: true}
	op, decision := next(t, pending(journal.Named, true), false, claimed(machine.Today{Terms: week, Form: form}, true))
	assert.Equal(t, machine.Stop, decision, "first sent two hours ago, which is too long by now")
	assert.Equal(t, time.Hour, op.Terms.Retention)

	month := guarded
	month.Retention = 30 * day
	op, decision = next(t, pending(journal.Named, true), false, claimed(machine.Today{Terms: month, Form: form}, true))
	assert.Equal(t, machine.Execute, decision)
	assert.Equal(t, guarded, op.Terms, "never widened")

	held := inFlight(journal.Named, guarded)
	op, decision = next(t, held, true, claimed(machine.Today{}, true))
	assert.Equal(t, machine.Wait, decision)
	assert.Equal(t, held, op)
}

// A claim passes over operations of providers that its process does not know.
func TestClaimSkipsUnknownProviders(t *testing.T) {
	for name, tc := range map[string]struct {
		ev    machine.Event
		taken bool
	}{
		"no table of it":       {claimed(machine.Today{}, false), false},
		"another provider's":   {machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B", From: []string{"adyen", ""}}, false},
		"nobody's":             {machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B", From: []string{}}, false},
		"among those it knows": {machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B", From: []string{"adyen", "stripe"}}, true},
		"of any provider":      {machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B"}, true},
	} {
		for _, op := range []journal.Operation{pending(journal.Named, false), inFlight(journal.Named, guarded)} {
			after, decision := next(t, op, false, tc.ev)
			assert.Equal(t, tc.taken, decision == machine.Execute, name)
			if !tc.taken {
				assert.Equal(t, machine.Ignored, decision, name)
				assert.Equal(t, op, after, name)
			}
		}
		outcome := operation(journal.Named, guarded)
		outcome.State, outcome.MayHaveRun = journal.StateUnknown, true
		_, decision := next(t, outcome, false, tc.ev)
		assert.Equal(t, machine.Offer, decision, "outcomes are offered whatever their provider: "+name)
	}
}

// A key that was sent in another form is never sent again.
func TestKeySentInAnotherForm(t *testing.T) {
	const was, is = "header Idempotency-Key", "header X-Request-Id"
	for _, tc := range []struct {
		name       string
		recorded   string
		ran        bool
		decision   machine.Decision
		afterwards string
	}{
		{"it may have run in another", was, true, machine.Stop, was},
		{"nothing may have run", was, false, machine.Execute, is},
		{"the same", is, true, machine.Execute, is},
	} {
		op := pending(journal.Named, tc.ran)
		op.Form = tc.recorded
		ask := begin(journal.Named, guarded)
		ask.Intent.Form = is
		for _, ev := range []machine.Event{claimed(machine.Today{Terms: guarded, Form: is}, true), ask} {
			after, decision := next(t, op, false, ev)
			assert.Equal(t, tc.decision, decision, "%s, by a %v", tc.name, ev.Kind)
			assert.Equal(t, tc.afterwards, after.Form, "%s, by a %v", tc.name, ev.Kind)
			if decision == machine.Stop {
				assert.Contains(t, after.Cause, "form")
			}
		}
	}
	op := pending(journal.Named, true)
	_, decision := next(t, op, false, machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B"})
	assert.Equal(t, machine.Execute, decision, "a claim that asks no table says nothing of forms")
}

// If nothing may have run, the caller's own request is sent.
func TestCallersRequestIsSentIfNothingRan(t *testing.T) {
	ask := func() machine.Event {
		ev := begin(journal.Named, guarded)
		ev.Intent.Request.Header = map[string][]string{"X-2fa-Approval": {"code"}}
		ev.Intent.Credential, ev.Intent.Mode, ev.Intent.BodyWithheld, ev.Intent.Key = "another", "live", true, "a key of its own"
		return ev
	}
	for name, tc := range map[string]struct {
		op    journal.Operation
		taken bool
	}{
		"pending, nothing ran": {pending(journal.Named, false), true},
		"pending, ran":         {pending(journal.Named, true), false},
		"its process died":     {inFlight(journal.Named, guarded), false},
		"cancelled": {func() journal.Operation {
			op := operation(journal.Named, guarded)
			op.State = journal.StateCancelled
			return op
		}(), true},
	} {
		tc.op.Mode = ""
		op, decision := next(t, tc.op, false, ask())
		require.Equal(t, machine.Execute, decision, name)
		assert.Equal(t, tc.taken, len(op.Request.Header) > 0, name)
		assert.Equal(t, tc.taken, op.Credential == "another", name)
		assert.Equal(t, tc.taken, op.BodyWithheld, name)
		assert.Equal(t, tc.taken, op.Mode == "live", name)
		assert.Equal(t, "its key", op.Key, name)
	}
	for _, generation := range []int{0, 1} {
		op := pending(journal.Named, false)
		op.Key, op.Mode, op.Generation = "", "", generation
		op, _ = next(t, op, false, ask())
		assert.Equal(t, generation == 0, op.Key == "a key of its own", "an endpoint that takes a key by now")
	}
}

func TestTestAndLiveModeAreSeparate(t *testing.T) {
	for _, tc := range []struct {
		recorded, asked string
		misuse          bool
	}{
		{"test", "live", true}, {"test", "test", false}, {"", "live", false}, {"test", "", false}, {"", "", false},
	} {
		for _, op := range []journal.Operation{pending(journal.Named, false), pending(journal.Named, true)} {
			op.Mode = tc.recorded
			ev := begin(journal.Named, guarded)
			ev.Intent.Mode = tc.asked
			after, decision := next(t, op, false, ev)
			assert.Equal(t, tc.misuse, decision == machine.Misuse, tc)
			if tc.recorded != "" {
				assert.Equal(t, tc.recorded, after.Mode, tc)
			}
		}
	}
	for _, tc := range []struct {
		recorded, sent string
		unsent         bool
		want           string
	}{
		{"", "live", false, "live"}, {"", "live", true, ""}, {"test", "live", false, "test"},
	} {
		for _, kind := range []machine.EventKind{machine.EventPark, machine.EventCancel, machine.EventMarkUnknown, machine.EventComplete} {
			op, ev := inFlight(journal.Named, guarded), release(kind)
			op.Mode, ev.Mode, ev.Unsent, ev.Answer = tc.recorded, tc.sent, tc.unsent, &journal.Answer{Status: 201}
			op.Account, ev.Account = "", "acct_1"
			op, _ = next(t, op, true, ev)
			assert.Equal(t, tc.want, op.Mode, "%v %v", kind, tc)
			assert.Equal(t, tc.unsent, op.Account == "", "%v %v: the account is that of what was sent", kind, tc)
		}
	}
	op, ev := inFlight(journal.Named, journal.Terms{Remembers: memory.SuccessesCleanFailures, Retention: day, Guard: true}), release(machine.EventComplete)
	op.Mode, ev.Mode, ev.Open, ev.Answer = "", "live", true, &journal.Answer{Status: 402, Refused: true}
	op, _ = next(t, op, true, ev)
	assert.Equal(t, "live", op.Mode, "of a refusal that does not stand, too")
}

// An operation that is asked for by its second name keeps its key.
func TestSecondNameKeepsItsKey(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.ByHand, op.Alias = journal.StateCancelled, true, journal.Ref{ID: "their key"}
	ev := begin(journal.Carried, guarded)
	ev.Ref, ev.Intent.Key = op.Alias, "their key"
	after, decision := next(t, op, false, ev)
	require.Equal(t, machine.Execute, decision)
	assert.Equal(t, "its key", after.Key)
	assert.Equal(t, journal.Named, after.Naming)

	op.Naming = journal.Carried
	after, _ = next(t, op, false, ev)
	assert.Equal(t, "their key", after.Key, "an unnamed one's is what it is asked for by")

	first, _ := next(t, journal.Operation{}, false, func() machine.Event {
		ev := begin(journal.Named, guarded)
		ev.Intent.Alias = op.Alias
		return ev
	}())
	assert.Equal(t, op.Alias, first.Alias)
}

func TestCallerSkipsABackoffPause(t *testing.T) {
	for _, tc := range []struct {
		name     string
		own, ran bool
		patience time.Duration
		ahead    bool
	}{
		{"after the policy's delay", true, false, time.Minute, true},
		{"sooner", true, false, time.Minute + time.Millisecond, false},
		{"the provider's own time", false, false, time.Minute, false},
		{"if an attempt may have run", true, true, time.Minute, false},
		{"never", true, false, 0, false},
	} {
		op := pending(journal.Named, tc.ran)
		op.DueOwn, op.DueAt, op.UpdatedAt = tc.own, noon.Add(time.Hour), noon.Add(-time.Minute)
		ev := begin(journal.Named, guarded)
		ev.Intent.Patience = tc.patience
		after, decision := next(t, op, false, ev)
		assert.Equal(t, tc.ahead, decision == machine.Execute, tc.name)
		if !tc.ahead {
			assert.Equal(t, op.DueAt, after.DueAt, tc.name)
			continue
		}
		assert.False(t, after.DueOwn, tc.name)
		ev.Kind = machine.EventClaim
		_, decision = next(t, op, false, ev)
		assert.Equal(t, machine.Later, decision, "nobody asks in the background")
	}
}

func TestWakeAfterTheDueTimeIsKept(t *testing.T) {
	op, ev := inFlight(journal.Named, guarded), release(machine.EventPark)
	ev.Wake, ev.DueOwn, ev.Due = noon.Add(2*time.Hour), true, noon.Add(time.Hour)
	op, _ = next(t, op, true, ev)
	assert.Equal(t, noon.Add(time.Hour), op.DueAt)
	assert.Equal(t, noon.Add(2*time.Hour), op.WakeAt)
	assert.True(t, op.DueOwn)
	op, decision := next(t, op, false, begin(journal.Named, guarded))
	require.Equal(t, machine.Later, decision)
	assert.Equal(t, noon.Add(2*time.Hour), op.WakeAt, "who asks too early changes nothing")
	ev = release(machine.EventPark)
	ev.Wake, ev.Due = noon.Add(time.Minute), noon.Add(time.Hour)
	op, _ = next(t, inFlight(journal.Named, guarded), true, ev)
	assert.Equal(t, noon.Add(time.Hour), op.WakeAt, "nor is it woken before it is due")
}

// An operation without its body is never sent in the background.
func TestWithoutItsBodyIsNotSent(t *testing.T) {
	ends := noon.Add(21 * time.Hour) // the end of its window
	for _, tc := range []struct {
		name     string
		ran      bool
		only     bool
		at       time.Time
		decision machine.Decision
		state    journal.State
	}{
		{"its caller may come again", true, false, noon, machine.Later, journal.StatePending},
		{"by its name", true, true, noon, machine.Later, journal.StatePending},
		{"after its window, something may have run", true, false, ends, machine.Stop, journal.StateUnknown},
		{"after its window, nothing may have run", false, false, ends, machine.Recorded, journal.StateCancelled},
	} {
		op := pending(journal.Named, tc.ran)
		op.BodyWithheld = true
		op, decision := next(t, op, false, machine.Event{Kind: machine.EventClaim, At: tc.at, Last: noon, Session: "B", NamedOnly: tc.only})
		assert.Equal(t, tc.decision, decision, tc.name)
		assert.Equal(t, tc.state, op.State, tc.name)
		if decision == machine.Later {
			assert.Equal(t, ends, op.WakeAt, tc.name)
		} else {
			assert.Contains(t, op.Cause, "did not repeat it", tc.name)
		}
	}
	op, ev := inFlight(journal.Named, guarded), release(machine.EventPark)
	op.BodyWithheld, ev.Told, ev.Open = true, true, true
	op, _ = next(t, op, true, ev)
	assert.Equal(t, journal.StatePending, op.State)
	assert.Equal(t, ends, op.WakeAt)
}

// A failure response does not count as a lost answer.
func TestFailureIsNotALostAnswer(t *testing.T) {
	lost := journal.Terms{Remembers: memory.SuccessesLostAnswers, Retention: day, Guard: true}
	ask := machine.Question{MayHaveRun: true, Terms: lost, FirstSentAt: noon.Add(-time.Hour), Clock: noon, Last: noon}
	assert.Equal(t, machine.SendNow, machine.MaySend(ask).Answer)
	ask.Failed = true
	assert.Equal(t, machine.Never, machine.MaySend(ask).Answer)
	for _, dedup := range []memory.Memory{memory.SuccessesCleanFailures, memory.Everything} {
		ask.Terms.Remembers = dedup
		assert.Equal(t, machine.SendNow, machine.MaySend(ask).Answer, dedup)
	}
	ask.Terms.Remembers, ask.Failed = memory.Successes, false
	assert.Equal(t, machine.Never, machine.MaySend(ask).Answer)
	assert.Contains(t, machine.MaySend(ask).Reason, "successes only")

	for _, tc := range []struct {
		name             string
		found, own, want bool
	}{
		{"none", false, false, false}, {"this claim's", false, true, true}, {"an earlier one's", true, false, true},
	} {
		op, ev := inFlight(journal.Named, lost), release(machine.EventPark)
		op.Failed, op.Found.Failed, op.Found.MayHaveRun, ev.Failed, ev.Open = true, tc.found, tc.found, tc.own, true
		op, _ = next(t, op, true, ev)
		assert.Equal(t, tc.want, op.Failed, tc.name)
		assert.Equal(t, tc.want, op.State == journal.StateUnknown, tc.name)
	}
	op := inFlight(journal.Named, lost)
	op.Failed = true
	op, decision := next(t, op, false, machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B"})
	assert.Equal(t, machine.Stop, decision, "what a dead process got nobody knows")
	assert.True(t, op.Failed)

	held, _ := next(t, pending(journal.Named, true), false, machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B"})
	assert.True(t, held.Failed)
	assert.False(t, held.Found.Failed)
	restored, _ := next(t, pending(journal.Named, true), false, machine.Event{Kind: machine.EventAdopt, At: noon, Last: noon})
	assert.True(t, restored.Failed, "what the copy lacks may have been answered")
	doubted, _ := next(t, inFlight(journal.Named, lost), true, release(machine.EventMarkUnknown))
	assert.True(t, doubted.Failed)
	op = operation(journal.Named, lost)
	op.State, op.Failed = journal.StateUnknown, true
	op, _ = next(t, op, false, word(journal.SendAgain, func(ev *machine.Event) { ev.Key = "its next key" }))
	assert.False(t, op.Failed, "another generation's is its own")
}

// word is a person's decision about what operation returns, with the state that the person saw.
func word(r journal.Resolution, change func(*machine.Event)) machine.Event {
	ev := machine.Event{Kind: machine.EventResolve, At: noon, Last: noon, Resolution: r, Generation: 1, Claim: 2, By: "ops@example.com", Cause: "ticket 7"}
	if change != nil {
		change(&ev)
	}
	return ev
}

func TestResolutionNamesTheSeenClaim(t *testing.T) {
	op := pending(journal.Named, true)
	for _, r := range []journal.Resolution{journal.Executed, journal.NotExecuted, journal.SendAgain, journal.Hold} {
		for name, tc := range map[string]struct {
			generation int
			claim      int64
			heard      bool
		}{
			"as it is":                 {1, 2, true},
			"a claim has been since":   {1, 1, r == journal.Executed},
			"a claim to come":          {1, 3, r == journal.Executed},
			"of an earlier generation": {0, 2, false},
			"of one to come":           {2, 2, false},
		} {
			ev := word(r, func(ev *machine.Event) { ev.Generation, ev.Claim, ev.Key = tc.generation, tc.claim, "its next key" })
			after, decision := next(t, op, false, ev)
			if !tc.heard {
				assert.Equal(t, machine.Stale, decision, "%v: %s", r, name)
				assert.Equal(t, op, after)
				continue
			}
			assert.Equal(t, machine.Recorded, decision, "%v: %s", r, name)
			assert.Equal(t, &journal.Resolved{Resolution: r, By: "ops@example.com", Why: "ticket 7", At: noon, Generation: tc.generation, Claim: tc.claim}, after.Resolved)
		}
	}
}

// No process sends an operation on hold until it is released.
func TestOnHoldIsNotSent(t *testing.T) {
	t.Run("taken from a dead process, its attempt has just ended", func(t *testing.T) {
		held, decision := next(t, inFlight(journal.Named, slow), false, word(journal.Hold, nil))
		require.Equal(t, machine.Recorded, decision)
		assert.Equal(t, journal.StateUnknown, held.State)
		assert.Equal(t, noon, held.LastEndedAt)
		assert.True(t, held.Delivered, "nobody is told")
		assert.Empty(t, held.Holder)
		assert.Empty(t, machine.Violations(held, noon))
		_, decision = next(t, held, false, begin(journal.Named, slow))
		assert.Equal(t, machine.Stop, decision)

		free, _ := next(t, held, false, word(journal.Reinstate, func(ev *machine.Event) { ev.DueOwn, ev.Wake, ev.Due = true, noon.Add(day), noon.Add(day) }))
		assert.Equal(t, journal.StatePending, free.State)
		assert.Equal(t, noon.Add(slow.Handling), free.DueAt, "the provider may still be working on it")
		assert.Equal(t, free.DueAt, free.WakeAt)
		assert.False(t, free.DueOwn)
		assert.False(t, free.Delivered)
		assert.Zero(t, free.SettledAt)
	})
	t.Run("nothing may have run", func(t *testing.T) {
		held, _ := next(t, pending(journal.Named, false), false, word(journal.Hold, nil))
		assert.Equal(t, journal.StateUnknown, held.State)
		assert.Equal(t, "on hold", held.Cause)
		assert.Empty(t, machine.Violations(held, noon))
		free, _ := next(t, held, false, word(journal.Reinstate, nil))
		assert.Equal(t, journal.StatePending, free.State)
		assert.Equal(t, noon, free.DueAt)
		assert.Equal(t, "released from hold", free.Cause)
	})
	t.Run("the provider is to be left alone for as long as before", func(t *testing.T) {
		for own, due := range map[bool]time.Time{false: noon.Add(time.Hour), true: noon} {
			op := pending(journal.Named, true)
			op.DueAt, op.DueOwn = noon.Add(time.Hour), own
			held, _ := next(t, op, false, word(journal.Hold, nil))
			assert.Empty(t, machine.Violations(held, noon))
			free, _ := next(t, held, false, word(journal.Reinstate, nil))
			assert.Equal(t, journal.StatePending, free.State)
			assert.Equal(t, due, free.DueAt, "a pause of our own: %v", own)
		}
	})
	t.Run("an unnamed operation whose caller got an error still belongs to that caller", func(t *testing.T) {
		op := pending(journal.Carried, true)
		op.Told = true
		held, _ := next(t, op, false, word(journal.Hold, nil))
		free, _ := next(t, held, false, word(journal.Reinstate, nil))
		assert.True(t, free.Told)
		_, decision := next(t, free, false, machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B"})
		assert.Equal(t, machine.Later, decision)
	})
	t.Run("only an operation on hold is released", func(t *testing.T) {
		op := operation(journal.Named, guarded)
		op.State, op.MayHaveRun, op.Resolved = journal.StateUnknown, true, &journal.Resolved{Resolution: journal.Reinstate}
		_, _, err := machine.Next(op, false, word(journal.Reinstate, nil))
		require.ErrorContains(t, err, "nor on hold")
		held, _ := next(t, pending(journal.Named, true), false, word(journal.Hold, nil))
		_, decision := next(t, held, false, word(journal.Hold, nil))
		assert.Equal(t, machine.Recorded, decision, "held by somebody else, too")
	})
}

func TestAnAnswerThatIsMissingMayBeSupplied(t *testing.T) {
	given := &journal.Answer{Status: 201, Pointer: "ch_1", Generation: 9}
	for name, tc := range map[string]struct {
		was          journal.Answer
		unrecognised bool
		taken        bool
	}{
		"recognised":                           {journal.Answer{Status: 201}, false, false},
		"omitted":                              {journal.Answer{Status: 201, Omitted: true}, false, true},
		"cut off":                              {journal.Answer{Status: 201, Cut: true}, false, true},
		"not the provider's":                   {journal.Answer{Status: 200}, true, true},
		"by hand, without an answer":           {journal.Answer{ByHand: true, Omitted: true}, false, true},
		"by hand":                              {journal.Answer{ByHand: true, Status: 201}, true, false},
		"by hand and cut":                      {journal.Answer{ByHand: true, Status: 201, Cut: true}, true, false},
		"of an earlier generation and cut off": {journal.Answer{Status: 201, Cut: true, Generation: 0}, false, true},
	} {
		op := operation(journal.Named, guarded)
		op.State, op.MayHaveRun, op.Delivered = journal.StateCompleted, true, true
		was := tc.was
		if name != "of an earlier generation and cut off" {
			was.Generation = 1
		}
		op.Answer = &was
		after, decision, err := machine.Next(op, false, word(journal.Executed, func(ev *machine.Event) { ev.Answer, ev.Unrecognised = given, tc.unrecognised }))
		if !tc.taken {
			require.ErrorIs(t, err, journal.ErrInvalidEvent, name)
			assert.Equal(t, op, after, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, machine.Recorded, decision, name)
		want := journal.Answer{Generation: was.Generation, Status: 201, Pointer: "ch_1", ByHand: true, Replaced: &was}
		if was.ByHand {
			want.Replaced = nil
		}
		assert.Equal(t, &want, after.Answer, name)
		assert.True(t, after.Delivered, name)
		assert.Equal(t, 9, given.Generation, "the event's is not written to")
	}

	op := operation(journal.Named, guarded)
	op.State, op.MayHaveRun = journal.StateCompleted, true
	op.Answer = &journal.Answer{ByHand: true, Omitted: true, Generation: 1, Replaced: &journal.Answer{Status: 200}}
	after, _ := next(t, op, false, word(journal.Executed, func(ev *machine.Event) { ev.Answer = given }))
	assert.Equal(t, &journal.Answer{Status: 200}, after.Answer.Replaced, "the network's is kept, however often somebody says another")
	_, _, err := machine.Next(op, false, word(journal.Executed, nil))
	require.ErrorContains(t, err, "outcome is known")
}

func TestATombstoneKeepsNothingOfTheRequest(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.MayHaveRun, op.Delivered, op.SettledAt = journal.StateCompleted, true, true, noon.Add(-100*day)
	op.Answer = &journal.Answer{Status: 201, Generation: 1}
	op, _ = next(t, op, false, machine.Event{Kind: machine.EventReap, At: noon})
	require.True(t, op.Tombstone)
	assert.Empty(t, op.Fingerprint)
	assert.Equal(t, journal.Request{}, op.Request)
	_, decision := next(t, op, false, begin(journal.Named, guarded))
	assert.Equal(t, machine.Gone, decision)
}

// A cancel without a claim's number leaves an operation pending that other callers had left pending.
func TestUnnumberedCancelLeavesPending(t *testing.T) {
	for _, tc := range []struct {
		found journal.State
		claim int64
		want  journal.State
	}{
		{journal.StatePending, 0, journal.StatePending},
		{journal.StateAbsent, 0, journal.StateCancelled},
		{journal.StateCancelled, 0, journal.StateCancelled},
		{journal.StatePending, 2, journal.StateCancelled}, // its run knows why
	} {
		op, ev := inFlight(journal.Named, guarded), release(machine.EventCancel)
		op.Found.State, ev.Claim, ev.Asker, ev.Unsent = tc.found, tc.claim, op.Asker, true
		op, _ = next(t, op, true, ev)
		assert.Equal(t, tc.want, op.State, tc)
	}
}

// The intent decides whether the request is the same.
func TestIntentDecidesWhetherTheRequestIsTheSame(t *testing.T) {
	for _, same := range []bool{true, false} {
		ev := begin(journal.Named, guarded)
		ev.Intent.Fingerprint = "salted anew"
		ev.Intent.Same = func(fingerprint string) bool {
			assert.Equal(t, "the request", fingerprint)
			return same
		}
		_, decision := next(t, pending(journal.Named, true), false, ev)
		assert.Equal(t, same, decision == machine.Execute)
		assert.Equal(t, !same, decision == machine.Misuse)
	}
}

func TestHoldEnds(t *testing.T) {
	op := pending(journal.Named, true)
	op.Resolved = &journal.Resolved{Resolution: journal.Hold}
	_, _, err := machine.Next(op, false, word(journal.Reinstate, nil))
	require.ErrorContains(t, err, "nor on hold")
}

// A caller that sends a pending operation has not got an error yet.
func TestSenderOfAPendingOperation(t *testing.T) {
	op, decision := next(t, pending(journal.Carried, true), false, begin(journal.Carried, guarded))
	require.Equal(t, machine.Execute, decision)
	assert.False(t, op.Told)
	assert.Zero(t, op.WakeAt)
}

// The answer of an earlier generation stands beside a later one's.
func TestAnswersOfTwoGenerations(t *testing.T) {
	op := operation(journal.Named, guarded)
	op.State, op.MayHaveRun, op.Answer = journal.StateCompleted, true, &journal.Answer{Generation: 0, Status: 201}
	ev := release(machine.EventComplete)
	ev.Answer = &journal.Answer{Status: 200}
	after, decision := next(t, op, false, ev)
	assert.Equal(t, machine.Replay, decision)
	assert.Equal(t, op, after)
}

// A refusal that is not the answer changes nothing once its claim is over.
func TestRefusalThatIsNoOutcome(t *testing.T) {
	op := inFlight(journal.Named, journal.Terms{Remembers: memory.SuccessesCleanFailures, Retention: day, Guard: true})
	op.State, op.Holder, op.Found.MayHaveRun = journal.StatePending, "", true
	ev := release(machine.EventComplete)
	ev.Answer = &journal.Answer{Status: 402, Refused: true}
	after, decision := next(t, op, false, ev)
	assert.Equal(t, machine.Ignored, decision)
	assert.Equal(t, op, after)
}

func TestLaterGenerationHasADerivedKey(t *testing.T) {
	op := pending(journal.Named, false)
	op.State, op.ByHand, op.KeyCarried = journal.StateCancelled, true, true
	op.DueAt, op.WakeAt, op.Delivered, op.SettledAt = time.Time{}, time.Time{}, true, noon
	begun, decision := next(t, op, false, machine.Event{Kind: machine.EventBegin, At: noon, Last: noon, Session: "B",
		Intent: &machine.Intent{Naming: journal.Named, Fingerprint: op.Fingerprint, Key: op.Key, KeyCarried: true, Form: op.Form,
			NextKey: func(int) string { return "another" }}})
	require.Equal(t, machine.Execute, decision)
	assert.Equal(t, "another", begun.Key)
	assert.False(t, begun.KeyCarried)
}

func TestCauseHasTheInterruption(t *testing.T) {
	held := inFlight(journal.Named, guarded)
	held.DueAt = noon.Add(time.Hour)
	op, _ := next(t, held, false, machine.Event{Kind: machine.EventClaim, At: noon, Last: noon.Add(3 * time.Hour), Session: "B"})
	assert.Contains(t, op.Cause, "its process ended while it was in flight")

	over := inFlight(journal.Named, guarded)
	op, _ = next(t, over, true, machine.Event{Kind: machine.EventPark, At: noon, Last: noon, Session: over.Holder, Claim: over.Claim,
		Open: true, Due: noon.Add(48 * time.Hour), Cause: "no answer"})
	assert.Equal(t, journal.StateUnknown, op.State)
	assert.Equal(t, "no answer; the provider's retention has passed, or will have", op.Cause)
}

func TestTheSameReasonIsGivenOnce(t *testing.T) {
	op := pending(journal.Named, true)
	op.Terms, op.LastEndedAt = slow, noon
	ask := machine.Event{Kind: machine.EventClaim, At: noon, Last: noon, Session: "B"}
	op, decision := next(t, op, false, ask)
	require.Equal(t, machine.Later, decision)
	again, _ := next(t, op, false, ask)
	assert.Equal(t, "the provider may still be working on it", again.Cause)
}

// The caller's trace is kept, unless it is longer than a traceparent.
func TestTraceIsKeptWithinItsBound(t *testing.T) {
	for length, kept := range map[int]int{machine.MaxTrace: machine.MaxTrace, machine.MaxTrace + 1: 0} {
		ev := begin(journal.Named, guarded)
		ev.Intent.Trace = strings.Repeat("0", length)
		op, decision := next(t, journal.Operation{}, false, ev)
		assert.Equal(t, machine.Execute, decision)
		assert.Len(t, op.Trace, kept)
		f, _, err := machine.NextFlow(journal.Flow{}, false, machine.FlowEvent{Kind: machine.FlowEventBegin, At: noon, Session: "A", InputDigest: "i", Trace: ev.Intent.Trace})
		require.NoError(t, err)
		assert.Len(t, f.Trace, kept, "a flow's")
	}
}

// An operation that was begun without a provider's table takes its asker's terms, if no attempt may have run.
func TestBeginWithoutATable(t *testing.T) {
	month := journal.Terms{Remembers: memory.Everything, Retention: 30 * day, Guard: true}
	for name, tc := range map[string]struct {
		was, is string // the provider
		ran     bool
		want    journal.Terms
	}{
		"nothing may have run":        {"", "stripe", false, month},
		"it may have run":             {"", "stripe", true, guarded},
		"under a table":               {"stripe", "stripe", false, guarded},
		"without a table":             {"", "", false, guarded},
		"without a table, and it ran": {"", "", true, guarded},
		"it is under another one":     {"adyen", "stripe", false, guarded},
	} {
		op := pending(journal.Named, tc.ran)
		op.Provider = tc.was
		ev := begin(journal.Named, month)
		ev.Intent.Provider = tc.is
		op, decision := next(t, op, false, ev)
		assert.Equal(t, machine.Execute, decision, name)
		assert.Equal(t, tc.want, op.Terms, name)
	}
}

// A caller that does not know the provider leaves the operation to callers that do.
func TestProviderThatIsNotKnown(t *testing.T) {
	op := pending(journal.Named, false)
	ev := begin(journal.Named, guarded)
	ev.Intent.Provider = ""
	after, decision := next(t, op, false, ev)
	assert.Equal(t, machine.Later, decision)
	assert.Equal(t, "stripe", after.Provider)
	assert.Equal(t, journal.StatePending, after.State)
}

// A caller without a carried key gives its own key to an operation that has none.
func TestKeyOfAnOperationThatHasNone(t *testing.T) {
	op := pending(journal.Named, false)
	op.State, op.Generation, op.Key, op.KeyCarried = journal.StateCancelled, 0, "", false
	op.Alias = journal.Ref{Parent: "keys", ID: "brought along before"}
	op.DueAt, op.WakeAt, op.Delivered, op.SettledAt = time.Time{}, time.Time{}, true, noon
	begun, decision := next(t, op, false, machine.Event{Kind: machine.EventBegin, At: noon, Last: noon, Session: "B",
		Intent: &machine.Intent{Naming: journal.Named, Fingerprint: op.Fingerprint, Key: "its own", Form: op.Form,
			NextKey: func(int) string { return "another" }}})
	require.Equal(t, machine.Execute, decision)
	assert.Equal(t, "its own", begun.Key)
}

// An operation that is begun again is sent as its latest asker made it, under that asker's account.
func TestBeginAgainUnderAnotherAccount(t *testing.T) {
	for _, state := range []journal.State{journal.StatePending, journal.StateCancelled} {
		op := pending(journal.Named, false)
		op.Account = "acct_1"
		op.State, op.FirstSentAt = state, time.Time{}
		if state == journal.StateCancelled {
			op.SettledAt, op.DueAt, op.WakeAt = noon.Add(-time.Minute), time.Time{}, time.Time{}
			op.Attention = "somebody has to see to its last life"
		}
		ev := begin(journal.Named, guarded)
		ev.Intent.Account = "acct_2"
		after, decision := next(t, op, false, ev)
		require.Equal(t, machine.Execute, decision, state)
		assert.Equal(t, "acct_2", after.Account, state)
		assert.Empty(t, after.Attention, state)
	}
}

// An unconfirmed clock makes a due operation wake later, and leaves its due time.
func TestDueIsKeptByAnUnconfirmedClock(t *testing.T) {
	op := pending(journal.Named, true)
	op.DueAt, op.WakeAt = noon.Add(-time.Second), noon.Add(-time.Second)
	ev := claimed(machine.Today{Terms: guarded, Form: op.Form}, true)
	ev.Unconfirmed = noon.Add(10 * time.Minute)
	after, decision := next(t, op, false, ev)
	require.Equal(t, machine.Later, decision)
	assert.Equal(t, op.DueAt, after.DueAt)
	assert.Equal(t, ev.Unconfirmed, after.WakeAt)
}

// Another operation may have the key if the operation is absent, or cancelled and begun again with its first key.
func TestKeyConflictsOfAnIntent(t *testing.T) {
	in := begin(journal.Named, guarded).Intent
	in.KeyCarried, in.Alias = true, journal.Ref{ID: "its key"}
	for name, tc := range map[string]struct {
		change func(op *journal.Operation)
		rivals bool
	}{
		"cancelled":              {func(*journal.Operation) {}, true},
		"there is none":          {func(op *journal.Operation) { *op = journal.Operation{} }, true},
		"pending":                {func(op *journal.Operation) { op.State = journal.StatePending }, false},
		"its key was made":       {func(op *journal.Operation) { op.KeyCarried = false }, false},
		"another key":            {func(op *journal.Operation) { op.Key = "another" }, false},
		"another request":        {func(op *journal.Operation) { op.Fingerprint = "another" }, false},
		"by a person's decision": {func(op *journal.Operation) { op.ByHand = true }, false},
		"pending, its key made":  {func(op *journal.Operation) { op.State, op.KeyCarried = journal.StatePending, false }, false},
	} {
		op := operation(journal.Named, guarded)
		op.State, op.KeyCarried = journal.StateCancelled, true
		tc.change(&op)
		assert.Equal(t, tc.rivals, len(in.Rivals(&op)) > 0, name)
	}
}

// A new operation yields to every holder of its key. One that is begun again yields to holders that are not cancelled.
func TestBeginYieldsToAHolder(t *testing.T) {
	for name, tc := range map[string]struct {
		state, holder journal.State
		itself        bool
		yields        bool
	}{
		"new, a completed holder":         {journal.StateAbsent, journal.StateCompleted, false, true},
		"new, a cancelled holder":         {journal.StateAbsent, journal.StateCancelled, false, true},
		"begun again, a completed holder": {journal.StateCancelled, journal.StateCompleted, false, true},
		"begun again, a cancelled holder": {journal.StateCancelled, journal.StateCancelled, false, false},
		"itself":                          {journal.StateCancelled, journal.StateCompleted, true, false},
	} {
		op, holder := journal.Operation{Handle: 7, State: tc.state}, journal.Operation{Handle: 8, State: tc.holder}
		if tc.itself {
			holder.Handle = 7
		}
		assert.Equal(t, tc.yields, machine.YieldsTo(&op, &holder), name)
	}
}

// An operation enqueued without a key takes the key of its caller if that key finds it. Otherwise it gets a generated
// key.
func TestKeyOfAnOperationEnqueuedWithoutOne(t *testing.T) {
	carried := journal.Ref{ID: "its key"}
	for name, tc := range map[string]struct {
		generation int
		alias      journal.Ref
		carries    bool
		makes      bool
		key        string
	}{
		"its asker's":                        {0, journal.Ref{}, false, true, "its key"},
		"brought along":                      {0, carried, true, true, "its key"},
		"brought along, not to be found by":  {0, journal.Ref{}, true, true, "made 0"},
		"likewise, and no caller makes one":  {0, journal.Ref{}, true, false, ""},
		"of a later generation, it has none": {1, journal.Ref{}, false, true, ""},
	} {
		op := pending(journal.Named, false)
		op.Key, op.KeyCarried, op.Generation, op.Alias, op.FirstSentAt = "", false, tc.generation, tc.alias, time.Time{}
		ev := begin(journal.Named, guarded)
		ev.Asker = 12
		ev.Intent.KeyCarried = tc.carries
		if tc.carries {
			ev.Intent.Alias = carried
		}
		if tc.makes {
			ev.Intent.NextKey = func(generation int) string { return fmt.Sprint("made ", generation) }
		}
		after, decision := next(t, op, false, ev)
		require.Equal(t, machine.Execute, decision, name)
		assert.Equal(t, tc.key, after.Key, name)
		assert.Equal(t, tc.carries && tc.key == "its key", after.KeyCarried, name)
		assert.EqualValues(t, 12, after.Asker, name)
	}
}
