package model_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/proof/model"
	"github.com/onceward/onceward/providers"
)

// weakened are rules that change the operation and the event before Next sees them.
func weakened(change func(op *journal.Operation, live bool, ev *machine.Event)) model.Rules {
	rules := model.Real()
	rules.Next = func(op journal.Operation, live bool, ev machine.Event) (journal.Operation, machine.Decision, error) {
		change(&op, live, &ev)
		return machine.Next(op, live, ev)
	}
	return rules
}

// altered are rules that change the result of Next.
func altered(change func(before journal.Operation, ev machine.Event, after *journal.Operation, d machine.Decision)) model.Rules {
	rules := model.Real()
	rules.Next = func(op journal.Operation, live bool, ev machine.Event) (journal.Operation, machine.Decision, error) {
		after, decision, err := machine.Next(op, live, ev)
		change(op, ev, &after, decision)
		return after, decision, err
	}
	return rules
}

func named(t *testing.T, name string) model.Config {
	t.Helper()
	for _, cfg := range model.Worlds {
		if cfg.Name == name {
			return cfg
		}
	}
	require.Fail(t, "there is no such world", name)
	return model.Config{}
}

// Every invariant is broken by rules that deserve it.
// A model that can't fail proves nothing.
func TestInvariantsAreBroken(t *testing.T) {
	forgetsTheDead := weakened(func(op *journal.Operation, live bool, _ *machine.Event) {
		if op.State == journal.StateInFlight && !live {
			op.MayHaveRun = false
		}
	})
	const stopped = "a background run is stopped, and a second asker leaves"
	unasked := func(_ *journal.Operation, _ bool, ev *machine.Event) { ev.Today = nil }
	for _, tc := range []struct {
		invariant int
		world     string
		what      string
		rules     model.Rules
		only      bool // another one is broken earlier
	}{
		{1, "no key", "what a dead client held counts as not sent", forgetsTheDead, true},
		{2, "reaped", "a name is forgotten with its answer", altered(func(_ journal.Operation, _ machine.Event, after *journal.Operation, _ machine.Decision) {
			if after.Tombstone {
				*after = journal.Operation{}
			}
		}), false},
		{3, "no key", "a cancel does not look at what its attempts left open", weakened(func(_ *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventCancel {
				ev.Open = false
			}
		}), false},
		{4, "two answers", "a second answer replaces the first", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventComplete {
				op.State, op.Answer, op.Terms.Remembers = journal.StatePending, nil, providers.Everything
			}
		}), true},
		{5, "no key", "what a dead client held counts as not sent", forgetsTheDead, false},
		{6, "keyed, remembers all", "a claim does not count as sent", altered(func(_ journal.Operation, _ machine.Event, after *journal.Operation, d machine.Decision) {
			if d == machine.Execute {
				after.MayHaveRun = false
			}
		}), false},
		{7, "keyed, a closing window", "a park takes every attempt for unsent", weakened(func(_ *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventPark && !ev.Open {
				ev.Unsent = true
			}
		}), false},
		{8, "a session is lost", "whoever had a claim may give it up", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventPark || ev.Kind == machine.EventMarkUnknown {
				ev.Session, ev.Claim = op.Holder, op.Claim
			}
		}), false},
		{9, "keyed, remembers all", "a park leaves the operation with its holder", altered(func(before journal.Operation, ev machine.Event, after *journal.Operation, d machine.Decision) {
			if ev.Kind == machine.EventPark && d == machine.Recorded {
				*after = before
			}
		}), false},
		{10, "reaped", "a tombstone is taken for nothing", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventBegin && op.Tombstone {
				*op = journal.Operation{}
			}
		}), false},
		{11, "reaped", "what nobody took is reaped", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventReap && op.State == journal.StateCompleted {
				op.Delivered = true
			}
		}), true},
		{12, "a session is lost", "a client does not look at its session", model.Rules{Next: machine.Next, MaySend: machine.MaySend, Blind: true}, false},

		{1, "no key", "a client does not look at its claim", model.Rules{Next: machine.Next, MaySend: machine.MaySend, Deaf: true}, true},
		{5, "patient callers", "a client does not ask the rule at the very moment", model.Rules{Next: machine.Next, MaySend: machine.MaySend, Rash: true}, false},
		{3, "keyed, remembers successes, failures are clean", "a refusal stands though an earlier request is under way",
			weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
				if ev.Kind == machine.EventComplete {
					op.Terms.Remembers = providers.Everything
				}
			}), false},
		{3, "no key, idempotent method", "a refusal stands though an earlier request is under way",
			weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
				if ev.Kind == machine.EventComplete {
					op.Terms.Remembers = providers.Everything
				}
			}), false},

		{13, stopped, "whoever is stopped in the background cancels", model.Rules{Next: machine.Next, MaySend: machine.MaySend, Stopped: true}, false},
		{13, stopped, "a second asker that leaves cancels", model.Rules{Next: machine.Next, MaySend: machine.MaySend, Selfish: true}, false},
		{5, "a table that was corrected: the retention", "a claim does not ask today's table", weakened(unasked), false},
		{5, "a table that was corrected: the memory", "a claim does not ask today's table", weakened(unasked), false},
		{5, "the key moves on the wire", "nobody looks where the key was", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Intent != nil {
				op.Form = ev.Intent.Form
			} else if ev.Today != nil {
				asked := *op
				today, _ := ev.Today(&asked)
				op.Form = today.Form
			}
		}), false},
		{3, "resolved by what was seen", "a word is on whatever there is by now", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventResolve {
				ev.Generation, ev.Claim = op.Generation, op.Claim
			}
		}), true},
		{6, "resolved by what was seen", "what is let go counts as not sent", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Resolution == journal.Reinstate {
				op.MayHaveRun = false
			}
		}), false},
		{5, "keyed, remembers lost answers", "a failure that was answered is taken for a lost answer", model.Rules{Next: machine.Next, MaySend: func(q machine.Question) machine.Permission {
			q.Failed = false
			return machine.MaySend(q)
		}}, false},
		{5, "keyed, remembers lost answers", "a dead client's failures are taken for lost answers", weakened(func(op *journal.Operation, live bool, _ *machine.Event) {
			if op.State == journal.StateInFlight && !live {
				op.Failed = false
			}
		}), false},
		{3, "the program's own look-up", "an absence waits for no handling time", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventEvidence {
				op.LastEndedAt, op.SettledAt = ev.At.Add(-20*time.Hour), ev.At.Add(-20*time.Hour)
			}
		}), false},
		{3, "the program's own look-up", "every absence counts", altered(func(before journal.Operation, ev machine.Event, after *journal.Operation, _ machine.Decision) {
			if ev.Kind == machine.EventEvidence && ev.Evidence.Finding == journal.FindingAbsent && before.State == journal.StateUnknown {
				after.State, after.MayHaveRun = journal.StateCancelled, false
			}
		}), true},
		{14, "absent, then late arrival", "evidence of an earlier generation is dropped", altered(func(before journal.Operation, ev machine.Event, after *journal.Operation, _ machine.Decision) {
			if ev.Kind == machine.EventEvidence && ev.Generation < before.Generation {
				*after = before
			}
		}), true},
		{14, "event before response", "an event beside a claim is dropped", altered(func(before journal.Operation, ev machine.Event, after *journal.Operation, _ machine.Decision) {
			if ev.Kind == machine.EventEvidence && before.State == journal.StateInFlight {
				*after = before
			}
		}), false},
		{14, "two generations, one reference", "what took effect twice is not said", altered(func(before journal.Operation, _ machine.Event, after *journal.Operation, d machine.Decision) {
			if d == machine.SecondEffect {
				*after = before
			}
		}), true},
		{15, "withdrawn", "a begin does not look whether it is withdrawn", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventBegin {
				op.Withdrawn = nil
			}
		}), true},
		{16, "no key", "who asks for what is unknown has it sent", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventBegin && op.State == journal.StateUnknown {
				op.State, op.MayHaveRun, op.SettledAt, op.LookAt = journal.StateCancelled, false, time.Time{}, time.Time{}
			}
		}), true},
		{17, "enqueued, until a time", "nobody looks until when it may be sent", weakened(func(op *journal.Operation, _ bool, _ *machine.Event) {
			op.NotAfter = time.Time{}
		}), false},
		{17, "enqueued, until a time", "a time that has passed is extended by who asks", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventBegin {
				op.NotAfter = ev.At
			}
		}), false},
		{6, "enqueued", "an enqueue begins what is in flight anew", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventEnqueue && op.State == journal.StateInFlight {
				op.State, op.MayHaveRun, op.Found = journal.StateCancelled, false, journal.Found{}
			}
		}), false},
		{10, "enqueued", "an enqueue does not know what has an answer", weakened(func(op *journal.Operation, _ bool, ev *machine.Event) {
			if ev.Kind == machine.EventEnqueue && op.State == journal.StateCompleted {
				*op = journal.Operation{}
			}
		}), true},
		{6, "the database goes back", "what is adopted counts as not sent", altered(func(_ journal.Operation, ev machine.Event, after *journal.Operation, _ machine.Decision) {
			if ev.Kind == machine.EventAdopt && after.State == journal.StatePending {
				after.MayHaveRun = false
			}
		}), false},
	} {
		t.Run(tc.what, func(t *testing.T) {
			var cfg model.Config
			switch {
			case tc.world == "two answers":
				cfg = named(t, "keyed, remembers successes, failures are clean")
				cfg.Clock, cfg.Budget = false, model.Budget{Asks: 2, Takeovers: 1}
			case tc.rules.Deaf:
				cfg = named(t, tc.world)
				cfg.Budget = model.Budget{Asks: 2, Operator: 1, Takeovers: 1}
			default:
				cfg = named(t, tc.world)
			}
			if tc.only {
				tc.rules.Only = tc.invariant
			}
			res, err := model.Explore(&cfg, tc.rules, shortLimit)
			require.NoError(t, err)
			require.NotNil(t, res.Violation, "nothing is broken")
			assert.Equal(t, tc.invariant, res.Violation.Invariant.Number, "%s\n%s", res.Violation.Invariant.Statement, res.Violation.History)
			assert.Positive(t, res.Violation.History.Len())
			t.Logf("invariant %d: %s\n%s", res.Violation.Invariant.Number, res.Violation.Invariant.Statement, res.Violation.History)
		})
	}
}

