package journaltest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
)

var historyTests = []test{
	{"random histories end as in a map with Next", func(t *testing.T, h Harness) {
		newHistory(t, h).run(soak.Times(600, 1200))
	}},
	{"long random histories", func(t *testing.T, h Harness) { LongHistory(t, h, soak.Times(200, 400)) }},
}

// history drives a journal and the model through the same events.
type history struct {
	t        *testing.T
	h        Harness
	model    *model
	rnd      *rand.Rand
	sessions []machine.Session
	now      time.Time
	floor    time.Time // while the clock is behind, its lowest time
	back     time.Time // the time to which a clock returns after a jump ahead
	unique   int
}

func newHistory(t *testing.T, h Harness) *history {
	s := &history{t: t, h: h, model: &model{live: map[string]bool{}, heard: map[machine.Heard]time.Time{}}, rnd: rand.New(rand.NewPCG(h.Seed, 0)), now: noon}
	for range 3 {
		s.join()
	}
	return s
}

func (s *history) run(steps int) {
	for step := range steps {
		s.step()
		if s.t.Failed() {
			s.t.Fatalf("at step %d", step)
		}
	}
	s.settle()
	s.compare(s.h.Journal)
	if s.h.Reopen != nil {
		s.compare(s.h.Reopen(s.t))
	}
}

func (s *history) step() {
	switch s.rnd.IntN(32) {
	case 0, 1, 2:
		s.moveClock()
	case 3, 4, 5, 6:
		s.apply(s.begin())
	case 7, 8:
		s.apply(s.generate())
	case 9, 10, 11:
		s.apply(s.complete())
	case 12, 13:
		if s.sometimes(4) {
			s.apply(s.sign())
		}
		s.apply(s.release())
	case 14:
		s.apply(s.resolve())
	case 15:
		s.deliver()
	case 16:
		s.apply(s.today(machine.Event{Kind: machine.EventClaim, Ref: s.anyRef(), Session: s.anySession(), NamedOnly: s.sometimes(4), Delivered: s.sometimes(2)}))
	case 17:
		s.claim()
	case 18:
		s.reap()
	case 19:
		if s.sometimes(3) {
			s.end()
		}
	case 20:
		if s.sometimes(3) {
			s.apply(machine.Event{Kind: machine.EventAdopt, Ref: s.anyRef()})
		}
	case 21:
		s.apply(s.look())
	case 22:
		s.looks()
	case 23, 24, 25:
		s.apply(s.evidence())
	case 26:
		s.hear()
	case 27:
		s.findBy()
	case 28, 29:
		s.apply(s.enqueue())
	case 30:
		s.transaction()
	case 31:
		s.deliverTx()
	}
}

func (s *history) sometimes(n int) bool { return s.rnd.IntN(n) == 0 }

// moveClock lets the clock fall only below every time shown since the clock fell behind. A store need not look for
// operations begun while the clock was behind.
func (s *history) moveClock() {
	s.now = s.now.Add(time.Duration(s.rnd.Int64N(int64(40 * time.Minute))))
	switch {
	case s.sometimes(12):
		s.now = s.now.Add(26 * time.Hour)
	case s.sometimes(40): // a jump ahead, which comes back or keeps on
		s.now = s.now.Add(time.Duration(2+s.rnd.IntN(400)) * 24 * time.Hour)
		s.back = s.model.clock.Last
	case !s.back.IsZero() && s.sometimes(3):
		if s.model.clock.Last.Equal(s.back) {
			s.now = s.back
		}
		s.back = time.Time{}
	case s.sometimes(12):
		if !s.floor.IsZero() {
			s.now = s.floor
		}
		s.now = s.now.Add(-time.Duration(s.rnd.Int64N(int64(4 * time.Hour)))).Add(-time.Millisecond)
		s.now = s.now.Truncate(time.Millisecond)
		s.floor = s.now
		s.apply(machine.Event{Kind: machine.EventClock})
	}
	s.now = s.now.Truncate(time.Millisecond)
	if s.now.After(s.model.clock.Last) {
		s.floor = time.Time{}
	}
}

