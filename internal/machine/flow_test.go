package machine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// flowSituations are the columns of the table of a flow's transitions.
var flowSituations = []struct {
	column string
	values []string
}{
	{"state", []string{"absent", "running", "waiting", "finished", "given_up", "set_aside", "tombstone"}},
	{"event", []string{
		"begin", "begin_sooner", "begin_other", "claim", "claim_stranger",
		"record", "park", "fail", "fail_last", "finish", "undo",
		"give_up", "give_up_by_word", "retry", "reap", "reap_early", "clock",
	}},
	{"holder", []string{"live", "dead"}},
	{"claim", []string{"current", "stale"}},
	{"due", []string{"due", "later"}}, // when a waiting flow is due
	{"way", []string{"forward", "undoing"}},
}

// flowTransitions has one row for each set of situations with one end: the columns,
// then the decision and the state. * stands for all values.
const flowTransitions = `
absent                         begin|begin_sooner|begin_other                * * * *               → execute running
absent                         claim|claim_stranger                          * * * *               → ignored absent
absent                         reap|reap_early                               * * * *               → ignored absent
absent                         record|park|fail|fail_last|finish|undo|give_up|give_up_by_word|retry * * * * → error absent

running                        begin|begin_sooner                            live * * *            → wait running
running                        begin|begin_sooner                            dead * * *            → execute running
waiting                        begin                                         * * due *             → execute running
waiting                        begin                                         * * later *           → later waiting
waiting                        begin_sooner                                  * * * *               → execute running
finished                       begin|begin_sooner                            * * * *               → replay finished
given_up                       begin|begin_sooner                            * * * *               → stop given_up
set_aside                      begin|begin_sooner                            * * * *               → stop set_aside
tombstone                      begin|begin_sooner                            * * * *               → gone finished
running                        begin_other                                   * * * *               → misuse running
waiting                        begin_other                                   * * * *               → misuse waiting
finished                       begin_other                                   * * * *               → misuse finished
tombstone                      begin_other                                   * * * *               → gone finished
given_up                       begin_other                                   * * * *               → misuse given_up
set_aside                      begin_other                                   * * * *               → misuse set_aside

running                        claim|claim_stranger                          live * * *            → wait running
running                        claim                                         dead * * *            → execute running
running                        claim_stranger                                dead * * *            → ignored running
waiting                        claim                                         * * due *             → execute running
waiting                        claim_stranger                                * * due *             → ignored waiting
waiting                        claim|claim_stranger                          * * later *           → later waiting
finished|tombstone             claim|claim_stranger                          * * * *               → ignored finished
given_up                       claim|claim_stranger                          * * * *               → ignored given_up
set_aside                      claim|claim_stranger                          * * * *               → ignored set_aside

running                        record                                        * current * *         → recorded running
running                        park|fail                                     * current * *         → recorded waiting
running                        fail_last                                     * current * *         → recorded set_aside
running                        finish                                        * current * forward   → recorded finished
running                        finish                                        * current * undoing   → error running
running                        undo                                          * current * undoing   → recorded given_up
running                        undo                                          * current * forward   → error running
running                        give_up                                       * current * *         → recorded running
running                        record|park|fail|fail_last|finish|undo        * stale * *           → stale running
waiting                        record|park|fail|fail_last|finish|undo        * * * *               → stale waiting
finished|tombstone             record|park|fail|fail_last|finish|undo        * * * *               → stale finished
given_up                       record|park|fail|fail_last|finish|undo        * * * *               → stale given_up
set_aside                      record|park|fail|fail_last|finish|undo        * * * *               → stale set_aside

running                        give_up                                       live stale * *        → wait running
running                        give_up                                       dead stale * *        → stale running
running                        give_up_by_word                               live * * *            → wait running
running                        give_up_by_word                               dead * * *            → recorded waiting
waiting                        give_up                                       * * * *               → stale waiting
set_aside                      give_up                                       * * * *               → stale set_aside
waiting|set_aside              give_up_by_word                               * * * *               → recorded waiting
finished|tombstone             give_up|give_up_by_word                       * * * *               → error finished
given_up                       give_up|give_up_by_word                       * * * *               → ignored given_up

running                        retry                                         * * * *               → ignored running
waiting|set_aside              retry                                         * * * *               → recorded waiting
finished|tombstone             retry                                         * * * *               → ignored finished
given_up                       retry                                         * * * *               → ignored given_up

running                        reap|reap_early                               * * * *               → ignored running
waiting                        reap|reap_early                               * * * *               → ignored waiting
set_aside                      reap|reap_early                               * * * *               → ignored set_aside
finished                       reap                                          * * * *               → recorded finished
given_up                       reap                                          * * * *               → recorded given_up
finished|tombstone             reap_early                                    * * * *               → ignored finished
given_up                       reap_early                                    * * * *               → ignored given_up
tombstone                      reap                                          * * * *               → ignored finished

absent                         clock                                         * * * *               → ignored absent
running                        clock                                         * * * *               → ignored running
waiting                        clock                                         * * * *               → recorded waiting
finished|tombstone             clock                                         * * * *               → ignored finished
given_up                       clock                                         * * * *               → ignored given_up
set_aside                      clock                                         * * * *               → ignored set_aside
`

