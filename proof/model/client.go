package model

import (
	"math"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// clientSteps emits the steps of client i, and the faults that may happen to the client. The functions stand for those
// of the root package of the same name.
func (x *explorer) clientSteps(s *state, i int) {
	p := x.client(s, i)
	if n, ok := x.spend(s, crashes); ok && (p.Phase != idle || x.op(s).Holder == sessions[i]) {
		x.drop(&n, i)
		x.emit(&n, event{kind: crashStep, client: i}, facts{faulty: true})
	}
	if p.Paused {
		n := *s
		p.Paused = false
		x.set(&n, i, p)
		x.emit(&n, event{kind: wakeStep, client: i}, facts{})
		return
	}
	if p.active() {
		x.disturb(s, i, p)
	}
	switch p.Phase {
	case idle:
		x.begin(s, i)
		x.claim(s, i)
	case ready:
		if p.Due == never || p.Due <= 0 || p.Gone {
			x.attempt(s, i, p)
		}
	case flying:
		if n, ok := x.spend(s, losses); ok {
			x.abandon(&n, i)
			x.judge(&n, i, noReply, false, event{kind: timeoutStep, client: i}, true)
		}
	case ending:
		x.record(s, i, p)
	case undoing:
		x.undo(s, i, p)
	case delivering:
		x.deliver(s, i, p)
	}
}

// disturb emits the faults that may happen to a run at any time.
func (x *explorer) disturb(s *state, i int, p client) {
	if n, ok := x.spend(s, pauses); ok && x.Clock {
		q := p
		q.Paused = true
		x.set(&n, i, q)
		x.emit(&n, event{kind: pauseStep, client: i}, facts{faulty: true})
	}
	if n, ok := x.spend(s, takeovers); ok && !p.Taken && (p.Phase != ready || p.Tried) {
		q := p
		q.Taken = true
		x.set(&n, i, q)
		x.emit(&n, event{kind: loseSessionStep, client: i}, facts{faulty: true})
	}
	if p.Taken && !p.Seen && p.Phase == ready {
		n := *s
		q := p
		q.Seen = true
		x.set(&n, i, q)
		x.emit(&n, event{kind: seeLossStep, client: i}, facts{})
	}
	if n, ok := x.spend(s, cancels); ok && !p.Gone && p.Phase != ending {
		q := p
		q.Gone = true
		x.set(&n, i, q)
		if p.Phase == flying {
			x.abandon(&n, i)
			x.judge(&n, i, noReply, false, event{kind: cancelStep, client: i}, true)
			return
		}
		x.emit(&n, event{kind: cancelStep, client: i}, facts{faulty: true})
	}
}

// abandon leaves a client's request to itself.
func (x *explorer) abandon(s *state, i int) {
	for j, m := range s.Net {
		switch {
		case m.owner() != uint8(i+1):
		case x.Provider.Remembers == providers.SuccessesLostAnswers && m.where() == undelivered:
			s.Net[j] = 0 // it arrives while its client waits, or never
		default:
			s.Net[j] = m.orphan()
		}
	}
}

const request, otherRequest = "the request", "another request"

// begin: a caller asks for the operation.
func (x *explorer) begin(s *state, i int) {
	if s.Left[asks] == 0 || x.Naming == journal.Generated && s.Begun {
		return
	}
	terms, forms := x.today(s), x.forms()
	requests := []string{request, otherRequest}
	if !x.Others {
		requests = requests[:1]
	}
	for v := range len(terms) * len(forms) {
		t, say, form := v/len(forms), terms[v/len(forms)], forms[v%len(forms)]
		for r, req := range requests {
			a := asked{kind: machine.EventBegin, session: sessions[i], request: req, terms: say, form: form, due: never, key: x.freshKey(s), nextKey: x.laterKey(), asker: 2}
			ev := event{kind: askStep, client: i, arg: r + 2*t, other: form == otherForm}
			n, _ := x.spend(s, asks)
			if out, ok := x.ask(&n, a); ok && out.decision != machine.Wait {
				x.begun(&n, i, out, true, ev, facts{})
			}
			if n, ok := x.spend(s, failures); ok {
				n.Left[asks]--
				lost := n
				x.set(&lost, i, client{Phase: undoing})
				x.emit(&lost, event{kind: failBeginStep, client: i, arg: ev.arg}, facts{faulty: true})
				a.asker = 1
				before := n.Op
				if out, ok := x.ask(&n, a); ok && out.op != before {
					after := &x.records.values[out.op]
					x.set(&n, i, client{Phase: undoing, Landed: out.decision == machine.Execute, Claim: after.Claim})
					x.emit(&n, event{kind: uncertainBeginStep, client: i, arg: ev.arg, decision: out.decision}, facts{faulty: true})
				}
			}
		}
	}
}

// enqueue: a caller commits the operation with its own writes, and waits for nothing.
func (x *explorer) enqueue(s *state) {
	if !x.Enqueues {
		return
	}
	requests := []string{request, otherRequest}
	if !x.Others {
		requests = requests[:1]
	}
	for r, req := range requests {
		n, ok := x.spend(s, asks)
		if !ok {
			return
		}
		a := asked{kind: machine.EventEnqueue, request: req, terms: x.today(s)[0], form: oneForm, due: never, by: stepMillis / 2, key: x.freshKey(s), nextKey: x.laterKey()}
		if out, ok := x.ask(&n, a); ok && out.op != s.Op {
			n.Told = false
			x.emit(&n, event{kind: enqueueStep, client: -1, arg: r, decision: out.decision}, facts{})
		}
	}
}

// claim: Resume or Run looks at the operation.
func (x *explorer) claim(s *state, i int) {
	op := x.op(s)
	wanted := op.State == journal.StatePending && (op.Wake == never || op.Wake <= 0) ||
		op.State == journal.StateInFlight && !x.live(s, op.Holder) ||
		op.State > journal.StateInFlight && !op.Delivered && !x.live(s, op.Holder)
	if !wanted {
		return
	}
	for _, form := range x.forms() {
		n := *s
		terms := x.today(s)[0]
		if !x.Corrected && !x.Forms {
			terms, form = journal.Terms{}, ""
		}
		out, ok := x.ask(&n, asked{kind: machine.EventClaim, session: sessions[i], terms: terms, form: form, due: never})
		if ok && (out.op != s.Op || out.decision == machine.Execute) {
			x.begun(&n, i, out, false, event{kind: claimStep, client: i, other: form == otherForm}, facts{})
		}
	}
}

// begun goes on from the journal's decision on a Begin or Claim.
func (x *explorer) begun(s *state, i int, out outcome, asker bool, ev event, f facts) {
	ev.decision = out.decision
	op := x.op(s)
	if asker {
		s.Told = false
	}
	p := client{}
	switch out.decision {
	case machine.Execute:
		f.executed = true
		p = client{Phase: ready, Asked: asker, Claim: op.Claim, Due: never, EndDue: never, Held: held{
			Generation: op.Generation, Life: s.Life, Key: op.Key, Form: op.Form, Terms: op.Terms,
			Found: op.Found, MayHaveRun: op.FoundRun, Failed: op.FoundFailed, At: never,
			First: op.First, Ended: op.Ended, Closed: op.WindowClosed, Last: max(s.Last, 0),
		}}
		if x.Budget.ClockSteps > 0 {
			p.Held.Fresh, p.Held.Jumped, p.Held.At = op.FoundFirst == never, s.Jumped, 0
		}
	case machine.Replay:
		f.serve(s, op)
		p = x.toDeliver(op)
	case machine.Later:
		s.Told = asker
	case machine.Stop, machine.Weighed:
		s.Told = asker
		p = x.toDeliver(op)
	default:
		if !asker || out.decision == machine.Recorded {
			p = x.toDeliver(op)
		}
	}
	x.set(s, i, p)
	x.emit(s, ev, f)
}

// toDeliver returns the client that has to deliver an outcome, or the idle one if there is none to deliver.
func (x *explorer) toDeliver(op *record) client {
	if !x.Outcomes || op.Delivered || op.State <= journal.StateInFlight {
		return client{}
	}
	return client{Phase: delivering, Outcome: op.State, Generation: op.Generation}
}

// serve gives a caller the recorded answer, if there is one that can be given.
func (f *facts) serve(s *state, op *record) bool {
	if op.Answer == noAnswer || op.Answer == byHand || op.Answer == shownAnswer {
		return false
	}
	f.serveOwn(s, s.lifeOf(op.Answered, op), op.Answer)
	return true
}

func (f *facts) serveOwn(s *state, life uint8, a answer) {
	f.served = a
	f.differs = s.Served[life] != noAnswer && s.Served[life] != a
	s.Served[life] = a
}

// attempt is one try, if it may be made.
func (x *explorer) attempt(s *state, i int, p client) {
	end := func(q client, why stepKind, faulty bool) {
		n := *s
		q.Phase = ending
		x.set(&n, i, q)
		x.emit(&n, event{kind: why, client: i}, facts{faulty: faulty})
	}
	local := p
	local.End, local.EndDue, local.Quit = x.givesUp(p), 0, true
	switch op := x.op(s); {
	case p.Gone:
		end(local, interruptedStep, false)
		return
	case p.Expired:
		end(local, outOfTimeStep, false)
		return
	case p.Seen && !x.rules.Blind,
		p.Tried && !x.rules.Deaf && (op.State != journal.StateInFlight || op.Claim != p.Claim):
		local.End, local.EndDue = machine.EventPark, never
		end(local, lostClaimStep, false)
		return
	case !x.rules.Rash:
		permission := x.rules.MaySend(x.question(&p, 0))
		switch permission.Answer {
		case machine.Never:
			local.End, local.EndDue = machine.EventMarkUnknown, never
		case machine.NotBefore:
			local.End, local.EndDue = machine.EventPark, stampOf(permission.At)
		}
		if permission.Answer != machine.SendNow {
			end(local, tooLateStep, false)
			return
		}
	}
	if n, ok := x.spend(s, locals); ok {
		q := local
		q.Phase = ending
		x.set(&n, i, q)
		x.emit(&n, event{kind: refusedLocallyStep, client: i}, facts{faulty: true})

		n, _ = x.spend(s, locals)
		p.Tried = true
		x.set(&n, i, p)
		x.judge(&n, i, notSent, false, event{kind: notSentStep, client: i}, true)
	}

	n := *s
	k := x.wireKey(p.Held.Key, p.Held.Form)
	m := newMessage(uint8(i+1), p.Held.Life, k, n.First[k] != noSend && n.First[k] >= 2)
	f := facts{sent: true, seen: p.Seen, unsafe: !x.safe(s, p)}
	if !n.addMessage(m, x.Messages) {
		return
	}
	if n.First[k] == noSend {
		n.First[k] = 0
	}
	p.Phase, p.Tried, p.Due = flying, true, never
	x.set(&n, i, p)
	x.emit(&n, event{kind: sendStep, client: i, arg: int(k)}, f)
}

// judge decides the run's next step after an answer, or without one.
func (x *explorer) judge(s *state, i int, v verdict, cut bool, ev event, faulty bool) {
	p := x.client(s, i)
	ev.says, ev.cut = v, cut
	before := p.Held.MayHaveRun || p.Open
	if v != notSent {
		p.Sent = true
		if !p.Held.Terms.Guard { // else the rule does not need it
			p.Held.Ended = max(stamp(p.Held.Last)*stepMillis, 0)
		}
	}
	end := func(kind machine.EventKind, due stamp) {
		n, q := *s, p
		q.Phase, q.End, q.EndDue = ending, kind, due
		x.set(&n, i, q)
		x.emit(&n, ev, facts{faulty: faulty})
	}
	if !before && (v == saysReplayed || v == saysInFlight || v == saysDone) {
		p.Open = true
	}
	switch v {
	case saysSuccess, saysReplayed, saysRefused, saysDone:
		p.Answer = success
		if v == saysRefused {
			p.Answer = refusal
		}
		if cut {
			p.Open = true
			x.again(s, i, p, false, cut, ev, faulty)
			return
		}
		end(machine.EventComplete, never)
	case saysRejected:
		end(machine.EventCancel, stampOf(now.Add(pause)))
	case saysNotExecuted:
		x.again(s, i, p, false, false, ev, faulty)
	case saysInFlight:
		p.Open = true
		x.again(s, i, p, true, false, ev, faulty)
	case saysFrozen:
		end(machine.EventMarkUnknown, never)
	case notSent:
		x.again(s, i, p, false, false, ev, faulty)
	default: // saysFailed, noReply
		p.Open = true
		p.Failed = p.Failed || v == saysFailed && x.Provider.Remembers == providers.SuccessesLostAnswers
		x.again(s, i, p, false, false, ev, faulty)
	}
}

// again decides on another attempt: at once, or after a rest that is too long for the call.
func (x *explorer) again(s *state, i int, p client, busy, cut bool, ev event, faulty bool) {
	answer := p.Answer
	p.Answer = noAnswer
	become := func(q client) {
		n := *s
		x.set(&n, i, q)
		x.emit(&n, ev, facts{faulty: faulty})
	}
	q := p
	q.Phase = ending
	if p.Gone {
		q.End, q.EndDue, q.Quit = x.givesUp(p), 0, true
		become(q)
		return
	}
	for _, delay := range [...]stamp{0, stampOf(now.Add(pause)), stampOf(now.Add(step))} {
		if delay == stepMillis && !x.Patient {
			continue
		}
		at := delay
		permission := x.rules.MaySend(x.question(&p, at))
		switch permission.Answer {
		case machine.Never:
			q := q
			if q.End, q.EndDue = machine.EventMarkUnknown, never; cut {
				q.End, q.Answer = machine.EventComplete, answer
				if answer == success {
					q.Answer = cutSuccess
				}
			}
			become(q)
			continue
		case machine.NotBefore:
			at = max(at, stampOf(permission.At))
		}
		if at == 0 || x.Patient {
			q := p
			q.Phase, q.Due = ready, at
			become(q)
		}
		q := q
		q.End, q.EndDue, q.Busy = machine.EventPark, at, busy
		become(q)
	}
}

func (x *explorer) question(p *client, at stamp) machine.Question {
	op := journal.Operation{
		Naming: x.Naming, Key: p.Held.Key, Terms: p.Held.Terms, Found: journal.Found{MayHaveRun: p.Held.MayHaveRun, Failed: p.Held.Failed},
		FirstSentAt: p.Held.First.time(), LastEndedAt: p.Held.Ended.time(), WindowClosed: p.Held.Closed, UpdatedAt: p.Held.At.time(),
	}
	if !p.Held.Fresh {
		op.Found.FirstSentAt = op.FirstSentAt
	}
	progress := machine.Progress{
		Open: p.Open, Failed: p.Failed, Idempotent: p.Asked && x.PUT,
		Now: now, Last: (stamp(max(p.Held.Last, 0)) * stepMillis).time(), Held: now.Sub(op.UpdatedAt), Idle: math.MaxInt64,
	}
	if p.Held.Jumped {
		progress.Unconfirmed = at.time().Add(machine.Confirmation)
	}
	return progress.Question(&op, at.time())
}

// givesUp is how a run ends that can't go on, through no fault of the operation's.
func (x *explorer) givesUp(p client) machine.EventKind {
	switch {
	case !p.Asked && !x.rules.Stopped, p.Held.Found == journal.StatePending && !x.rules.Selfish && p.Asked:
		return machine.EventPark
	}
	return machine.EventCancel
}

func (x *explorer) idempotent(p *client) bool {
	return p.Asked && x.Naming == journal.Generated && p.Held.Key == "" && x.PUT
}

// record writes a run's end to the journal.
func (x *explorer) record(s *state, i int, p client) {
	n := *s
	before := *x.op(&n)
	out, ok := x.ask(&n, asked{
		kind: p.End, session: sessions[i], claim: p.Claim, generation: p.Held.Generation, answer: p.Answer,
		due: p.EndDue, object: x.shownObject(&p), open: p.Open, unsent: !p.Sent, failed: p.Failed, busy: p.Busy, told: p.Asked,
	})
	if !ok {
		return
	}
	op := x.op(&n)
	f := facts{dropped: p.Quit && out.decision == machine.Recorded && p.Held.Found == journal.StatePending && x.Naming == journal.Named && op.State == journal.StateCancelled}
	if out.decision == machine.Recorded && p.End != machine.EventComplete {
		f.released = true
		f.rightful = before.State == journal.StateInFlight && before.Holder == sessions[i] && before.Claim == p.Claim
	}
	if p.Asked && !p.Failing {
		switch {
		case out.decision == machine.Recorded && op.State == journal.StateCompleted:
			f.serveOwn(&n, p.Held.Life, p.Answer)
		case out.decision != machine.Recorded && op.State == journal.StateCompleted && f.serve(&n, op):
		case out.decision == machine.Recorded:
			n.Told = true // else it learns that another caller is at it
		}
	}
	next := client{}
	if out.err == nil && (op.State != journal.StateCompleted || op.Answer != noAnswer && op.Answer != byHand) {
		next = x.toDeliver(op)
	}
	if p.Taken || next.Phase == idle {
		x.finish(&n, i)
	} else {
		x.set(&n, i, next)
	}
	x.emit(&n, event{kind: recordStep, client: i, decision: out.decision, end: p.End, refused: out.err != nil}, f)

	if n, ok := x.spend(s, failures); ok && !p.Failing {
		f := facts{faulty: true}
		if p.Asked && p.Answer != noAnswer && (p.Answer != refusal || p.Held.Terms.Remembers == providers.Everything || !p.Held.MayHaveRun && !p.Open) {
			f.serveOwn(&n, p.Held.Life, p.Answer)
		}
		p.Failing = true
		x.set(&n, i, p)
		x.emit(&n, event{kind: failRecordStep, client: i, end: p.End}, f)
	}
}

// shownObject returns the object in a client's successful answer, in worlds with look-ups, else "".
func (x *explorer) shownObject(p *client) string {
	if !x.Finds || p.End != machine.EventComplete || p.Answer != success {
		return ""
	}
	return objectOf(p.Held.Life)
}

// undo cancels the client's intent, which may have been recorded.
func (x *explorer) undo(s *state, i int, p client) {
	n := *s
	before := *x.op(&n)
	out, ok := x.ask(&n, asked{kind: machine.EventCancel, session: sessions[i], asker: 1, due: never, unsent: true, told: true})
	if !ok {
		return
	}
	f := facts{}
	if out.decision == machine.Recorded {
		f.released = true
		f.rightful = p.Landed && before.State == journal.StateInFlight && before.Holder == sessions[i] && before.Claim == p.Claim
	}
	x.set(&n, i, client{})
	x.emit(&n, event{kind: undoStep, client: i, decision: out.decision}, f)
}

// deliver: a caller has closed the response's body, or Outcomes.Handle returned.
func (x *explorer) deliver(s *state, i int, p client) {
	n := *s
	out, ok := x.ask(&n, asked{kind: machine.EventDeliver, outcome: p.Outcome, generation: p.Generation, due: never})
	if !ok {
		return
	}
	n.Reached = n.Reached || p.Outcome == journal.StateCompleted
	x.set(&n, i, client{})
	x.emit(&n, event{kind: deliverStep, client: i, decision: out.decision}, facts{})
}