func (s *history) join() {
	session, err := s.h.Journal.Join(s.t.Context())
	require.NoError(s.t, err)
	s.sessions = append(s.sessions, session)
	s.model.live[session.ID()] = true
}

func (s *history) end() {
	i := s.rnd.IntN(len(s.sessions))
	session := s.sessions[i]
	s.sessions = append(s.sessions[:i], s.sessions[i+1:]...)
	delete(s.model.live, session.ID())
	if s.h.Kill != nil && s.sometimes(2) {
		s.h.Kill(s.t, session)
	} else {
		require.NoError(s.t, session.End(s.t.Context()))
	}
	s.join()
}

func (s *history) anySession() string { return s.sessions[s.rnd.IntN(len(s.sessions))].ID() }

func (s *history) anyRef() journal.Ref {
	if len(s.model.ops) > 0 && s.sometimes(2) {
		return s.model.ops[s.rnd.IntN(len(s.model.ops))].Ref
	}
	return journal.Ref{
		Scope:  []string{"", "tenant"}[s.rnd.IntN(2)],
		Parent: []string{"", "flow"}[s.rnd.IntN(2)],
		ID:     strconv.Itoa(s.rnd.IntN(4)),
	}
}

func (s *history) anyTerms() journal.Terms {
	return []journal.Terms{
		stripeLike,
		{},
		{Remembers: memory.Successes, Retention: 24 * time.Hour, Guard: true},
		{Remembers: memory.Everything, Retention: 2 * time.Hour, Handling: 10 * time.Minute},
	}[s.rnd.IntN(4)]
}

func (s *history) intent(ref journal.Ref, naming journal.Naming) *machine.Intent {
	in := intent(ref, naming)
	in.Fingerprint = "v1:" + strconv.Itoa(s.rnd.IntN(8)/7)
	in.Terms = s.anyTerms()
	in.KeyCarried = naming == journal.Carried
	in.Form = []string{"header A", "header A", "header A", "header B"}[s.rnd.IntN(4)]
	in.Mode = []string{"", "test", "test", "test", "live"}[s.rnd.IntN(5)]
	in.BodyWithheld = s.sometimes(10)
	in.Patience = time.Duration(s.rnd.IntN(2)) * 20 * time.Minute
	in.Request.Header = map[string][]string{"Date": {s.now.String()}}
	if naming == journal.Named && s.sometimes(4) {
		in.Alias, in.KeyCarried = s.anyAlias(), true
		if s.sometimes(3) {
			in.FormerAliases = []journal.Ref{s.anyAlias()}
		}
	}
	if s.sometimes(6) {
		in.NotAfter = s.now.Add(time.Duration(s.rnd.Int64N(int64(2*time.Hour))) - 10*time.Minute).Truncate(time.Millisecond)
	}
	if s.sometimes(2) {
		in.Trace = strings.Repeat("0", s.rnd.IntN(machine.MaxTrace+3))
		in.Reference, in.ReferenceName, in.ReferenceOurs = s.anyReference(), "form reference", s.sometimes(2)
	}
	if s.sometimes(8) {
		in.Compare = []journal.Field{{Name: "amount", Value: "100"}}
	}
	in.NextKey = func(generation int) string { return fmt.Sprint(ref, generation) }
	return in
}

func (s *history) anyAlias() journal.Ref {
	return journal.Ref{Scope: []string{"", "tenant"}[s.rnd.IntN(2)], Parent: "carried", ID: strconv.Itoa(s.rnd.IntN(6))}
}

func (s *history) begin() machine.Event {
	ref := s.anyRef()
	if s.sometimes(8) {
		ref = s.anyAlias()
		return machine.Event{Kind: machine.EventBegin, Ref: ref, Session: s.anySession(), Asker: s.asker(), Intent: s.intent(ref, journal.Carried)}
	}
	naming := journal.Named
	if ref.Parent == "" && ref.Scope != "" {
		naming = journal.Carried
	}
	if i := s.model.index(ref); i >= 0 && s.model.ops[i].Naming == journal.Generated {
		naming = journal.Carried
	}
	return machine.Event{Kind: machine.EventBegin, Ref: ref, Session: s.anySession(), Asker: s.asker(), Intent: s.intent(ref, naming)}
}