type flowSituation map[string]string

var rideFunction = journal.FlowFunction{Name: "ride", Version: 1}

func (s flowSituation) build() (f journal.Flow, live bool, ev machine.FlowEvent) {
	f = journal.Flow{
		Handle: 7, Ref: journal.Ref{ID: "order-991"}, Function: rideFunction, Key: "k", InputDigest: "v1:i",
		Claim: 3, CreatedAt: noon, UpdatedAt: noon, Undoing: s["way"] == "undoing",
	}
	switch s["state"] {
	case "absent":
		f = journal.Flow{}
	case "running":
		f.State, f.Holder = journal.FlowStateRunning, "A"
	case "waiting":
		f.State, f.DueAt, f.Failures = journal.FlowStateWaiting, noon.Add(time.Minute), 2
		if s["due"] == "later" {
			f.DueAt = noon.Add(time.Hour)
		}
	case "finished":
		f.State, f.EndedAt = journal.FlowStateFinished, noon
	case "tombstone":
		f.State, f.EndedAt, f.Tombstone = journal.FlowStateFinished, noon, true
	case "given_up":
		f.State, f.EndedAt = journal.FlowStateGivenUp, noon
	case "set_aside":
		f.State, f.Failures = journal.FlowStateSetAside, 10
	}
	ev = machine.FlowEvent{
		Ref: journal.Ref{ID: "order-991"}, At: noon.Add(10 * time.Minute), Session: "B", Due: noon.Add(20 * time.Minute), Cause: "sorry",
		Function: journal.FlowFunction{Name: "ride", Version: 2}, Key: "k2", InputDigest: "v1:i", Functions: []journal.FlowFunction{rideFunction},
		Claim: 3, Limit: 10, Keep: 5 * time.Minute,
	}
	if s["claim"] == "stale" {
		ev.Claim = 2
	}
	switch s["event"] {
	case "begin", "begin_sooner":
		ev.Kind, ev.Sooner = machine.FlowEventBegin, s["event"] == "begin_sooner"
	case "begin_other":
		ev.Kind, ev.InputDigest = machine.FlowEventBegin, "v1:other"
	case "claim":
		ev.Kind = machine.FlowEventClaim
	case "claim_stranger":
		ev.Kind, ev.Functions = machine.FlowEventClaim, []journal.FlowFunction{ev.Function}
	case "record":
		ev.Kind = machine.FlowEventRecord
	case "park":
		ev.Kind = machine.FlowEventPark
	case "fail":
		ev.Kind = machine.FlowEventFail
	case "fail_last":
		ev.Kind, ev.Limit = machine.FlowEventFail, 1
	case "finish":
		ev.Kind = machine.FlowEventFinish
	case "undo":
		ev.Kind = machine.FlowEventUndo
	case "give_up":
		ev.Kind = machine.FlowEventGiveUp
	case "give_up_by_word":
		ev.Kind, ev.Claim = machine.FlowEventGiveUp, 0
	case "retry":
		ev.Kind, ev.Claim = machine.FlowEventRetry, 0
	case "reap":
		ev.Kind = machine.FlowEventReap
	case "reap_early":
		ev.Kind, ev.Keep = machine.FlowEventReap, time.Hour
	case "clock":
		ev.Kind, ev.At, ev.Last = machine.FlowEventClock, noon.Add(-48*time.Hour), noon
	}
	return f, s["holder"] == "live", ev
}

