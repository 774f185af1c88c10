package journal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// merged is a provider that remembers no key by which a lost answer is found, and takes two
// requests with one reference for one for a day.
var merged = journal.Terms{Remembers: memory.Successes, Retention: 24 * time.Hour, Guard: true, Unique: journal.Unique{For: 24 * time.Hour, Guard: true}}

// looked is unknown since two hours before noon under merged, and one look has found nothing.
func looked() journal.Operation {
	op := inDoubt()
	op.Terms, op.Looks, op.LookedAt = merged, 1, noon.Add(-time.Minute)
	op.Evidence = []journal.Evidence{{At: noon.Add(-time.Minute), Source: journal.SourceLook, Finding: journal.FindingAbsent}}
	return op
}

// again asks for the operation, and has looked for it.
func again(op journal.Operation) journal.Event {
	ev := begin(op.Naming, op.Terms)
	ev.Repeats, ev.Claim, ev.Generation = true, op.Claim, op.Generation
	ev.Intent.Account = op.Account
	return ev
}

func TestARepeatIsAClaimUnderItsReference(t *testing.T) {
	op, decision := next(t, looked(), false, again(looked()))
	require.Equal(t, journal.Execute, decision)
	assert.Equal(t, journal.StateInFlight, op.State)
	assert.Equal(t, int64(2), op.Claim)
	assert.Equal(t, 0, op.Generation)
	assert.Equal(t, "its key", op.Key)
	assert.Equal(t, "ref-0", op.Reference)
	assert.Equal(t, journal.StateUnknown, op.Found.State)
	assert.Equal(t, noon.Add(-3*time.Hour), op.FirstSentAt)
	assert.Zero(t, op.LookAt)

	for _, tc := range []struct {
		lacks string
		op    func(*journal.Operation)
		ev    func(*journal.Event)
	}{
		{"somebody who has looked", nil, func(ev *journal.Event) { ev.Repeats = false }},
		{"a look since it became unknown", func(op *journal.Operation) { op.Looks = 0 }, nil},
		{"a look at this claim", nil, func(ev *journal.Event) { ev.Claim = 0 }},
		{"a look at this generation", func(op *journal.Operation) { op.Generation = 1 }, nil},
		{"a reference of its own", func(op *journal.Operation) { op.ReferenceOurs = false }, nil},
		{"a reference in the field that is unique", nil, func(ev *journal.Event) { ev.Intent.ReferenceName = "json field other" }},
		{"a reference", func(op *journal.Operation) { op.Reference = "" }, nil},
		{"nobody who holds it", func(op *journal.Operation) { op.Resolved = &journal.Resolved{Resolution: journal.Hold} }, nil},
		{"a journal that is whole", func(op *journal.Operation) { op.Adopted = true }, nil},
		{"a provider that may be asked again", func(op *journal.Operation) { op.DueAt = noon.Add(time.Millisecond) }, nil},
		{"somebody who wants it", func(op *journal.Operation) { op.Unwanted = &journal.Resolved{} }, nil},
		{"an account that is proven", func(op *journal.Operation) { op.Account = "" }, func(ev *journal.Event) { ev.Intent.Account = "" }},
		{"its account", nil, func(ev *journal.Event) { ev.Intent.Account = "acct_2" }},
		{"nothing that was seen of it", func(op *journal.Operation) { op.Evidence[0].Finding = journal.FindingInProgress }, nil},
		{"nothing that was seen, though it could not be told what it is", func(op *journal.Operation) {
			op.Evidence[0].Finding, op.Evidence[0].Object = journal.FindingInconclusive, "payment pay_1"
		}, nil},
		{"one object at most", func(op *journal.Operation) { op.Evidence[0].Finding = journal.FindingAmbiguous }, nil},
		{"the provider's promise", func(op *journal.Operation) { op.Terms.Unique = journal.Unique{} }, nil},
		{"the provider's promise today", nil, func(ev *journal.Event) { ev.Intent.Terms.Unique.For = 0 }},
		{"a promise for longer", func(op *journal.Operation) { op.Terms.Unique.For = 4 * time.Hour }, nil},
		{"a guard, or a time after which the first is over", func(op *journal.Operation) { op.Terms.Unique.Guard = false }, nil},
		{"a clock that is believed", nil, func(ev *journal.Event) { ev.Unconfirmed = noon.Add(time.Minute) }},
		{"a clock that was right when it was sent", func(op *journal.Operation) { op.WindowClosed = true }, nil},
		{"the same request", nil, func(ev *journal.Event) { ev.Intent.Fingerprint = "another" }},
	} {
		t.Run(tc.lacks, func(t *testing.T) {
			op := looked()
			if tc.op != nil {
				tc.op(&op)
			}
			ev := again(looked())
			if tc.ev != nil {
				tc.ev(&ev)
			}
			got, decision := next(t, op, false, ev)
			assert.NotEqual(t, journal.Execute, decision)
			assert.Equal(t, journal.StateUnknown, got.State)
			assert.Equal(t, op.Claim, got.Claim)
			assert.Equal(t, op.Terms, got.Terms)
		})
	}
}

