package journaltest

import (
	"strconv"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

func (s *history) anyObject() string { return "charge ch_" + strconv.Itoa(s.rnd.IntN(12)) }

func (s *history) anyAccount() string {
	return []string{"", "acct_1", "acct_1", "acct_2"}[s.rnd.IntN(4)]
}

func (s *history) anyReference() string { return "ref-" + strconv.Itoa(s.rnd.IntN(20)) }

func (s *history) look() machine.Event {
	if s.sometimes(4) {
		return machine.Event{Kind: machine.EventHint, Ref: s.anyRef()}
	}
	return machine.Event{Kind: machine.EventLook, Ref: s.anyRef(), Due: s.now.Add(time.Minute), Asked: s.sometimes(2), Looker: s.anySession()}
}

// evidence returns evidence, mostly of the present generation, under the current claim.
func (s *history) evidence() machine.Event {
	ev, op := s.ofClaim(machine.EventEvidence)
	if ev.Claim < 1 {
		ev.Claim = op.Claim
	}
	finding := []journal.Finding{
		journal.FindingTookEffect, journal.FindingTookEffect, journal.FindingAbsent, journal.FindingAbsent, journal.FindingAbsent, journal.FindingRefused,
		journal.FindingAmbiguous, journal.FindingInconclusive, journal.FindingInProgress, journal.FindingReversed,
	}[s.rnd.IntN(10)]
	ev.At, ev.Account, ev.Session, ev.Looker = s.now, s.anyAccount(), "", op.Holder
	ev.Due = s.now.Add(time.Duration(s.rnd.IntN(120)) * time.Minute)
	ev.Evidence = &journal.Evidence{Source: journal.SourceLook, Actor: "host", Status: 200, Pages: 1, Finding: finding, Basis: journal.Basis(s.rnd.IntN(5))}
	if finding.TookEffect() || s.sometimes(3) {
		ev.Object = s.anyObject()
	}
	if s.sometimes(2) {
		s.unique++
		ev.Answer = &journal.Answer{Status: 200, Body: []byte(strconv.Itoa(s.unique))}
	}
	if s.sometimes(5) {
		ev.Attention = "nothing can look"
	}
	if finding == journal.FindingAbsent {
		ev.Account = op.Account
		ev.Absence = &machine.Absence{Began: s.now, Handling: time.Minute}
		if s.sometimes(2) {
			ev.Evidence.Source = journal.SourceHook
		}
	}
	ev.Delivered = s.sometimes(3)
	return ev
}

func (s *history) looks() {
	r, ok := s.h.Journal.(machine.Reconciler)
	if !ok {
		return
	}
	ev := machine.Event{Kind: machine.EventLook, At: s.now, Due: s.now.Add(time.Minute), Looker: s.anySession()}
	if s.sometimes(3) {
		ev.From = []string{"ledger"}
	}
	limit := s.rnd.IntN(4)
	s.model.see(ev.At)
	due := s.model.dueLooks(ev)
	got, err := r.Looks(s.t.Context(), ev, limit)
	require.NoError(s.t, err)
	require.Len(s.t, got, min(limit, len(due)))
	for i := range got {
		of := ev
		of.Ref = due[i]
		want, err := s.model.apply(of)
		require.NoError(s.t, err)
		s.same(want, got[i], machine.EventLook)
	}
}

func (s *history) hear() {
	r, ok := s.h.Journal.(machine.Reconciler)
	if !ok {
		return
	}
	heard := machine.Heard{Provider: "ledger", ID: strconv.Itoa(s.rnd.IntN(30))}
	var evs []machine.Event
	for range s.rnd.IntN(3) {
		evs = append(evs, s.evidence())
	}
	want, wantFirst, wantErr := s.model.hear(heard, evs)
	got, first, err := r.RecordEvent(s.t.Context(), heard, evs)
	require.Equal(s.t, wantErr, err)
	require.Equal(s.t, wantFirst, first)
	require.Len(s.t, got, len(want))
	for i := range want {
		s.same(want[i], got[i], machine.EventEvidence)
	}
}

// findBy checks that FindBy finds the required operations, and only matching ones.
func (s *history) findBy() {
	r, ok := s.h.Journal.(machine.Reconciler)
	if !ok {
		return
	}
	by, value := machine.ByReference, s.anyReference()
	if s.sometimes(2) {
		by, value = machine.ByObject, s.anyObject()
	} else if i := s.model.index(s.anyRef()); i >= 0 {
		by, value = machine.ByKey, s.model.ops[i].Key
	}
	matches, err := r.FindBy(s.t.Context(), "ledger", by, value)
	require.NoError(s.t, err)
	got := map[journal.Ref]int{}
	for _, m := range matches {
		got[m.Operation.Ref] = m.Generation
	}
	for _, op := range s.model.ops {
		generation, is := machine.RoundBy(&op, by, value)
		is = is && op.Provider == "ledger"
		found, there := got[op.Ref]
		if there {
			require.True(s.t, is, "%v %q", by, value)
			require.Equal(s.t, generation, found)
			delete(got, op.Ref)
		}
		marked := op.State != journal.StateCompleted || op.Reference != "" || op.Object != "" || len(op.Evidence) > 0
		require.True(s.t, there || !is || !marked, "%v by %v %q", op.Ref, by, value)
	}
	assert.Empty(s.t, got)
}