func TestEveryTransitionOfAFlowIsInTheTable(t *testing.T) {
	type row struct {
		values []string
		end    string
		used   bool
	}
	var rows []*row
	for line := range strings.Lines(strings.TrimSpace(flowTransitions)) {
		situation, end, found := strings.Cut(line, "→")
		if !found {
			continue
		}
		r := &row{values: strings.Fields(situation), end: strings.Join(strings.Fields(end), " ")}
		require.Len(t, r.values, len(flowSituations), line)
		rows = append(rows, r)
	}
	all := []flowSituation{{}}
	for _, c := range flowSituations {
		var more []flowSituation
		for _, s := range all {
			for _, v := range c.values {
				next := flowSituation{c.column: v}
				for k, v := range s {
					next[k] = v
				}
				more = append(more, next)
			}
		}
		all = more
	}
	for _, s := range all {
		var want []string
		for _, r := range rows {
			matches := true
			for i, c := range flowSituations {
				matches = matches && (r.values[i] == "*" || containsWord(r.values[i], s[c.column]))
			}
			if matches {
				r.used = true
				want = append(want, r.end)
			}
		}
		require.Len(t, want, 1, "rows for %v", s)
		f, live, ev := s.build()
		next, decision, err := machine.NextFlow(f, live, ev)
		got := decision.String() + " " + next.State.String()
		if err != nil {
			require.ErrorIs(t, err, journal.ErrInvalidEvent)
			assert.Contains(t, err.Error(), ev.Kind.String()+" of a flow that is "+f.State.String())
			got = "error " + next.State.String()
		}
		require.Equal(t, want[0], got, "%v", s)
		checkFlowLaws(t, s, f, live, ev, next, decision)
	}
	for _, r := range rows {
		assert.True(t, r.used, "no situation for %v", r.values)
	}
}

func containsWord(words, word string) bool {
	for one := range strings.SplitSeq(words, "|") {
		if one == word {
			return true
		}
	}
	return false
}

func checkFlowLaws(t *testing.T, s flowSituation, f journal.Flow, live bool, ev machine.FlowEvent, next journal.Flow, decision machine.Decision) {
	t.Helper()
	switch decision {
	case machine.Execute:
		assert.Equal(t, f.Claim+1, next.Claim, "%v", s)
		assert.Equal(t, ev.Session, next.Holder, "%v", s)
		assert.False(t, f.State == journal.FlowStateRunning && live, "in two hands: %v", s)
		if f.State != journal.FlowStateAbsent {
			assert.Equal(t, f.Function, next.Function, "a flow keeps its function: %v", s)
			assert.Equal(t, f.Key, next.Key, "and its key: %v", s)
			assert.Equal(t, f.Undoing, next.Undoing, "%v", s)
		}
	case machine.Recorded:
	default:
		assert.Equal(t, f, next, "unchanged: %v", s)
	}
	assert.Equal(t, next.State == journal.FlowStateRunning, next.Holder != "", "%v", s)
	assert.Equal(t, next.State == journal.FlowStateWaiting, !next.DueAt.IsZero(), "%v", s)
	assert.False(t, f.State.Ended() && !next.State.Ended(), "%v", s)
	assert.False(t, f.Undoing && next.State == journal.FlowStateFinished && f.State != next.State, "%v", s)
}

func TestAFlowsEventsAndStatesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range journal.FlowStates {
		seen[s.String()] = true
	}
	assert.Len(t, seen, 5)
	assert.Equal(t, "absent", journal.FlowStateAbsent.String())
	assert.Equal(t, "FlowState(99)", journal.FlowState(99).String())
	assert.Equal(t, "give_up", machine.FlowEventGiveUp.String())
	assert.Equal(t, "FlowEventKind(0)", machine.FlowEventKind(0).String())
	assert.Equal(t, "undone", journal.StepUndone.String())
	assert.Equal(t, "StepKind(99)", journal.StepKind(99).String())
	_, decision, err := machine.NextFlow(journal.Flow{}, false, machine.FlowEvent{Kind: 99})
	require.ErrorIs(t, err, journal.ErrInvalidEvent)
	assert.Equal(t, machine.Ignored, decision)
	for _, ev := range []machine.FlowEvent{{Kind: machine.FlowEventBegin}, {Kind: machine.FlowEventBegin, Session: "A"}, {Kind: machine.FlowEventClaim}} {
		_, _, err := machine.NextFlow(journal.Flow{}, false, ev)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	}
}

// A flow counts its failures and keeps the latest ones.
func TestFlowsFailuresAreCounted(t *testing.T) {
	f := journal.Flow{State: journal.FlowStateRunning, Holder: "A", Claim: 1}
	for i := range 25 {
		var err error
		f, _, err = machine.NextFlow(f, true, machine.FlowEvent{
			Kind: machine.FlowEventFail, At: noon, Claim: f.Claim, Limit: 30, Cause: fmt.Sprint(i),
		})
		require.NoError(t, err)
		require.Len(t, f.History, min(i+1, machine.MaxFlowHistory))
		f, _, err = machine.NextFlow(f, false, machine.FlowEvent{Kind: machine.FlowEventClaim, At: noon, Session: "A", Functions: []journal.FlowFunction{{}}})
		require.NoError(t, err)
	}
	assert.Equal(t, 25, f.Failures)
	assert.Equal(t, "15", f.History[0].Error)
	f.State = journal.FlowStateSetAside
	f, _, err := machine.NextFlow(f, false, machine.FlowEvent{Kind: machine.FlowEventRetry, At: noon})
	require.NoError(t, err)
	assert.Zero(t, f.Failures)
	assert.Equal(t, noon, f.DueAt)
}

func TestFirstGiveUpSetsTheReason(t *testing.T) {
	f := journal.Flow{Handle: 1, Ref: journal.Ref{ID: "order"}, State: journal.FlowStateWaiting, Claim: 1, InputDigest: "i", CreatedAt: noon, UpdatedAt: noon, DueAt: noon}
	ev := machine.FlowEvent{Kind: machine.FlowEventGiveUp, At: noon, Cause: "sold out"}
	f, _, err := machine.NextFlow(f, false, ev)
	require.NoError(t, err)
	require.True(t, f.Undoing)
	assert.Equal(t, "sold out", f.GivenUpFor)
	ev.Cause = "bored"
	f, _, err = machine.NextFlow(f, false, ev)
	require.NoError(t, err)
	assert.Equal(t, "sold out", f.GivenUpFor)
}

