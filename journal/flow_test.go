package journal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		"give_up", "give_up_by_word", "retry", "reap", "reap_early",
	}},
	{"holder", []string{"live", "dead"}},
	{"claim", []string{"current", "stale"}},
	{"due", []string{"due", "later"}}, // of a waiting flow
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
finished|tombstone             begin_other                                   * * * *               → misuse finished
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
`

type flowSituation map[string]string

var rideFunction = journal.FlowFunction{Name: "ride", Version: 1}

func (s flowSituation) build() (f journal.Flow, live bool, ev journal.FlowEvent) {
	f = journal.Flow{
		Handle: 7, Ref: journal.Ref{ID: "order-991"}, Function: rideFunction, Key: "k", InputDigest: "v1:i",
		Claim: 3, CreatedAt: noon, UpdatedAt: noon, Undoing: s["way"] == "undoing",
	}
	switch s["state"] {
	case "absent":
		f = journal.Flow{}
	case "running":
		f.State, f.Holder = journal.FlowRunning, "A"
	case "waiting":
		f.State, f.DueAt, f.Failures = journal.FlowWaiting, noon.Add(time.Minute), 2
		if s["due"] == "later" {
			f.DueAt = noon.Add(time.Hour)
		}
	case "finished":
		f.State, f.EndedAt = journal.FlowFinished, noon
	case "tombstone":
		f.State, f.EndedAt, f.Tombstone = journal.FlowFinished, noon, true
	case "given_up":
		f.State, f.EndedAt = journal.FlowGivenUp, noon
	case "set_aside":
		f.State, f.Failures = journal.FlowSetAside, 10
	}
	ev = journal.FlowEvent{
		Ref: journal.Ref{ID: "order-991"}, At: noon.Add(10 * time.Minute), Session: "B", Due: noon.Add(20 * time.Minute), Cause: "sorry",
		Function: journal.FlowFunction{Name: "ride", Version: 2}, Key: "k2", InputDigest: "v1:i", Functions: []journal.FlowFunction{rideFunction},
		Claim: 3, Limit: 10, Keep: 5 * time.Minute,
	}
	if s["claim"] == "stale" {
		ev.Claim = 2
	}
	switch s["event"] {
	case "begin", "begin_sooner":
		ev.Kind, ev.Sooner = journal.FlowBegin, s["event"] == "begin_sooner"
	case "begin_other":
		ev.Kind, ev.InputDigest = journal.FlowBegin, "v1:other"
	case "claim":
		ev.Kind = journal.FlowClaim
	case "claim_stranger":
		ev.Kind, ev.Functions = journal.FlowClaim, []journal.FlowFunction{ev.Function}
	case "record":
		ev.Kind = journal.FlowRecord
	case "park":
		ev.Kind = journal.FlowPark
	case "fail":
		ev.Kind = journal.FlowFail
	case "fail_last":
		ev.Kind, ev.Limit = journal.FlowFail, 1
	case "finish":
		ev.Kind = journal.FlowFinish
	case "undo":
		ev.Kind = journal.FlowUndo
	case "give_up":
		ev.Kind = journal.FlowGiveUp
	case "give_up_by_word":
		ev.Kind, ev.Claim = journal.FlowGiveUp, 0
	case "retry":
		ev.Kind, ev.Claim = journal.FlowRetry, 0
	case "reap":
		ev.Kind = journal.FlowReap
	case "reap_early":
		ev.Kind, ev.Keep = journal.FlowReap, time.Hour
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
		next, decision, err := journal.NextFlow(f, live, ev)
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

func checkFlowLaws(t *testing.T, s flowSituation, f journal.Flow, live bool, ev journal.FlowEvent, next journal.Flow, decision journal.Decision) {
	t.Helper()
	switch decision {
	case journal.Execute:
		assert.Equal(t, f.Claim+1, next.Claim, "%v", s)
		assert.Equal(t, ev.Session, next.Holder, "%v", s)
		assert.False(t, f.State == journal.FlowRunning && live, "in two hands: %v", s)
		if f.State != journal.FlowAbsent {
			assert.Equal(t, f.Function, next.Function, "a flow keeps its function: %v", s)
			assert.Equal(t, f.Key, next.Key, "and its key: %v", s)
			assert.Equal(t, f.Undoing, next.Undoing, "%v", s)
		}
	case journal.Recorded:
	default:
		assert.Equal(t, f, next, "unchanged: %v", s)
	}
	assert.Equal(t, next.State == journal.FlowRunning, next.Holder != "", "%v", s)
	assert.Equal(t, next.State == journal.FlowWaiting, !next.DueAt.IsZero(), "%v", s)
	assert.False(t, f.State.Ended() && !next.State.Ended(), "%v", s)
	assert.False(t, f.Undoing && next.State == journal.FlowFinished && f.State != next.State, "%v", s)
}

func TestAFlowsEventsAndStatesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range journal.FlowStates {
		seen[s.String()] = true
	}
	assert.Len(t, seen, 5)
	assert.Equal(t, "absent", journal.FlowAbsent.String())
	assert.Equal(t, "FlowState(99)", journal.FlowState(99).String())
	assert.Equal(t, "give_up", journal.FlowGiveUp.String())
	assert.Equal(t, "FlowEventKind(0)", journal.FlowEventKind(0).String())
	assert.Equal(t, "undone", journal.StepUndone.String())
	assert.Equal(t, "StepKind(99)", journal.StepKind(99).String())
	_, decision, err := journal.NextFlow(journal.Flow{}, false, journal.FlowEvent{Kind: 99})
	require.ErrorIs(t, err, journal.ErrInvalidEvent)
	assert.Equal(t, journal.Ignored, decision)
	for _, ev := range []journal.FlowEvent{{Kind: journal.FlowBegin}, {Kind: journal.FlowBegin, Session: "A"}, {Kind: journal.FlowClaim}} {
		_, _, err := journal.NextFlow(journal.Flow{}, false, ev)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	}
}

func TestAFlowsFailuresAreCountedAndTheLatestKept(t *testing.T) {
	f := journal.Flow{State: journal.FlowRunning, Holder: "A", Claim: 1}
	for i := range 25 {
		var err error
		f, _, err = journal.NextFlow(f, true, journal.FlowEvent{
			Kind: journal.FlowFail, At: noon, Claim: f.Claim, Limit: 30, Cause: fmt.Sprint(i),
		})
		require.NoError(t, err)
		require.Len(t, f.History, min(i+1, journal.MaxFlowHistory))
		f, _, err = journal.NextFlow(f, false, journal.FlowEvent{Kind: journal.FlowClaim, At: noon, Session: "A", Functions: []journal.FlowFunction{{}}})
		require.NoError(t, err)
	}
	assert.Equal(t, 25, f.Failures)
	assert.Equal(t, "15", f.History[0].Error)
	f.State = journal.FlowSetAside
	f, _, err := journal.NextFlow(f, false, journal.FlowEvent{Kind: journal.FlowRetry, At: noon})
	require.NoError(t, err)
	assert.Zero(t, f.Failures)
	assert.Equal(t, noon, f.DueAt)
}

func TestWhoeverGivesUpAFlowFirstSaysWhy(t *testing.T) {
	f := journal.Flow{Handle: 1, Ref: journal.Ref{ID: "order"}, State: journal.FlowWaiting, Claim: 1, InputDigest: "i", CreatedAt: noon, UpdatedAt: noon, DueAt: noon}
	ev := journal.FlowEvent{Kind: journal.FlowGiveUp, At: noon, Cause: "sold out"}
	f, _, err := journal.NextFlow(f, false, ev)
	require.NoError(t, err)
	require.True(t, f.Undoing)
	assert.Equal(t, "sold out", f.GivenUpFor)
	ev.Cause = "bored"
	f, _, err = journal.NextFlow(f, false, ev)
	require.NoError(t, err)
	assert.Equal(t, "sold out", f.GivenUpFor)
}
