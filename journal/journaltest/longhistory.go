package journaltest

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// LongHistory drives the harness's journal, and a map with Next, through the given number of random events, like Run.
// It mixes in bursts of operations, upkeep, crashes, next processes, lists and statistics. It fails at a difference.
func LongHistory(t *testing.T, h Harness, steps int) {
	newHistory(t, h).runLong(steps)
}

func (s *history) runLong(steps int) {
	for range steps {
		switch n := s.rnd.IntN(240); {
		case n < 12 && s.h.Upkeep != nil:
			s.h.Upkeep(s.t, s.h.Journal, s.rnd.Int())
		case n == 12 || n == 13:
			s.burst(1 + s.rnd.IntN(400))
		case n == 14 && s.h.Reopen != nil:
			s.reopen(s.sometimes(2))
		case n == 15 && s.h.Crash != nil && s.h.Reopen != nil:
			s.settle()
			s.compare(s.h.Crash(s.t))
			s.reopen(true)
		case n < 24:
			s.list()
		case n < 28:
			s.stats()
		default:
			s.step()
		}
		if s.t.Failed() {
			s.t.FailNow()
		}
	}
	s.settle()
	s.compare(s.h.Journal)
	if s.h.Reopen != nil {
		s.reopen(false)
		s.compare(s.h.Journal)
	}
}

// burst begins many operations, and completes most of them at once.
func (s *history) burst(many int) {
	for range many {
		ev := s.generate()
		ev.Intent.Terms, ev.Intent.NotAfter = journal.Terms{Remembers: memory.Everything, Retention: 72 * time.Hour, Handling: time.Minute}, time.Time{}
		s.apply(ev)
		i := s.model.index(ev.Ref)
		if i < 0 || s.sometimes(50) {
			continue
		}
		done := machine.Event{Kind: machine.EventComplete, Ref: ev.Ref, Session: ev.Session, Claim: s.model.ops[i].Claim, Attempts: 1, Delivered: !s.sometimes(60)}
		done.Answer = &journal.Answer{Status: 200, Body: []byte("paid " + strconv.Itoa(s.unique))}
		s.apply(done)
	}
}

// reopen ends the process, cleanly or not, and starts the next one.
func (s *history) reopen(killed bool) {
	if !killed {
		for _, session := range s.sessions {
			require.NoError(s.t, session.End(s.t.Context()))
		}
	}
	_ = s.h.Journal.Close() // Reopen knows of the first alone
	s.h.Journal, s.sessions = s.h.Reopen(s.t), nil
	clear(s.model.live)
	// The next process knows the recorded clock, and not the last one's own measurements.
	kept := store.Clock{Last: s.model.clock.Last, LeastMargin: s.model.clock.LeastMargin, Jumped: s.model.clock.Jumped, Ahead: s.model.clock.Ahead}
	if s.h.ForgetsAhead {
		kept.Ahead = time.Time{}
	}
	s.model.clock = kept
	for range 3 {
		s.join()
	}
}

// list compares the operations of a random filter.
func (s *history) list() {
	s.settle()
	var all []journal.Operation
	for op, err := range s.h.Journal.List(s.t.Context(), journal.Filter{}) {
		require.NoError(s.t, err)
		all = append(all, op)
	}
	require.Len(s.t, all, len(s.model.ops))
	for i, want := range s.model.ops {
		require.Equal(s.t, want.Ref, all[i].Ref)
		require.Equal(s.t, want.State.String(), all[i].State.String(), "%v", want.Ref)
	}
	f := journal.Filter{Newest: s.sometimes(3), ByWake: s.sometimes(4), Undelivered: s.sometimes(6)}
	if s.sometimes(12) {
		f.NeedsAttention = s.now
	}
	if s.sometimes(2) {
		for range 1 + s.rnd.IntN(2) {
			f.States = append(f.States, journal.State(1+s.rnd.IntN(5)))
		}
	}
	if s.sometimes(4) {
		f.Scope = &s.anyOf(all).Scope
	}
	if s.sometimes(6) {
		f.WakeBefore = s.anyOf(all).WakeAt
	}
	if s.sometimes(6) {
		f.WakeAfter = s.anyOf(all).WakeAt
	}
	if s.sometimes(4) {
		f.After = s.anyOf(all).Handle
	}
	if s.sometimes(4) {
		f.Before = s.anyOf(all).Handle
	}
	var want []int64
	slices.SortStableFunc(all, func(a, b journal.Operation) int {
		switch {
		case f.ByWake:
			return cmp.Or(a.WakeAt.Compare(b.WakeAt), cmp.Compare(a.Handle, b.Handle))
		case f.Newest:
			return cmp.Compare(b.Handle, a.Handle)
		}
		return cmp.Compare(a.Handle, b.Handle)
	})
	for _, op := range all {
		if store.Selects(&f, &op) {
			want = append(want, op.Handle)
		}
	}
	if s.sometimes(2) {
		f.Limit = 1 + s.rnd.IntN(len(want)+2)
		want = want[:min(f.Limit, len(want))]
	}
	var got []int64
	for op, err := range s.h.Journal.List(s.t.Context(), f) {
		require.NoError(s.t, err)
		got = append(got, op.Handle)
	}
	require.Equal(s.t, want, got, "%+v", f)
}

func (s *history) anyOf(all []journal.Operation) *journal.Operation {
	if len(all) == 0 {
		return new(journal.Operation)
	}
	return &all[s.rnd.IntN(len(all))]
}

// stats counts.
func (s *history) stats() {
	reader, ok := s.h.Journal.(journal.StatsReader)
	if !ok {
		return
	}
	s.settle()
	before := time.Now()
	got, err := reader.ReadStats(s.t.Context())
	require.NoError(s.t, err)
	after, attention := time.Now(), int64(0)
	var want journal.Stats
	for _, op := range s.model.ops {
		switch op.State {
		case journal.StatePending:
			want.Pending++
		case journal.StateInFlight:
			want.InFlight++
		case journal.StateUnknown:
			want.Unknown++
		case journal.StateCancelled:
			want.Cancelled++
		}
		if op.Undelivered() {
			want.Undelivered++
		}
		if op.NeedsAttention(before) != "" {
			want.NeedsAttention++
		}
		if op.NeedsAttention(after) != "" {
			attention++
		}
	}
	if got.NeedsAttention > want.NeedsAttention && got.NeedsAttention <= attention { // NeedsAttention goes by the store's clock
		want.NeedsAttention = got.NeedsAttention
	}
	assert.Equal(s.t, want, journal.Stats{
		Pending: got.Pending, InFlight: got.InFlight, Unknown: got.Unknown, Cancelled: got.Cancelled,
		Undelivered: got.Undelivered, NeedsAttention: got.NeedsAttention,
	})
	assert.GreaterOrEqual(s.t, got.Begun, int64(len(s.model.ops)))
	assert.False(s.t, got.Last.After(s.model.clock.Last))
	assert.LessOrEqual(s.t, s.model.clock.Last.Sub(got.Last), time.Hour)
}