func TestOperationOfAWaitingFlowIsKept(t *testing.T) {
	f := journal.Flow{State: journal.FlowStateRunning, Holder: "A", Claim: 1, InputDigest: "i", CreatedAt: noon, UpdatedAt: noon}
	charge := journal.Ref{ID: "order/charge"}
	f, _, err := machine.NextFlow(f, true, machine.FlowEvent{Kind: machine.FlowEventPark, At: noon, Claim: 1, Due: noon.Add(time.Hour), Cause: "pending", WaitsFor: charge})
	require.NoError(t, err)
	assert.Equal(t, charge, f.WaitsFor)
	again, _, err := machine.NextFlow(f, false, machine.FlowEvent{Kind: machine.FlowEventBegin, At: noon, Session: "B", InputDigest: "i", Sooner: true})
	require.NoError(t, err)
	assert.Zero(t, again.WaitsFor)

	f.Failures = 3
	f, _, err = machine.NextFlow(f, false, machine.FlowEvent{Kind: machine.FlowEventGiveUp, At: noon, Due: noon.Add(time.Hour), Cause: "sold out"})
	require.NoError(t, err)
	assert.Zero(t, f.WaitsFor, "what is given up waits for nothing")
	assert.Equal(t, noon, f.DueAt, "and is undone at once")
	assert.Zero(t, f.Failures, "its failures forgiven")
}

func TestAFlowsOwnFunctionGivesItUpAndGoesOn(t *testing.T) {
	f := journal.Flow{State: journal.FlowStateRunning, Holder: "A", Claim: 1, CreatedAt: noon, UpdatedAt: noon}
	f, decision, err := machine.NextFlow(f, true, machine.FlowEvent{Kind: machine.FlowEventGiveUp, At: noon, Claim: 1, Cause: "sold out"})
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, decision)
	assert.True(t, f.Undoing)
	assert.Equal(t, "sold out", f.GivenUpFor)
	assert.Equal(t, "A", f.Holder)
}

func TestFlowHasTheTimeOfItsLastChange(t *testing.T) {
	later := noon.Add(time.Hour)
	running := journal.Flow{State: journal.FlowStateRunning, Holder: "A", Claim: 1, InputDigest: "i", CreatedAt: noon, UpdatedAt: noon}
	waiting := journal.Flow{State: journal.FlowStateWaiting, Claim: 1, InputDigest: "i", CreatedAt: noon, UpdatedAt: noon, DueAt: noon}
	for _, tc := range []struct {
		f       journal.Flow
		ev      machine.FlowEvent
		changed bool
	}{
		{journal.Flow{}, machine.FlowEvent{Kind: machine.FlowEventBegin, Session: "B", InputDigest: "i"}, true},
		{waiting, machine.FlowEvent{Kind: machine.FlowEventBegin, Session: "B", InputDigest: "i"}, true},
		{running, machine.FlowEvent{Kind: machine.FlowEventPark, Claim: 1}, true},
		{running, machine.FlowEvent{Kind: machine.FlowEventFinish, Claim: 1}, true},
		{running, machine.FlowEvent{Kind: machine.FlowEventRecord, Claim: 1}, false}, // its steps' records say when
		{running, machine.FlowEvent{Kind: machine.FlowEventPark, Claim: 2}, false},
	} {
		tc.ev.At = later
		next, _, err := machine.NextFlow(tc.f, false, tc.ev)
		require.NoError(t, err)
		assert.Equal(t, tc.changed, next.UpdatedAt.Equal(later), "%v of one that is %v", tc.ev.Kind, tc.f.State)
	}
}

// A reaped flow keeps its name and nothing else.
func TestFlowThatIsReapedKeepsItsName(t *testing.T) {
	f := journal.Flow{
		Ref: journal.Ref{ID: "order"}, State: journal.FlowStateFinished, Claim: 1, InputDigest: "i", CreatedAt: noon, UpdatedAt: noon, EndedAt: noon,
		Input: []byte("{}"), Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepDone}}, History: []journal.FlowFailure{{At: noon}},
		GivenUpFor: "a reason", Cause: "a cause",
	}
	reap := machine.FlowEvent{Kind: machine.FlowEventReap, At: noon.Add(time.Hour - time.Millisecond), Keep: time.Hour}
	_, decision, err := machine.NextFlow(f, false, reap)
	require.NoError(t, err)
	assert.Equal(t, machine.Ignored, decision)
	reap.At = noon.Add(time.Hour)
	f, decision, err = machine.NextFlow(f, false, reap)
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, decision)
	assert.True(t, f.Tombstone)
	assert.Empty(t, f.Input)
	assert.Empty(t, f.Steps)
	assert.Empty(t, f.History)
	assert.Empty(t, f.InputDigest+f.GivenUpFor+f.Cause)
	_, decision, err = machine.NextFlow(f, false, machine.FlowEvent{Kind: machine.FlowEventBegin, At: noon, Session: "B", InputDigest: "i"})
	require.NoError(t, err)
	assert.Equal(t, machine.Gone, decision)
}

