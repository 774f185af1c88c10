package machine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/journal"
)

func TestTheLawsHoldInEveryHistory(t *testing.T) {
	ended := map[journal.State]int{}
	for seed := range uint64(sample.Size(700, 2_000)) {
		h := newHistory(t, seed)
		for range 1 + h.draw(40) {
			h.step()
		}
		h.finish()
		ended[h.op.State]++
	}
	for _, state := range []journal.State{journal.StateAbsent, journal.StateCompleted, journal.StateUnknown, journal.StateCancelled} {
		require.Greater(t, ended[state], sample.Size(5, 30), "the histories hardly ever end %v", state)
	}
}

// history is the life of one operation among sessions that start and die, under a clock that mostly goes forward.
// Beside the journal's record it keeps what an onlooker knows.
type history struct {
	t      *testing.T
	seed   uint64
	draw   draw
	naming journal.Naming
	op     journal.Operation
	dead   map[string]bool
	born   int
	now    time.Time
	last   time.Time // the latest that the clock has shown
	lines  []string

	ran      bool // an attempt of this generation may have run, and no decision denies it
	answered bool // the name has had an answer
}

func newHistory(t *testing.T, seed uint64) *history {
	d := seeded(seed)
	return &history{t: t, seed: seed, draw: d, naming: journal.Naming(d(3)), dead: map[string]bool{}, now: noon, last: noon}
}

func (h *history) step() {
	d := h.draw
	switch d(12) {
	case 0:
		h.now = h.now.Add(time.Duration(d(30)) * time.Hour)
	case 1:
		h.now = h.now.Add(-time.Duration(d(150)) * time.Minute)
	case 2:
		h.now = h.now.Add(100 * 24 * time.Hour)
	default:
		h.now = h.now.Add(time.Duration(d(20)) * time.Minute)
	}
	if d.oneIn(8) && h.op.Holder != "" {
		h.dead[h.op.Holder] = true
	}
	op := h.op
	op.Naming = h.naming
	ev := drawEvent(d, op)
	if ev.Kind == machine.EventBegin || ev.Kind == machine.EventClaim {
		ev.Session = h.session()
	}
	if h.op.State == journal.StateInFlight && d.oneIn(3) {
		ev.Kind = pick(d, machine.EventComplete, machine.EventPark, machine.EventCancel, machine.EventMarkUnknown)
		ev.Session, ev.Claim = h.op.Holder, h.op.Claim
	}
	if ev.Kind == machine.EventPark || ev.Kind == machine.EventCancel {
		ev.Due = h.now.Add(time.Duration(d(90)-10) * time.Minute)
	}
	h.apply(ev)
}

// session returns a live session: a known one, or a new one.
func (h *history) session() string {
	for _, id := range []string{"A", "B"} {
		if !h.dead[id] && h.draw.oneIn(2) {
			return id
		}
	}
	h.born++
	return fmt.Sprintf("C%d", h.born)
}

func (h *history) apply(ev machine.Event) machine.Decision {
	ev.At = h.now
	h.last = latest(h.last, h.now)
	ev.Last = h.last
	op, live := h.op, h.op.Holder != "" && !h.dead[h.op.Holder]

	broken := brokenLaws(op, live, ev)
	next, decision, err := machine.Next(op, live, ev)
	h.lines = append(h.lines, fmt.Sprintf("%s %v by %q of claim %d, open %v, unsent %v: %v → %v, %v, %v",
		h.now.Format(time.DateTime), ev.Kind, ev.Session, ev.Claim, ev.Open, ev.Unsent, op.State, next.State, decision, err))
	h.requiref(len(broken) == 0, "breaks %q", broken)
	h.look(op, live, ev, next, decision)
	h.op = next
	return decision
}