// A violation is shown as the shortest history.
func TestViolationIsTheShortestHistory(t *testing.T) {
	cfg := named(t, "no key")
	res, err := model.Explore(&cfg, weakened(func(op *journal.Operation, live bool, _ *machine.Event) {
		if op.State == journal.StateInFlight && !live {
			op.MayHaveRun = false
		}
	}), shortLimit)
	require.NoError(t, err)
	require.NotNil(t, res.Violation)
	want := `
step | client A      | client B      | network | provider | journal            | clock
-----|---------------|---------------|---------|----------|--------------------|-------
   1 | asks: execute |               |         |          | in_flight, claim 1 |
   2 | sends key 0   |               |         |          |                    |
   3 | crashes       |               |         |          |                    |
   4 |               | asks: execute |         |          | in_flight, claim 2 |
   5 |               | sends key 0   |         |          |                    |
`
	assert.Equal(t, strings.TrimSpace(want), trimmed(res.Violation.History.String()))
	assert.Equal(t, 5, res.Violation.History.Len())
}

// trimmed is a table without the spaces at the ends of its lines.
func trimmed(table string) string {
	lines := strings.Split(table, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func TestASearchThatMeetsItsLimitIsAnError(t *testing.T) {
	cfg := named(t, "keyed, remembers all")
	_, err := model.Explore(&cfg, model.Real(), 1000)
	assert.ErrorIs(t, err, model.ErrTooLarge)
}

func TestASearchFindsTheSameTwice(t *testing.T) {
	cfg := named(t, "no key, idempotent method")
	one, err := model.Explore(&cfg, model.Real(), shortLimit)
	require.NoError(t, err)
	other, err := model.Explore(&cfg, model.Real(), shortLimit)
	require.NoError(t, err)
	assert.Equal(t, one, other)
}
