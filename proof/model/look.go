package model

import (
	"slices"

	"github.com/onceward/onceward/journal"
)

// maxSeen is how much evidence a world has at most.
const maxSeen = 4

// evidence is a journal.Evidence without what the decisions of Next don't depend on; its
// zero value is none.
type evidence struct {
	Finding    journal.Finding
	Generation int
	Object     string
	At         stamp // of an absence; else never
	Kept       bool  // with an answer, while a claim is out
}

// account is whose the operation is, where somebody looks for it.
const account = "acct_1"

func (r *record) evidence() (list []journal.Evidence) {
	for _, e := range r.Seen {
		if e.Finding == 0 {
			break
		}
		v := journal.Evidence{Finding: e.Finding, Generation: e.Generation, Object: e.Object, At: e.At.time(), Source: journal.SourceLook, Basis: journal.BasisReference}
		if e.Kept {
			v.Answer = shownAnswer.journal()
		}
		list = append(list, v)
	}
	return list
}

// seenOf keeps what may matter of an operation's evidence. It tells whether there was room.
func seenOf(op *journal.Operation) (seen [maxSeen]evidence, room bool) {
	for i, v := range op.Evidence {
		if i == maxSeen {
			return seen, false
		}
		seen[i] = evidence{Finding: v.Finding, Generation: v.Generation, Object: v.Object, At: never, Kept: v.Answer != nil}
		if v.Finding == journal.FindingAbsent {
			seen[i].At = stampOf(v.At)
		}
	}
	return seen, true
}

// objectOf names what a life of the operation makes.
func objectOf(life uint8) string { return [...]string{"payment 0", "payment 1"}[life] }

// generationOf is the generation that a life is; it tells whether the record has it.
func (x *explorer) generationOf(s *state, life uint8) (generation int, is bool) {
	generation = x.op(s).Generation - int(s.Life) + int(life)
	return generation, generation >= 0
}

// reconcile is what finds out what became of an operation: events, which come at any time
// after the effect, and looks, which take a while and see what is visible when they begin.
func (x *explorer) reconcile(s *state) {
	op := x.op(s)
	if !x.Finds || op.State == journal.StateAbsent {
		return
	}
	for life := range s.Life + 1 {
		generation, is := x.generationOf(s, life)
		if s.Effects[life] == 0 || !is {
			continue
		}
		if x.Alike && int(s.Life) != int(life) {
			generation = op.Generation // its reference does not tell
		}
		if n, ok := x.spend(s, finds); ok {
			x.tell(&n, asked{finding: journal.FindingTookEffect, generation: generation, claim: op.Claim, object: objectOf(life)}, heardStep)
		}
	}
	if n, ok := x.spend(s, looks); ok && op.State == journal.StateUnknown && s.Looked.Claim == 0 {
		seen := s.Effects[s.Life] > 0 && !s.Hidden[s.Life]
		n.Looked = look{Claim: uint8(op.Claim), Generation: uint8(op.Generation), Clean: !seen, Ran: seen}
		x.emit(&n, event{kind: lookStep, client: -1}, facts{})
	}
	if seen := s.Looked; seen.Claim > 0 {
		n := *s
		n.Looked = look{}
		a := asked{finding: journal.FindingAbsent, generation: int(seen.Generation), claim: int64(seen.Claim)}
		if seen.Ran {
			if life := int(s.Life) - (op.Generation - int(seen.Generation)); life >= 0 {
				a.finding, a.object = journal.FindingTookEffect, objectOf(uint8(life))
			}
		}
		x.tell(&n, a, foundStep)
	}
	if !x.Withdrawn {
		return
	}
	for _, resolution := range [...]journal.Resolution{journal.Unwanted, journal.Wanted} {
		n, ok := x.spend(s, operators)
		if !ok {
			return
		}
		out, ok := x.ask(&n, asked{kind: journal.EventResolve, resolution: resolution, claim: op.Claim, generation: op.Generation, due: never})
		if ok && out.err == nil && out.decision == journal.Recorded {
			x.emit(&n, event{kind: resolveStep, client: -1, arg: int(resolution)}, facts{faulty: true})
		}
	}
}

// tell gives Next evidence, and says whether a proof of absence is a wrong one.
func (x *explorer) tell(s *state, a asked, kind stepKind) {
	before := *x.op(s)
	life := s.Life
	wrong := s.Effects[life] > 0 || s.mayExecute(life)
	a.kind, a.due = journal.EventEvidence, never
	out, ok := x.ask(s, a)
	if !ok || out.err != nil {
		return
	}
	after := x.op(s)
	if before.State == journal.StateUnknown && after.State == journal.StateCancelled && x.Straggles && wrong {
		s.FalseNot = true
	}
	f := facts{told: a.finding.TookEffect(), object: a.object}
	x.emit(s, event{kind: kind, client: -1, arg: int(a.finding), decision: out.decision}, f)
}

// recorded tells whether the record has the object: it is completed by it, keeps it beside a
// claim, or somebody has to see to it.
func (r *record) recorded(object string) bool {
	seen := slices.ContainsFunc(r.Seen[:], func(e evidence) bool { return e.Object == object && e.Finding.TookEffect() })
	return r.Object == object || seen || r.State == journal.StateCompleted && r.Object == ""
}