// A flow that was parked by a clock that ran ahead, and was set back, pauses for as long as planned.
func TestFlowParkedByAClockThatRanAhead(t *testing.T) {
	const year = 365 * day
	parked := journal.Flow{State: journal.FlowStateWaiting, Claim: 1, CreatedAt: noon, UpdatedAt: noon.Add(year), DueAt: noon.Add(year + time.Minute)}
	for name, tc := range map[string]struct {
		f    func(f *journal.Flow)
		at   time.Duration
		last time.Duration
		due  time.Duration // from noon
	}{
		"from a jump":                                {at: time.Hour, last: time.Hour, due: time.Hour + time.Minute},
		"from a confirmed clock, a day ahead":        {at: year - day, last: year, due: year + time.Minute},
		"from a confirmed clock, more than a day":    {at: year - day - 1e6, last: year, due: year - day - 1e6 + time.Minute},
		"written by a clock that was not ahead":      {at: year, last: year, due: year + time.Minute},
		"due when it was parked":                     {f: func(f *journal.Flow) { f.DueAt = f.UpdatedAt }, at: time.Hour, last: time.Hour, due: time.Hour},
		"begun by the clock that was ahead, too":     {f: func(f *journal.Flow) { f.CreatedAt = f.UpdatedAt }, at: time.Hour, last: time.Hour, due: time.Hour + time.Minute},
		"an hour ahead of the journal's latest time": {at: year - time.Hour, last: year - 2*time.Hour, due: year - time.Hour + time.Minute},
	} {
		f := parked
		if tc.f != nil {
			tc.f(&f)
		}
		ev := machine.FlowEvent{Kind: machine.FlowEventClock, At: noon.Add(tc.at), Last: noon.Add(tc.last)}
		next, _, err := machine.NextFlow(f, false, ev)
		require.NoError(t, err)
		assert.Equal(t, noon.Add(tc.due), next.DueAt, name)
		assert.False(t, next.CreatedAt.After(ev.At), name)
		again, decision, err := machine.NextFlow(next, false, ev)
		require.NoError(t, err)
		assert.Equal(t, machine.Ignored, decision, name)
		assert.Equal(t, next, again, name)
	}
}

// A given up flow is undone once more if one of its operations took effect after all, unless the flow is a tombstone. A
// person's retry does not open it.
func TestAGivenUpFlowIsOpenedAgain(t *testing.T) {
	ended := journal.Flow{Ref: journal.Ref{ID: "order-1"}, State: journal.FlowStateGivenUp, Undoing: true, Claim: 2, Failures: 3, GivenUpFor: "sold out",
		CreatedAt: noon.Add(-time.Hour), UpdatedAt: noon.Add(-time.Hour), EndedAt: noon.Add(-time.Hour), InputDigest: "d"}
	retry := machine.FlowEvent{Kind: machine.FlowEventRetry, At: noon}
	_, decision, err := machine.NextFlow(ended, false, retry)
	require.NoError(t, err)
	assert.Equal(t, machine.Ignored, decision, "by somebody's word it is not")
	retry.Found = true
	f, decision, err := machine.NextFlow(ended, false, retry)
	require.NoError(t, err)
	assert.Equal(t, machine.Recorded, decision)
	assert.Equal(t, journal.FlowStateWaiting, f.State)
	assert.True(t, f.Undoing)
	assert.Equal(t, "an operation of it took effect after all", f.Cause)
	assert.False(t, f.DueAt.After(noon))
	assert.Zero(t, f.Failures)
	assert.Empty(t, machine.FlowViolations(f))
	ended.Tombstone = true
	_, decision, err = machine.NextFlow(ended, false, retry)
	require.NoError(t, err)
	assert.Equal(t, machine.Ignored, decision)
	finished := journal.Flow{Ref: ended.Ref, State: journal.FlowStateFinished, Claim: 1, EndedAt: noon}
	_, decision, err = machine.NextFlow(finished, false, retry)
	require.NoError(t, err)
	assert.Equal(t, machine.Ignored, decision)
}