// enqueue enqueues a new name, or an existing one: most existing names are refused.
func (s *history) enqueue() machine.Event {
	ev := s.begin()
	ev.Kind, ev.Session, ev.Asker = machine.EventEnqueue, "", 0
	if s.sometimes(2) {
		ev.Due = s.now.Add(time.Duration(s.rnd.Int64N(int64(2 * time.Hour)))).Truncate(time.Millisecond)
	}
	return ev
}

// outbox returns the journal's outbox, if there is one. The function shows the clock first, since an enqueue need not.
// While the clock is behind or ahead, the function returns none. A store with other writers need not remember what the
// store closed meanwhile. Such a store may also see a clock a minute away after the transaction, at any time.
func (s *history) outbox() (machine.Outbox, bool) {
	outbox, ok := s.h.Journal.(machine.Outbox)
	if !ok {
		return nil, false
	}
	s.apply(machine.Event{Kind: machine.EventClock})
	clock := &s.model.clock
	return outbox, clock.Jumped.IsZero() && s.now.Sub(clock.Last).Abs() < time.Minute
}

// transaction enqueues several operations in one transaction, and commits or rolls back.
func (s *history) transaction() {
	outbox, ok := s.outbox()
	if !ok {
		return
	}
	tx, err := outbox.BeginTx(s.t.Context())
	require.NoError(s.t, err)
	before := s.model.snapshot()
	for range s.rnd.IntN(4) {
		ev := s.enqueue()
		ev.At = s.now
		want, wantErr := s.model.apply(ev)
		got, err := outbox.EnqueueTx(s.t.Context(), tx, ev)
		require.Equal(s.t, wantErr, err, "%s of %v", ev.Kind, ev.Ref)
		if err == nil {
			got.Last, got.Unconfirmed = want.Last, want.Unconfirmed // no test uses them here
			s.same(want, got, ev.Kind)
		}
	}
	if s.sometimes(3) {
		s.model.restore(before)
		require.NoError(s.t, tx.Rollback(s.t.Context()))
		return
	}
	require.NoError(s.t, tx.Commit(s.t.Context()))
	// The clock may be behind by the least margin of the enqueued operations. The model has seen that, the journal has
	// not.
	s.apply(machine.Event{Kind: machine.EventClock})
}

// deliverTx delivers an outcome in one commit with the handler's writes, or fails.
func (s *history) deliverTx() {
	outbox, ok := s.outbox()
	if !ok {
		return
	}
	ev, op := s.ofClaim(machine.EventDeliver)
	if ev.At = s.now; s.sometimes(2) {
		ev.Outcome = op.State
	}
	var failing error
	if s.sometimes(2) {
		failing = errors.New("the handler fails")
	}
	before := s.model.snapshot()
	want, err := s.model.apply(ev)
	require.NoError(s.t, err)
	told := false
	got, err := outbox.DeliverTx(s.t.Context(), ev, func(context.Context, journal.Tx) error {
		told = true
		return failing
	})
	require.Equal(s.t, want.Decision == machine.Recorded, told)
	if told && failing != nil {
		require.Equal(s.t, failing, err)
		s.model.restore(before)
		return
	}
	require.NoError(s.t, err)
	require.Equal(s.t, want.Decision.String(), got.Decision.String())
}

func (s *history) asker() int64 { return int64(1 + s.rnd.IntN(4)) }

func (s *history) generate() machine.Event {
	s.unique++
	ref := journal.Ref{Scope: []string{"", "tenant"}[s.rnd.IntN(2)], ID: keyNumber(s.unique)}
	return machine.Event{Kind: machine.EventBegin, Ref: ref, New: true, Session: s.anySession(), Intent: s.intent(ref, journal.Generated)}
}

