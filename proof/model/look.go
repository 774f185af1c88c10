package model

import (
	"slices"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// maxSeen limits the evidence in a world.
const maxSeen = 4

// evidence is a journal.Evidence with only the fields that Next's decisions depend on. Its zero value means none.
type evidence struct {
	Finding    journal.Finding
	Generation int
	Object     string
	At         stamp // of an absence; else never
	Kept       bool  // with an answer, while a claim is out
}

// account is the operation's account, in worlds with look-ups.
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

// seenOf returns the relevant fields of an operation's evidence, and reports whether there was room for all evidence.
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

// objectOf returns the name of the object that a life of the operation makes.
func objectOf(life uint8) string { return [...]string{"payment 0", "payment 1"}[life] }

// generationOf returns the generation of a life, and reports whether the record has it.
func (x *explorer) generationOf(s *state, life uint8) (generation int, is bool) {
	generation = x.op(s).Generation - int(s.Life) + int(life)
	return generation, generation >= 0
}

// reconcile emits the events and looks that settle an operation. An event may come at any time after the effect. A look
// takes a while, and sees the objects that are there when the look begins.
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
		seen := s.Effects[s.Life] > 0
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
	for _, resolution := range [...]journal.Resolution{journal.Withdraw, journal.Reinstate} {
		n, ok := x.spend(s, operators)
		if !ok {
			return
		}
		out, ok := x.ask(&n, asked{kind: machine.EventResolve, resolution: resolution, claim: op.Claim, generation: op.Generation, due: never})
		if ok && out.err == nil && out.decision == machine.Recorded {
			x.emit(&n, event{kind: resolveStep, client: -1, arg: int(resolution)}, facts{faulty: true})
		}
	}
}

// tell gives Next evidence. An absence that is wrong counts as a false decision (FalseNot).
func (x *explorer) tell(s *state, a asked, kind stepKind) {
	before := *x.op(s)
	life := s.Life
	wrong := s.Effects[life] > 0 || s.mayExecute(life)
	a.kind, a.due = machine.EventEvidence, never
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

// recorded reports whether the record accounts for the object. The object completes the operation, is evidence of its
// effect, or the operation is completed without naming an object.
func (r *record) recorded(object string) bool {
	seen := slices.ContainsFunc(r.Seen[:], func(e evidence) bool { return e.Object == object && e.Finding.TookEffect() })
	return r.Object == object || seen || r.State == journal.StateCompleted && r.Object == ""
}