// A flow that is to go on at once is due by the asker's clock and by earlier ones, whichever event says so, and however
// often.
func TestFlowGoesOnByEveryClock(t *testing.T) {
	const ahead = 5 * time.Hour
	retry := machine.FlowEvent{Kind: machine.FlowEventRetry, At: noon.Add(ahead)}
	giveUp := machine.FlowEvent{Kind: machine.FlowEventGiveUp, At: noon.Add(ahead), Cause: "not wanted"}
	found := retry
	found.Found = true
	for name, row := range map[string]struct {
		state journal.FlowState
		due   time.Time
		says  []machine.FlowEvent
	}{
		"it waits":            {journal.FlowStateWaiting, noon.Add(10 * time.Minute), []machine.FlowEvent{retry, retry, giveUp}},
		"it was due":          {journal.FlowStateWaiting, noon.Add(-time.Hour), []machine.FlowEvent{retry}},
		"it is set aside":     {journal.FlowStateSetAside, time.Time{}, []machine.FlowEvent{retry, retry}},
		"set aside, given up": {journal.FlowStateSetAside, time.Time{}, []machine.FlowEvent{giveUp, retry}},
		"its process is dead": {journal.FlowStateRunning, time.Time{}, []machine.FlowEvent{giveUp, giveUp}},
		"it is opened again":  {journal.FlowStateGivenUp, time.Time{}, []machine.FlowEvent{found}},
	} {
		f := journal.Flow{Ref: journal.Ref{ID: "order-1"}, State: row.state, Claim: 2, InputDigest: "d", DueAt: row.due,
			CreatedAt: noon.Add(-time.Hour), UpdatedAt: noon.Add(-time.Minute)}
		if row.state == journal.FlowStateRunning {
			f.Holder = "A"
		}
		if row.state == journal.FlowStateGivenUp {
			f.Undoing, f.EndedAt = true, noon.Add(-time.Minute)
		}
		for _, ev := range row.says {
			var decision machine.Decision
			var err error
			f, decision, err = machine.NextFlow(f, false, ev)
			require.NoError(t, err, name)
			require.Equal(t, machine.Recorded, decision, name)
			assert.Equal(t, journal.FlowStateWaiting, f.State, name)
			assert.False(t, f.DueAt.After(noon), name)
			assert.Empty(t, machine.FlowViolations(f), name)
		}
	}
}