// Where only the credential tells whose it is, whoever sends it sees to that.
func TestARepeatByItsOwnCredential(t *testing.T) {
	op := looked()
	op.Account = journal.OwnCredential
	ev := again(op)
	ev.Intent.Account = "acct_1"
	_, decision := next(t, op, false, ev)
	assert.Equal(t, journal.Execute, decision)
	op.Account, ev.Intent.Account = "acct_1", journal.OwnCredential
	_, decision = next(t, op, false, ev)
	assert.Equal(t, journal.Stop, decision)
}

// What was seen of an earlier generation forbids nothing of this one.
func TestARepeatBesideAnEarlierGeneration(t *testing.T) {
	op := looked()
	op.Generation = 1
	op.Evidence[0] = journal.Evidence{Generation: 0, Finding: journal.FindingAmbiguous}
	_, decision := next(t, op, false, again(op))
	assert.Equal(t, journal.Execute, decision)
}

func TestARepeatWithoutAGuardWaits(t *testing.T) {
	op := looked()
	op.Terms.Unique = journal.Unique{For: 24 * time.Hour, Handling: 2 * time.Hour}
	_, decision := next(t, op, false, again(op))
	assert.Equal(t, journal.Execute, decision)
	op.LastEndedAt = op.LastEndedAt.Add(time.Millisecond)
	_, decision = next(t, op, false, again(op))
	assert.Equal(t, journal.Stop, decision)
	op.LastEndedAt, op.SettledAt = time.Time{}, noon.Add(-time.Minute) // by a refusal that did not stand
	_, decision = next(t, op, false, again(op))
	assert.Equal(t, journal.Stop, decision)
}

// However a repeat ends without an answer, and whatever its key would allow, it is unknown again:
// its caller may have acted on that.
func TestARepeatIsNotSentInTheBackground(t *testing.T) {
	op := looked()
	op.Terms.Remembers = memory.Everything
	held, decision := next(t, op, false, again(op))
	require.Equal(t, journal.Execute, decision)
	require.Equal(t, journal.SendNow, journal.MaySend(journal.Question{
		MayHaveRun: true, Terms: held.Terms, FirstSentAt: held.FirstSentAt, LastEndedAt: held.LastEndedAt, Clock: noon, Last: noon}).Answer)

	for name, ev := range map[string]journal.Event{
		"parked":    {Kind: journal.EventPark},
		"cancelled": {Kind: journal.EventCancel, Unsent: true},
		"doubted":   {Kind: journal.EventDoubt},
	} {
		ev.At, ev.Last, ev.Session, ev.Claim, ev.Cause = noon, noon, held.Holder, held.Claim, "503"
		got, decision := next(t, held, true, ev)
		assert.Equal(t, journal.Recorded, decision, name)
		assert.Equal(t, journal.StateUnknown, got.State, name)
		assert.Zero(t, got.Looks, "%s: it is looked for again first", name)
	}
	dead := journal.Event{Kind: journal.EventClaim, At: noon, Last: noon, Session: "B"}
	got, decision := next(t, held, false, dead)
	assert.Equal(t, journal.Stop, decision)
	assert.Equal(t, journal.StateUnknown, got.State)
	asked, decision := next(t, held, false, begin(held.Naming, held.Terms))
	assert.Equal(t, journal.Stop, decision)
	assert.Equal(t, journal.StateUnknown, asked.State)
}