// ofClaim is an event for an operation, mostly under its current claim, sometimes under an older one, or from another
// session.
func (s *history) ofClaim(kind machine.EventKind) (machine.Event, journal.Operation) {
	ev := machine.Event{Kind: kind, Ref: s.anyRef(), Claim: 1, Session: s.anySession()}
	i := s.model.index(ev.Ref)
	if i < 0 {
		return ev, journal.Operation{}
	}
	op := s.model.ops[i]
	ev.Claim, ev.Generation, ev.Attempts = op.Claim, op.Generation, s.rnd.IntN(3)
	if op.Holder != "" && !s.sometimes(8) {
		ev.Session = op.Holder
	}
	if s.sometimes(6) {
		ev.Claim += int64(s.rnd.IntN(3) - 1)
	}
	if s.sometimes(6) {
		ev.Generation += s.rnd.IntN(3) - 1
	}
	return ev, op
}

func (s *history) sign() machine.Event {
	ev, _ := s.ofClaim(machine.EventSign)
	s.unique++
	ev.Credential, ev.Account = strconv.Itoa(s.unique), s.anyAccount()
	return ev
}

func (s *history) complete() machine.Event {
	ev, _ := s.ofClaim(machine.EventComplete)
	ev.Delivered = s.sometimes(2)
	s.unique++
	ev.Answer = &journal.Answer{Status: 200, Body: []byte(strconv.Itoa(s.unique)), Refused: s.sometimes(4), Cut: s.sometimes(6)}
	if s.sometimes(3) {
		ev.Object, ev.Account = s.anyObject(), s.anyAccount()
	}
	return ev
}

func (s *history) release() machine.Event {
	kind := []machine.EventKind{machine.EventPark, machine.EventPark, machine.EventMarkUnknown, machine.EventCancel}[s.rnd.IntN(4)]
	ev, _ := s.ofClaim(kind)
	ev.Cause, ev.Told, ev.Busy, ev.Delivered = "because", s.sometimes(2), s.sometimes(4), s.sometimes(2)
	ev.Open, ev.Unsent, ev.Failed, ev.DueOwn = s.sometimes(2), s.sometimes(3), s.sometimes(3), s.sometimes(2)
	if kind == machine.EventCancel && s.sometimes(3) {
		ev.Claim, ev.Asker = 0, s.asker()
	}
	if s.sometimes(3) {
		ev.Wake = s.now.Add(time.Duration(s.rnd.Int64N(int64(4 * time.Hour)))).Truncate(time.Millisecond)
	}
	ev.Mode = []string{"", "test"}[s.rnd.IntN(2)]
	ev.Due = s.now.Add(time.Duration(s.rnd.Int64N(int64(2 * time.Hour))))
	return ev
}

func (s *history) resolve() machine.Event {
	ev, _ := s.ofClaim(machine.EventResolve)
	ev.Resolution = journal.Resolution(s.rnd.IntN(8))
	ev.Reference, ev.Forced = s.anyReference(), s.sometimes(4)
	ev.By, ev.Cause, ev.Unrecognised = "somebody", "a ticket", s.sometimes(3)
	s.unique++
	if s.sometimes(2) {
		ev.Answer = &journal.Answer{Status: 200, Body: []byte(strconv.Itoa(s.unique)), Omitted: s.sometimes(4)}
	}
	ev.Key = "resolved-" + strconv.Itoa(s.unique)
	if ev.Resolution == journal.Executed && s.sometimes(2) {
		ev.Object = s.anyObject()
	}
	return ev
}

func (s *history) apply(ev machine.Event) {
	ev.At = s.now
	want, wantErr := s.model.apply(ev)
	got, err := s.h.Journal.Apply(s.t.Context(), ev)
	require.Equal(s.t, wantErr, err, "%s of %v", ev.Kind, ev.Ref)
	if err != nil {
		return
	}
	s.same(want, got, ev.Kind)
}

func (s *history) same(want, got machine.Result, kind machine.EventKind) {
	name := fmt.Sprintf("%s of %v", kind, want.Operation.Ref)
	if want.Operation.State != journal.StateAbsent {
		require.Empty(s.t, machine.Violations(want.Operation, s.model.clock.Last), name)
	}
	require.Equal(s.t, want.Decision.String(), got.Decision.String(), name)
	require.Equal(s.t, want.Last, got.Last, name)
	require.Equal(s.t, want.Unconfirmed, got.Unconfirmed, name)
	require.Equal(s.t, handedOver(want, kind), handedOver(got, kind), name)
}