// look checks a step against the onlooker's knowledge.
func (h *history) look(op journal.Operation, live bool, ev machine.Event, next journal.Operation, decision machine.Decision) {
	takeover := op.State == journal.StateInFlight && !live && next.State != journal.StateInFlight ||
		decision == machine.Execute && op.State == journal.StateInFlight
	switch {
	case next.State == journal.StateAbsent || next.Generation != op.Generation:
		h.ran = false
	case ev.Kind == machine.EventResolve && ev.Resolution == journal.NotExecuted && decision == machine.Recorded:
		h.ran = false
	case releases(ev.Kind) && (decision == machine.Recorded || decision == machine.Weighed):
		h.ran = h.ran || ev.Open || ev.Kind == machine.EventMarkUnknown
	case takeover:
		h.ran = true
	}
	if next.State != journal.StateAbsent {
		broken := machine.Violations(next, h.last)
		h.requiref(len(broken) == 0, "breaks the invariants %q", broken)
	}
	h.requiref(!h.ran || next.MayHaveRun, "what may have run is forgotten")
	h.requiref(next.State != journal.StateCancelled || !next.MayHaveRun, "cancelled, though it may have run")
	h.requiref(next.State != journal.StatePending || next.Holder == "", "pending and held by %q", next.Holder)
	h.requiref(next.State != journal.StateInFlight || next.Holder != "" && next.MayHaveRun && !next.FirstSentAt.IsZero(), "in flight without a trace")
	h.requiref(next.State <= journal.StateInFlight || !next.Delivered || next.Holder == "" || !next.LookAt.IsZero(), "delivered and held by %q", next.Holder)
	h.requiref((next.State == journal.StateCompleted && !next.Tombstone) == (next.Answer != nil), "an answer in the wrong state")

	h.requiref(!h.answered || decision != machine.Execute, "a name with an answer was executed")
	if next.State == journal.StateCompleted && next.Naming == journal.Named {
		h.answered = true
	}
	// A stamp that is later than the clock is off by no more than the margin that
	// the window leaves, or the window is closed.
	if decision == machine.Execute && next.Terms.Window() > 0 && !next.WindowClosed {
		h.requiref(!next.FirstSentAt.After(h.now.Add(next.Terms.Margin())), "sent at %v, recorded as first sent at %v", h.now, next.FirstSentAt)
	}
}

// finish shows that a path without faults leads to an outcome, which is offered until it is delivered. Then it is
// reaped.
func (h *history) finish() {
	if h.op.State == journal.StateAbsent {
		return
	}
	h.dead[h.op.Holder] = true
	for range 4 {
		h.now = latest(h.last, latest(h.op.DueAt, h.op.WakeAt))
		if h.op.State > journal.StateInFlight {
			break
		}
		if h.apply(machine.Event{Kind: machine.EventClaim, Session: "last"}) == machine.Execute {
			h.apply(machine.Event{Kind: machine.EventComplete, Session: "last", Claim: h.op.Claim, Generation: h.op.Generation,
				Answer: &journal.Answer{Status: 200}})
		}
	}
	h.requiref(h.op.State > journal.StateInFlight, "no outcome")
	if h.op.Delivered {
		return
	}
	h.dead[h.op.Holder] = true
	h.requiref(h.apply(machine.Event{Kind: machine.EventClaim, Session: "offered to"}) == machine.Offer, "not offered")
	h.requiref(h.apply(machine.Event{Kind: machine.EventDeliver}) == machine.Recorded, "not delivered")
	settled, named := h.op.State.Settled(), h.op.State == journal.StateCompleted && h.op.Naming == journal.Named
	h.now = h.now.Add(100 * 24 * time.Hour)
	h.apply(machine.Event{Kind: machine.EventReap, Keep: 90 * 24 * time.Hour})
	withdrawn := h.op.State == journal.StateCancelled && h.op.Withdrawn != nil && h.op.Naming != journal.Generated
	h.requiref(h.op.Tombstone == named && (h.op.State == journal.StateAbsent) == (settled && !named && !withdrawn), "not reaped as it should be")
}

func (h *history) requiref(ok bool, format string, args ...any) {
	h.t.Helper()
	if ok {
		return
	}
	story := ""
	for _, line := range h.lines {
		story += line + "\n"
	}
	require.Failf(h.t, fmt.Sprintf(format, args...), "seed %d\n%s%+v", h.seed, story, h.op)
}