// A refusal of a repeat says nothing of the first request, even by a provider that remembers
// everything: for how long is another thing.
func TestARefusedRepeatIsUnknown(t *testing.T) {
	op := looked()
	op.Terms.Remembers = memory.Everything
	held, _ := next(t, op, false, again(op))
	got, decision := next(t, held, true, journal.Event{Kind: journal.EventComplete, At: noon, Last: noon, Session: held.Holder, Claim: held.Claim,
		Answer: &journal.Answer{Status: 402, Refused: true}})
	assert.Equal(t, journal.Recorded, decision)
	assert.Equal(t, journal.StateUnknown, got.State)
}

func TestAnAnswerToARepeatIsEvidenceToo(t *testing.T) {
	held, _ := next(t, looked(), false, again(looked()))
	ev := journal.Event{Kind: journal.EventComplete, At: noon, Last: noon, Session: held.Holder, Claim: held.Claim, Account: "acct_1", Object: "payment pay_1",
		Answer:   &journal.Answer{Omitted: true, Found: true, Pointer: "pay_1"},
		Evidence: &journal.Evidence{Source: journal.SourceRepeat, Finding: journal.FindingTookEffect, Basis: journal.BasisReference, Status: 409}}
	got, decision := next(t, held, true, ev)
	require.Equal(t, journal.Recorded, decision)
	assert.Equal(t, journal.StateCompleted, got.State)
	assert.Equal(t, "payment pay_1", got.Object)
	require.Len(t, got.Evidence, 2)
	assert.Equal(t, journal.Evidence{At: noon, Source: journal.SourceRepeat, Finding: journal.FindingTookEffect, Basis: journal.BasisReference, Status: 409,
		Object: "payment pay_1"}, got.Evidence[1])
	assert.Empty(t, got.Dead)

	unnamed := ev
	unnamed.Object, unnamed.Answer = "", &journal.Answer{Omitted: true, Found: true}
	got, _ = next(t, held, true, unnamed)
	assert.Equal(t, journal.StateCompleted, got.State)
	assert.Empty(t, got.Object)
	shown, decision := next(t, got, false, seen(got, journal.FindingTookEffect, "payment pay_1"))
	assert.Equal(t, journal.Recorded, decision)
	assert.Equal(t, "payment pay_1", shown.Object, "what the answer did not name")
	assert.Zero(t, shown.SecondEffects)

	others := ev
	others.Taken = true
	got, _ = next(t, held, true, others)
	assert.Equal(t, journal.StateCompleted, got.State)
	assert.Empty(t, got.Object)
	assert.Len(t, got.Evidence, 1, "what proves another operation is no evidence of this one")
	assert.NotEmpty(t, got.Dead)
}

// A first look from before the repeat does not prove anything of that.
func TestAbsenceAfterARepeatIsProvenAnew(t *testing.T) {
	op := goneBefore()
	op.LastEndedAt, op.SettledAt = noon.Add(-65*time.Minute), noon.Add(-65*time.Minute)
	op.Terms.Retention = 0
	op.Evidence[0].At = noon.Add(-66 * time.Minute)
	got, _ := next(t, op, false, gone(op))
	assert.Equal(t, journal.StateUnknown, got.State)
	for _, later := range []*time.Time{&op.LastEndedAt, &op.SettledAt} {
		op.LastEndedAt, op.SettledAt = noon.Add(-67*time.Minute), noon.Add(-67*time.Minute)
		*later = noon.Add(-65 * time.Minute)
		got, _ = next(t, op, false, gone(op))
		assert.Equal(t, journal.StateUnknown, got.State)
	}
	op.Evidence[0].At = noon.Add(-65 * time.Minute)
	got, _ = next(t, op, false, gone(op))
	assert.Equal(t, journal.StateCancelled, got.State)
}

