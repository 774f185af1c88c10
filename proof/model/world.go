package model

import (
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// safe reports whether a request of p's can be sent without a second effect, by facts that an onlooker knows and a
// client may use.
func (x *explorer) safe(s *state, p client) bool {
	k := x.wireKey(p.Held.Key, p.Held.Form)
	if x.Naming != journal.Named && !p.Asked && s.Told {
		return false // its caller may have made another by now
	}
	under := false
	for _, m := range s.Net {
		if x.Forms && m.mayExecute() && m.key() != k {
			return false
		}
		under = under || m.mayExecute() && (m.life() == p.Held.Life || !x.Keyless && m.key() == k)
	}
	switch {
	case !under && s.Effects[p.Held.Life] == 0:
		return true
	case x.idempotent(&p):
		return true
	case x.Corrected && !s.Deployed:
		return true // nothing has come of it yet
	case x.Keyless || x.Provider.Remembers < providers.SuccessesLostAnswers || x.Provider.Unpromise:
		return false
	case x.Forms && s.Keys[1-k].Status > dated:
		return false
	case x.Provider.Remembers == providers.SuccessesLostAnswers && s.Effects[p.Held.Life] > 0 && s.Keys[k].Status <= dated:
		return false
	}
	inside := s.First[k] == noSend || s.First[k] < 2
	return inside && (x.Provider.Guard || !under)
}

// network emits the steps of the requests that are under way.
func (x *explorer) network(s *state) {
	for j, m := range s.Net {
		if m == 0 || j > 0 && m == s.Net[j-1] {
			continue
		}
		if n, ok := x.spend(s, losses); ok && m.where() != executing {
			x.lose(&n, j, m)
		}
		switch m.where() {
		case undelivered:
			x.arrive(s, j, m)
		case executing:
			x.execute(s, j, m)
		case answered:
			x.answer(s, j, m)
		}
	}
}

func (x *explorer) lose(n *state, j int, m message) {
	ev := event{kind: loseStep, client: int(m.owner()) - 1, arg: int(m.where())}
	n.Net[j] = 0
	if m.owner() == 0 {
		x.emit(n, ev, facts{faulty: true})
		return
	}
	i := int(m.owner()) - 1
	if !x.client(n, i).Paused {
		x.judge(n, i, noReply, false, ev, true)
	}
}

func (x *explorer) arrive(s *state, j int, m message) {
	k := m.key()
	n := *s
	mem := &n.Keys[k]
	if mem.Status == unseen {
		mem.Status, mem.Age = dated, 0
	}
	reply := func(v verdict, faulty bool) {
		n := n
		n.Net[j] = m.answered(v)
		x.emit(&n, event{kind: replyStep, client: int(m.owner()) - 1, says: v}, facts{faulty: faulty})
	}
	reply(saysNotExecuted, true)
	reply(saysRejected, true)
	switch mem.Status {
	case storedSuccess:
		if x.Provider.Points {
			reply(saysDone, false)
		} else {
			reply(saysReplayed, false)
		}
		return
	case storedRefusal:
		reply(saysRefused, false)
		return
	case storedFrozen:
		reply(saysFrozen, false)
		return
	}
	if x.Provider.Guard {
		for _, o := range s.Net {
			if o != 0 && o.where() == executing && o.key() == k {
				reply(saysInFlight, false)
				return
			}
		}
	}
	n.Net[j] = m.executing()
	x.emit(&n, event{kind: arriveStep, client: int(m.owner()) - 1}, facts{})
}

func (x *explorer) execute(s *state, j int, m message) {
	done := func(v verdict, effect bool, store memoryStatus, faulty bool) {
		n := *s
		if effect {
			e := &n.Effects[m.life()]
			*e = min(*e+1, 3)
			if x.PUT {
				*e = 1
			}
		}
		if mem := &n.Keys[m.key()]; store != unseen && mem.Status == dated {
			mem.Status = store
		}
		n.Net[j] = m.answered(v)
		x.emit(&n, event{kind: executeStep, client: int(m.owner()) - 1, says: v, effect: effect}, facts{faulty: faulty})
	}
	ifKept := func(by providers.Memory, status memoryStatus) memoryStatus {
		if x.Keyless || x.Provider.Remembers < by && !(x.Corrected && !s.Deployed) {
			return unseen
		}
		return status
	}
	done(saysSuccess, true, ifKept(providers.Successes, storedSuccess), false)
	done(saysRefused, false, ifKept(providers.Everything, storedRefusal), false)
	switch x.Provider.Remembers {
	case providers.Everything:
		if x.Provider.Freezes {
			done(saysFrozen, true, storedFrozen, true)
			done(saysFrozen, false, storedFrozen, true)
		}
	case providers.SuccessesCleanFailures:
		done(saysFailed, false, unseen, true)
	case providers.SuccessesLostAnswers: // kept until the answer has got there
		done(saysFailed, true, storedFrozen, true)
		done(saysFailed, false, storedFrozen, true)
	default:
		if x.Corrected && !s.Deployed {
			done(saysFrozen, true, storedFrozen, true)
			break
		}
		done(saysFailed, true, unseen, true)
		done(saysFailed, false, unseen, true)
	}
}

// answer brings a client its answer.
func (x *explorer) answer(s *state, j int, m message) {
	i := int(m.owner()) - 1
	if x.client(s, i).Paused {
		return
	}
	n := *s
	n.Net[j] = 0
	if x.Provider.Remembers == providers.SuccessesLostAnswers && m.says() == saysFailed {
		n.Keys[m.key()].Status = dated
	}
	x.judge(&n, i, m.says(), false, event{kind: hearStep, client: i}, false)
	if n, ok := x.spend(s, losses); ok {
		n.Net[j] = 0
		switch m.says() {
		case saysSuccess, saysReplayed, saysRefused, saysDone:
			x.judge(&n, i, m.says(), true, event{kind: hearStep, client: i}, true)
		}
	}
}

// operator emits a person's decisions about the operation, right or wrong.
func (x *explorer) operator(s *state) {
	switch {
	case x.Finds && x.Withdrawn:
		return // see reconcile
	case x.Budget.Looks > 0 && !x.Finds:
		x.looker(s)
		return
	}
	for _, resolution := range [...]journal.Resolution{journal.Executed, journal.NotExecuted, journal.SendAgain} {
		n, ok := x.spend(s, operators)
		if !ok {
			return
		}
		may := s.mayExecute(s.Life)
		out, ok := x.ask(&n, asked{kind: machine.EventResolve, resolution: resolution, claim: x.op(s).Claim, generation: x.op(s).Generation, due: never, nextKey: x.laterKey()})
		if !ok || out.err != nil || out.decision != machine.Recorded {
			continue
		}
		switch effects := s.Effects[s.Life]; {
		case resolution == journal.Executed:
			n.FalseDone = effects == 0
		case effects > 0 || may:
			n.FalseNot = true
		}
		n.Told = n.Told && resolution != journal.SendAgain
		x.emit(&n, event{kind: resolveStep, client: -1, arg: int(resolution)}, facts{faulty: true})
	}
}

// looker has a person look at the record and at the provider, see all the facts, and decide. Decisions come as often
// as the budget allows, whatever has happened since the look. None of them contradicts the look.
func (x *explorer) looker(s *state) {
	op := x.op(s)
	if n, ok := x.spend(s, looks); ok && op.State != journal.StateAbsent && s.Looked.Claim == 0 {
		n.Looked = look{Claim: uint8(op.Claim), Generation: uint8(op.Generation),
			Clean: s.Effects[s.Life] == 0 && !s.mayExecute(s.Life) && (op.State != journal.StateInFlight || !x.live(s, op.Holder)), Ran: s.Effects[s.Life] > 0}
		x.emit(&n, event{kind: lookStep, client: -1}, facts{faulty: true})
	}
	say := func(resolution journal.Resolution, a asked, ev event) {
		n, ok := x.spend(s, operators)
		if !ok {
			return
		}
		a.kind, a.resolution, a.due, a.nextKey = machine.EventResolve, resolution, never, x.laterKey()
		out, ok := x.ask(&n, a)
		if !ok || out.err != nil || out.decision != machine.Recorded {
			return
		}
		n.Told = n.Told && resolution != journal.SendAgain
		ev.kind, ev.client, ev.arg = resolveStep, -1, int(resolution)
		x.emit(&n, ev, facts{faulty: true})
	}
	if seen := s.Looked; seen.Claim > 0 {
		by := asked{claim: int64(seen.Claim), generation: int(seen.Generation)}
		if seen.Clean {
			say(journal.NotExecuted, by, event{})
			say(journal.SendAgain, by, event{})
		}
		if seen.Ran {
			say(journal.Executed, by, event{})
		}
	}
	if x.Holds {
		by := asked{claim: op.Claim, generation: op.Generation}
		say(journal.Hold, by, event{})
		say(journal.Reinstate, by, event{})
	}
}

// journal emits the journal's own steps: reaping, a backup and its restoring.
func (x *explorer) journal(s *state) {
	if x.Reaps {
		n := *s
		before := *x.op(s)
		out, ok := x.ask(&n, asked{kind: machine.EventReap, due: never})
		if ok && out.op != s.Op {
			f := facts{forgot: x.op(&n).place() != before.place(), lawful: before.Delivered && before.State.Settled() &&
				(!x.Outcomes || before.State != journal.StateCompleted || s.Reached)}
			if x.Naming != journal.Named && x.op(&n).State == journal.StateAbsent {
				n.Effects, n.Served, n.Named = [2]uint8{}, [2]answer{}, false // a caller that uses its key again begins another operation
			}
			x.emit(&n, event{kind: reapStep, client: -1}, f)
		}
	}
	if !x.Backups || s.Left[restores] == 0 {
		return
	}
	if s.Saved == 0 && x.op(s).State != journal.StateAbsent {
		n := *s
		n.Saved = s.Op
		x.emit(&n, event{kind: backupStep, client: -1}, facts{faulty: true})
	}
	if saved := &x.records.values[s.Saved]; s.Saved != 0 && (int(s.Life) == saved.Generation || saved.State >= journal.StateCompleted) {
		n, _ := x.spend(s, restores)
		kind := restoreStep
		for i := range x.Clients {
			if p := x.client(s, i); x.Outlived && p.Phase != idle {
				kind, p.Taken = goneBackStep, true
				x.set(&n, i, p)
				continue
			}
			x.drop(&n, i)
		}
		n.Op, n.Saved = s.Saved, 0
		if x.op(&n).Holder != "" {
			n.Op = x.withHolder(n.Op, dead)
		}
		n.Named = x.op(&n).Answer != noAnswer || x.op(&n).Tombstone
		n.Life = uint8(x.op(&n).Generation)
		if _, ok := x.ask(&n, asked{kind: machine.EventAdopt, due: never}); ok {
			x.emit(&n, event{kind: kind, client: -1}, facts{faulty: true})
		}
	}
}

// clock emits the steps in which time passes, or a clock is wrong.
func (x *explorer) clock(s *state) {
	if x.Provider.Unpromise {
		for k := range s.Keys {
			if s.Keys[k].Status > dated {
				n := *s
				n.Keys[k] = memory{}
				x.emit(&n, event{kind: forgetStep, client: -1}, facts{faulty: true})
			}
		}
	}
	if op := x.op(s); !x.Clock && op.State == journal.StatePending && op.Due > 0 {
		n, r := *s, *op
		r.Due, r.Wake = 0, 0
		n.Op = x.records.number(r)
		x.emit(&n, event{kind: restStep, client: -1}, facts{})
	}
	if x.Corrected && !s.Deployed && (x.Provider.Remembers == providers.Everything || s.Net == [3]message{}) {
		n := *s
		for k := range n.Keys {
			if mem := &n.Keys[k]; mem.Status > storedSuccess && x.Provider.Remembers < providers.Everything {
				mem.Status = dated // from now on
			}
		}
		for i := range x.Clients {
			x.drop(&n, i)
		}
		n.Deployed = true
		x.emit(&n, event{kind: deployStep, client: -1}, facts{})
	}
	if !x.Clock {
		return
	}
	if s.Jumped {
		n := *s
		n.Jumped = false
		if _, ok := x.ask(&n, asked{kind: machine.EventClock, due: never}); ok {
			x.emit(&n, event{kind: confirmStep, client: -1}, facts{})
		}
	}
	if x.mayTick(s) && s.Ahead == 0 {
		n := *s
		if x.Finds {
			n.Looked = look{} // no look takes so long
		}
		x.age(&n, 1, true)
		for k := range n.Keys {
			if mem := &n.Keys[k]; mem.Status != unseen {
				if mem.Age++; mem.Age >= past {
					*mem = memory{}
				}
			}
			if n.First[k] != noSend {
				n.First[k] = min(n.First[k]+1, past)
			}
		}
		n.Last = max(n.Last-1, -1)
		for i := range x.Clients {
			if p := x.client(&n, i); p.active() && !x.Patient {
				p.Expired = true
				x.set(&n, i, p)
			}
		}
		x.emit(&n, event{kind: tickStep, client: -1}, facts{})
	}
	x.wrong(s, aheadStep, 1)
	x.wrong(s, backStep, -1)
}

// wrong steps the clock without time passing: away from the truth at a cost, or
// right again.
func (x *explorer) wrong(s *state, kind stepKind, by int8) {
	n, ok := x.spend(s, clockSteps)
	right := s.Ahead == -by
	switch {
	case right:
		n = *s
	case !ok || s.Ahead == by || kind == backStep && s.Last < 0:
		return
	}
	n.Ahead += by
	x.age(&n, int(by), false)
	if kind == aheadStep {
		n.Last = max(n.Last-1, -1)
	} else {
		n.Last++
	}
	n.Jumped = kind == backStep && n.Last > 0 // a clock that leaps on from there was wrong
	x.emit(&n, event{kind: kind, client: -1}, facts{faulty: !right})
}

// mayTick reports whether a step of the clock can pass. No client runs for so long, with three exceptions: a paused
// client, a client that may wait so long, and a client that only has to write to a failing journal.
func (x *explorer) mayTick(s *state) bool {
	if s.Jumped || x.Corrected && !s.Deployed {
		return false
	}
	for i := range x.Clients {
		p := x.client(s, i)
		if p.active() && !p.Paused && !p.Failing && !(x.Patient && p.Phase == ready && p.Due > 0) {
			return false
		}
	}
	for _, m := range s.Net {
		switch {
		case x.Finds && !x.Straggles && m.mayExecute():
			return false
		case !m.mayExecute() || x.Keyless:
		case x.Provider.Remembers >= providers.SuccessesCleanFailures && !x.Provider.Guard:
			return false
		case m.where() == undelivered && !m.late() && s.First[m.key()] == past-1:
			return false
		}
	}
	return true
}

func (x *explorer) age(s *state, steps int, passed bool) {
	s.Op = x.records.number(x.agedRecord(*x.op(s), steps))
	if saved := &x.records.values[s.Saved]; s.Saved != 0 && (int(s.Life) == saved.Generation || saved.State >= journal.StateCompleted) {
		s.Saved = x.records.number(x.agedRecord(x.records.values[s.Saved], steps))
	}
	for i := range x.Clients {
		if s.Clients[i] != 0 {
			x.set(s, i, x.agedClient(x.client(s, i), steps, passed))
		}
	}
}