// deliver ignores the result, since the delivery waits for a later commit.
func (s *history) deliver() {
	ev, op := s.ofClaim(machine.EventDeliver)
	if ev.At = s.now; s.sometimes(2) {
		ev.Outcome = op.State
	}
	_, err := s.model.apply(ev)
	require.NoError(s.t, err)
	_, err = s.h.Journal.Apply(s.t.Context(), ev)
	require.NoError(s.t, err)
}

func (s *history) claim() {
	ev := machine.Event{Kind: machine.EventClaim, Session: s.anySession(), At: s.now, NamedOnly: s.sometimes(4), Delivered: s.sometimes(2), Looking: s.sometimes(2)}
	if s.sometimes(2) {
		ev.Due = s.now.Add(-time.Duration(s.rnd.Int64N(int64(time.Hour)))).Truncate(time.Millisecond)
	}
	ev = s.today(ev)
	limit := s.rnd.IntN(5)
	if limit == 0 { // a store need not read the clock for a limit of 0
		s.apply(machine.Event{Kind: machine.EventClock})
	}
	want, wantErr := s.model.claim(ev, limit)
	got, err := s.h.Journal.Claim(s.t.Context(), ev, limit)
	require.Equal(s.t, wantErr, err)
	require.Len(s.t, got, len(want))
	for i := range want {
		s.same(want[i], got[i], machine.EventClaim)
	}
}

// today makes a claim skip some operations and narrow the terms of others, mostly to the present ones.
func (s *history) today(ev machine.Event) machine.Event {
	if s.sometimes(4) {
		ev.From = [][]string{{"ledger"}, {"bank", ""}, {}}[s.rnd.IntN(3)]
	}
	if s.sometimes(2) {
		return ev
	}
	from := s.rnd.IntN(8)
	ev.Today = func(op *journal.Operation) (machine.Today, bool) {
		today := machine.Today{Terms: op.Terms, Form: "header A"}
		switch (len(op.ID) + int(op.Claim) + from) % 8 {
		case 0:
			return today, false
		case 1:
			today.Terms.Retention /= 2
		}
		return today, string(op.Request.Body) != "missing"
	}
	return ev
}

// reap lets the store choose the operations.
func (s *history) reap() {
	ev := machine.Event{Kind: machine.EventReap, At: s.now, Keep: time.Duration(s.rnd.IntN(30)) * time.Hour}
	s.model.see(ev.At)
	reapable := s.model.reapable(ev)
	limit := s.rnd.IntN(4)
	n, err := s.h.Journal.Reap(s.t.Context(), ev, limit)
	require.NoError(s.t, err)
	require.Equal(s.t, min(limit, len(reapable)), n, "of %v", reapable)
	s.model.forget(ev.Keep, ev.At)
	reaped := 0
	for _, ref := range reapable {
		op, err := s.h.Journal.Get(s.t.Context(), ref)
		if err == nil && !op.Tombstone {
			continue
		}
		if err != nil {
			require.ErrorIs(s.t, err, journal.ErrNotFound)
		}
		_, err = s.model.next(s.model.index(ref), ev)
		require.NoError(s.t, err)
		reaped++
	}
	require.Equal(s.t, n, reaped)
}

// settle commits something, so no delivery waits any more.
func (s *history) settle() { s.apply(s.generate()) }

func (s *history) compare(j machine.Store) {
	i := 0
	for op, err := range j.List(s.t.Context(), journal.Filter{}) {
		require.NoError(s.t, err)
		require.Less(s.t, i, len(s.model.ops))
		want := s.model.ops[i]
		whole, err := j.Get(s.t.Context(), op.Ref)
		require.NoError(s.t, err)
		require.Equal(s.t, normal(want), normal(whole))
		assert.Equal(s.t, handedOver(machine.Result{Operation: want}, 0), normal(op))
		i++
	}
	require.Equal(s.t, len(s.model.ops), i)
}