// What became unknown is repeated by nobody before the time that the provider named, however it became so.
func TestARepeatLeavesTheProviderAlone(t *testing.T) {
	named := noon.Add(time.Hour)
	for name, end := range map[string]func(*journal.Event){
		"in doubt": func(ev *journal.Event) { ev.Kind = journal.EventDoubt },
		"parked":   func(ev *journal.Event) { ev.Kind, ev.Open, ev.Failed = journal.EventPark, true, true },
		"refused": func(ev *journal.Event) {
			ev.Kind, ev.Answer = journal.EventComplete, &journal.Answer{Status: 402, Refused: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			op, _ := next(t, looked(), false, again(looked()))
			ev := journal.Event{At: noon, Last: noon, Session: op.Holder, Claim: op.Claim, Due: named}
			end(&ev)
			op, _ = next(t, op, true, ev)
			require.Equal(t, journal.StateUnknown, op.State)
			assert.Empty(t, journal.Violations(op, noon))
			op.Looks = 1
			for _, tc := range []struct {
				at       time.Time
				decision journal.Decision
			}{{named.Add(-time.Millisecond), journal.Stop}, {named, journal.Execute}} {
				asks := again(op)
				asks.At, asks.Last = tc.at, tc.at
				_, decision := next(t, op, false, asks)
				assert.Equal(t, tc.decision, decision)
			}
		})
	}
	op := pending(journal.Named, true)
	op.DueAt, op.DueOwn = named, false
	op.Terms.Remembers = memory.Nothing
	asks := begin(journal.Named, op.Terms)
	op, decision := next(t, op, false, asks)
	require.Equal(t, journal.Stop, decision)
	assert.Equal(t, named, op.DueAt, "what was pending by then")
	asks.At, asks.Last, asks.Unconfirmed = noon.Add(1000*time.Hour), noon, noon.Add(1001*time.Hour)
	op = pending(journal.Named, true)
	op.DueAt = named
	op.Terms.Remembers = memory.Nothing
	op, _ = next(t, op, false, asks)
	require.Equal(t, journal.StateUnknown, op.State)
	assert.Equal(t, named, op.DueAt, "a clock that is far ahead knows no better")
}

// A clock that stands behind by more than either margin closes both windows.
func TestARepeatByAClockThatIsBehind(t *testing.T) {
	for _, tc := range []struct {
		retention, unique, behind time.Duration
		closed                    bool
	}{
		{24 * time.Hour, 0, 59 * time.Minute, false},
		{24 * time.Hour, 0, 61 * time.Minute, true},
		{24 * time.Hour, time.Hour, 14 * time.Minute, false},
		{24 * time.Hour, time.Hour, 16 * time.Minute, true},
		{time.Hour, 24 * time.Hour, 14 * time.Minute, false},
		{time.Hour, 24 * time.Hour, 16 * time.Minute, true},
		{0, 24 * time.Hour, 59 * time.Minute, false},
		{0, 24 * time.Hour, 61 * time.Minute, true},
		{0, 0, 59 * time.Minute, false}, // no table has said anything yet
		{0, 0, 61 * time.Minute, true},
	} {
		op := looked()
		op.Terms.Retention, op.Terms.Unique.For = tc.retention, tc.unique
		op.FirstSentAt = noon.Add(time.Minute)
		ev := again(op)
		ev.Last = noon.Add(tc.behind)
		got, _ := next(t, op, false, ev)
		assert.Equal(t, tc.closed, got.WindowClosed, "%+v", tc)
	}
}