// A caller that has only other functions leaves a flow as it is. The flow stays overdue for a caller that has its
// function.
func TestFlowIsNotBegunWithoutItsFunction(t *testing.T) {
	ride := journal.FlowFunction{Name: "ride", Version: 1}
	due := journal.Flow{Function: ride, InputDigest: "i", State: journal.FlowStateWaiting, DueAt: noon.Add(-time.Hour), Claim: 1}
	cutOff := journal.Flow{Function: ride, InputDigest: "i", State: journal.FlowStateRunning, Holder: "A", Claim: 1}
	unnamed := due
	unnamed.Function = journal.FlowFunction{}
	later := []journal.FlowFunction{{Name: "ride", Version: 2}}
	for _, row := range []struct {
		name     string
		flow     journal.Flow
		has      []journal.FlowFunction
		decision machine.Decision
	}{
		{"it is due", due, later, machine.Ignored},
		{"its process is dead", cutOff, later, machine.Ignored},
		{"the caller has it", due, append(later, ride), machine.Execute},
		{"the caller does not say which functions it has", due, nil, machine.Execute},
		{"its function has no name", unnamed, later, machine.Execute},
	} {
		ev := machine.FlowEvent{Kind: machine.FlowEventBegin, At: noon, Session: "B", InputDigest: "i", Function: row.flow.Function, Functions: row.has}
		after, decision, err := machine.NextFlow(row.flow, false, ev)
		require.NoError(t, err, row.name)
		assert.Equal(t, row.decision, decision, row.name)
		if decision == machine.Ignored {
			assert.Equal(t, row.flow, after, row.name)
		}
	}
}

// An enqueued flow waits, without a claim, for the first one. Enqueued again it stays as it is, whatever its state.
func TestEnqueueOfAFlow(t *testing.T) {
	enqueue := machine.FlowEvent{Kind: machine.FlowEventEnqueue, Ref: journal.Ref{ID: "order-1"}, At: noon, Due: noon.Add(time.Hour), Function: journal.FlowFunction{Name: "ride", Version: 1},
		Key: "k", Input: []byte("{}"), InputDigest: "v1:a", Cause: "enqueued"}
	f, decision, err := machine.NextFlow(journal.Flow{}, false, enqueue)
	require.NoError(t, err)
	require.Equal(t, machine.Recorded, decision)
	assert.Empty(t, machine.FlowViolations(f))
	assert.Equal(t, journal.Flow{Ref: enqueue.Ref, Function: enqueue.Function, Key: "k", Input: enqueue.Input, InputDigest: "v1:a", State: journal.FlowStateWaiting,
		DueAt: noon.Add(time.Hour), Cause: "enqueued", CreatedAt: noon, UpdatedAt: noon}, f)

	claim := machine.FlowEvent{Kind: machine.FlowEventClaim, At: noon, Session: "A", Functions: []journal.FlowFunction{enqueue.Function}}
	_, decision, err = machine.NextFlow(f, false, claim)
	require.NoError(t, err)
	assert.Equal(t, machine.Later, decision)
	claim.At = noon.Add(time.Hour)
	running, decision, err := machine.NextFlow(f, false, claim)
	require.NoError(t, err)
	assert.Equal(t, machine.Execute, decision)
	assert.EqualValues(t, 1, running.Claim)

	given, _, err := machine.NextFlow(f, false, machine.FlowEvent{Kind: machine.FlowEventGiveUp, Ref: f.Ref, At: noon, Cause: "not wanted"})
	require.NoError(t, err)
	assert.Empty(t, machine.FlowViolations(given))
	finished, _, err := machine.NextFlow(running, true, machine.FlowEvent{Kind: machine.FlowEventFinish, Claim: 1, At: noon})
	require.NoError(t, err)
	for _, is := range []journal.Flow{f, running, given, finished} {
		again, decision, err := machine.NextFlow(is, true, enqueue)
		require.NoError(t, err)
		assert.Equal(t, machine.Ignored, decision, is.State)
		assert.Equal(t, is, again)
		other := enqueue
		other.Function.Name = "walk"
		_, decision, err = machine.NextFlow(is, true, other)
		require.NoError(t, err)
		assert.Equal(t, machine.Misuse, decision, is.State)
	}
	for _, lacking := range []func(*machine.FlowEvent){
		func(ev *machine.FlowEvent) { ev.InputDigest = "" }, func(ev *machine.FlowEvent) { ev.Function.Name = "" },
	} {
		ev := enqueue
		lacking(&ev)
		_, _, err := machine.NextFlow(journal.Flow{}, false, ev)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	}
}
