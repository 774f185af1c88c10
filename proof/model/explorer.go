package model

import (
	"slices"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Rules are the two functions that a search asks, and the checks that the clients leave out.
type Rules struct {
	Next    func(journal.Operation, bool, machine.Event) (journal.Operation, machine.Decision, error)
	MaySend func(machine.Question) machine.Permission

	// Blind clients don't check their session before an attempt, Deaf ones don't check the claim, and Rash ones don't
	// ask the rule again at the moment of sending. For the test that the model can fail.
	Blind, Deaf, Rash bool

	// When its context ends, a Stopped client in the background cancels the operation. So does a Selfish caller of an
	// operation that was pending before. For the same test.
	Stopped, Selfish bool

	// Only is the number of the one invariant to look at; 0: all.
	Only int
}

// Real are the rules of this module's clients.
func Real() Rules { return Rules{Next: machine.Next, MaySend: machine.MaySend} }

// explorer finds a state's possible successors.
type explorer struct {
	*Config
	rules   Rules
	records interned[record]
	clients interned[client]
	answers map[asked]outcome
	emit    func(after *state, s event, f facts)
}

// facts are the facts about a step, for the invariants that speak of steps.
type facts struct {
	faulty   bool // a fault, or another step that need not happen
	sent     bool // an attempt began
	unsafe   bool // … that may take effect beside another
	seen     bool // … by a client that knows that its session is lost
	executed bool // a Begin or Claim returned Execute
	released bool // a park, doubt or cancel was recorded
	rightful bool // … of the current claim's holder
	served   answer
	differs  bool // … from the answer served for that generation before
	forgot   bool // a record was removed, or an answer
	lawful   bool // … as it may be
	told     bool // a look or an event reported an effect
	object   string
	dropped  bool // another caller's pending operation was cancelled, because this client ended
}

func newExplorer(cfg *Config, rules Rules) *explorer {
	x := &explorer{Config: cfg, rules: rules, answers: map[asked]outcome{}}
	x.records.number(cfg.recordOf(&journal.Operation{}))
	x.clients.number(client{})
	return x
}

func (x *explorer) initial() state {
	return state{First: [2]uint8{noSend, noSend}, Last: -1, Left: x.Budget.left()}
}

func (x *explorer) op(s *state) *record           { return &x.records.values[s.Op] }
func (x *explorer) client(s *state, i int) client { return x.clients.values[s.Clients[i]] }
func (x *explorer) set(s *state, i int, p client) { s.Clients[i] = x.clients.number(p) }

var sessions = [...]string{"A", "B"}

// dead is a holder that is no client: an ended session.
const dead = "dead"

func (x *explorer) live(s *state, holder string) bool {
	i := slices.Index(sessions[:], holder)
	return i >= 0 && !x.client(s, i).Taken
}

// asked is one use of Next, comparable.
type asked struct {
	op    uint32
	live  bool
	ahead int8 // of the journal's last time

	kind       machine.EventKind
	session    string
	jumped     bool // the clock is not believed yet
	asker      int64
	claim      int64
	generation int
	answer     answer
	due        stamp
	by         stamp // Enqueue: NotAfter, where it is Late
	open       bool
	unsent     bool
	failed     bool
	busy       bool
	told       bool
	outcome    journal.State
	resolution journal.Resolution
	request    string        // Begin
	terms      journal.Terms // Begin; Claim: today's
	form       string        // likewise
	key        string        // Begin: of a first generation
	nextKey    string        // Begin, Resolve
	finding    journal.Finding
	object     string // Complete, Evidence
}

type outcome struct {
	op       uint32
	decision machine.Decision
	err      error
}

func (a *asked) event(c *Config) machine.Event {
	ev := machine.Event{
		Kind: a.kind, Ref: ref, At: now, Last: now.Add(time.Duration(a.ahead) * step), Session: a.session,
		Claim: a.claim, Generation: a.generation, Outcome: a.outcome, Answer: a.answer.journal(),
		Due: a.due.time(), Open: a.open, Unsent: a.unsent, Failed: a.failed, Busy: a.busy, Told: a.told, Asker: a.asker,
		Delivered: !c.Outcomes || a.kind == machine.EventCancel && a.claim == 0,
		NamedOnly: c.NamedOnly, Resolution: a.resolution, Keep: retention,
		SetBack: a.kind == machine.EventClock,
	}
	ev.Object = a.object
	if c.Finds {
		ev.Account = account
	}
	if a.finding > 0 {
		ev.Evidence = &journal.Evidence{Finding: a.finding, Basis: journal.BasisReference, Source: journal.SourceLook}
		if a.finding == journal.FindingAbsent { // the program's own look-up says so
			ev.Evidence.Source = journal.SourceHook
		}
		ev.Absence = &machine.Absence{Began: now, Handling: handling}
	}
	if a.jumped {
		ev.Unconfirmed = now.Add(machine.Confirmation)
	}
	switch a.kind {
	case machine.EventClaim:
		if c.Corrected || c.Forms {
			ev.Today = func(*journal.Operation) (machine.Today, bool) {
				return machine.Today{Terms: a.terms, Form: a.form}, true
			}
		}
	case machine.EventBegin, machine.EventEnqueue:
		ev.Intent = &machine.Intent{Naming: c.Naming, Fingerprint: a.request, Terms: a.terms, Form: a.form, Key: a.key, KeyCarried: c.Naming == journal.Carried}
		if a.nextKey != "" {
			ev.Intent.NextKey = func(int) string { return a.nextKey }
		}
		if c.Late && a.kind == machine.EventEnqueue {
			ev.Intent.NotAfter = a.by.time()
		}
	case machine.EventResolve:
		ev.Key = a.nextKey
	case machine.EventLook:
		ev.Asked, ev.Due = true, now
	}
	return ev
}

// ask puts an event to Next. The same question gets the same answer, so that Next is asked once. It reports whether
// the result is within the model's bounds.
func (x *explorer) ask(s *state, a asked) (outcome, bool) {
	a.op, a.live, a.ahead, a.jumped = s.Op, x.live(s, x.op(s).Holder), max(s.Last, 0), s.Jumped
	out, known := x.answers[a]
	if !known {
		ev := a.event(x.Config)
		op, decision, err := x.rules.Next(x.op(s).operation(), a.live, ev)
		out = outcome{x.records.number(x.recordOf(&op)), decision, err}
		x.answers[a] = out
	}
	before, after := x.op(s), &x.records.values[out.op]
	if after.Crowded {
		return out, false
	}
	s.Op, s.Last = out.op, max(s.Last, 0)
	if after.State != journal.StateAbsent && (before.State == journal.StateAbsent && s.Begun || before.State != journal.StateAbsent && after.Generation > before.Generation) {
		if s.Life == 1 {
			return out, false
		}
		s.Life, s.Reached, s.Doubted = 1, false, false
		if k := keyNumber(after.Key); before.State == journal.StateAbsent && s.Keys[k].Status == unseen {
			s.First[k] = noSend // the provider knows nothing of it any more
		}
	}
	switch {
	case a.kind == machine.EventResolve || a.kind == machine.EventAdopt || after.State.Settled():
		s.Doubted = false
	case after.State == journal.StateUnknown:
		s.Doubted = true
	}
	s.Begun = s.Begun || after.State != journal.StateAbsent
	if after.State == journal.StateCompleted && !after.Tombstone && before.State != journal.StateCompleted {
		s.Named = true
		s.Reached = false
	}
	return out, true
}

// lifeOf returns the life of a generation of the present record.
func (s *state) lifeOf(generation int, op *record) uint8 {
	if generation < op.Generation {
		return s.Life - 1
	}
	return s.Life
}

func keyNumber(key string) uint8 {
	if key == secondKey {
		return 1
	}
	return 0
}

const firstKey, secondKey = "key 0", "key 1"

const oneForm, otherForm = "one header", "another header"

// wireKey returns the number of the key as the provider takes it. A key in another form is another key.
func (c *Config) wireKey(key, form string) uint8 {
	if c.Forms {
		if form == otherForm {
			return 1
		}
		return 0
	}
	return keyNumber(key)
}

// forms returns the forms of the key in the clients' releases.
func (c *Config) forms() []string {
	if c.Forms {
		return []string{oneForm, otherForm}
	}
	return []string{oneForm}
}

// today returns the provider's terms in the latest releases of the clients.
func (x *explorer) today(s *state) []journal.Terms {
	switch {
	case x.Corrected && s.Deployed:
		return x.Terms[1:]
	case x.Corrected || !s.Begun:
		return x.Terms[:1]
	}
	return x.Terms
}

// freshKey returns the key of an operation that the journal does not have.
func (x *explorer) freshKey(s *state) string {
	switch {
	case x.Keyless:
		return ""
	case x.Naming == journal.Named && s.Begun:
		return secondKey
	}
	return firstKey
}

func (x *explorer) laterKey() string {
	if x.Keyless || x.Naming != journal.Named {
		return ""
	}
	return secondKey
}

// withHolder returns the record with another holder.
func (x *explorer) withHolder(op uint32, holder string) uint32 {
	r := x.records.values[op]
	r.Holder = holder
	return x.records.number(r)
}

// drop ends a client's session and its run. A dead session then holds the operation.
func (x *explorer) drop(s *state, i int) {
	s.Clients[i] = 0
	for j, m := range s.Net {
		if m.owner() == uint8(i+1) {
			s.Net[j] = m.orphan()
		}
	}
	if x.op(s).Holder == sessions[i] {
		s.Op = x.withHolder(s.Op, dead)
	}
}

// finish ends a client's run. A lost session is replaced at the client's next step.
func (x *explorer) finish(s *state, i int) {
	if x.client(s, i).Taken {
		x.drop(s, i)
		return
	}
	s.Clients[i] = 0
}

// successors emits every step that may come next.
func (x *explorer) successors(s *state) {
	for i := range x.Clients {
		x.clientSteps(s, i)
	}
	x.enqueue(s)
	x.network(s)
	x.operator(s)
	x.reconcile(s)
	x.journal(s)
	x.clock(s)
}

func (x *explorer) spend(s *state, what int) (state, bool) {
	n := *s
	if n.Left[what] == 0 {
		return n, false
	}
	n.Left[what]--
	return n, true
}

// canonical makes two states equal if they differ in names only. It reports whether the clients changed places.
func (x *explorer) canonical(s *state) (swapped bool) {
	for i, m := range s.Net {
		if m != 0 && m.owner() == 0 && m.where() == answered {
			s.Net[i] = 0
		}
	}
	x.renameClaims(s)
	if x.Config.Clients == 2 && (s.Clients[0] > s.Clients[1] || s.Clients[0] == s.Clients[1] && x.op(s).Holder == sessions[1]) {
		swapped = true
		s.Clients[0], s.Clients[1] = s.Clients[1], s.Clients[0]
		switch x.op(s).Holder {
		case sessions[0]:
			s.Op = x.withHolder(s.Op, sessions[1])
		case sessions[1]:
			s.Op = x.withHolder(s.Op, sessions[0])
		}
		for i, m := range s.Net {
			if o := m.owner(); o != 0 {
				s.Net[i] = m.orphan() | message(3-o)<<1
			}
		}
	}
	if s.Net[0] < s.Net[1] {
		s.Net[0], s.Net[1] = s.Net[1], s.Net[0]
	}
	if s.Net[1] < s.Net[2] {
		s.Net[1], s.Net[2] = s.Net[2], s.Net[1]
	}
	if s.Net[0] < s.Net[1] {
		s.Net[0], s.Net[1] = s.Net[1], s.Net[0]
	}
	return swapped
}

func (x *explorer) renameClaims(s *state) {
	op, a, b, seen := x.op(s).Claim, x.clients.values[s.Clients[0]].Claim, x.clients.values[s.Clients[1]].Claim, int64(s.Looked.Claim)
	rank := func(c int64) int64 {
		if c == 0 {
			return 0
		}
		n := int64(1)
		var counted int64
		for _, o := range [...]int64{op, a, b} {
			if o > 0 && o < c && o != counted {
				n++
				counted = o
			}
		}
		if seen > 0 && seen < c && seen != op && seen != a && seen != b {
			n++
		}
		return n
	}
	s.Looked.Claim = uint8(rank(seen))
	if to := rank(op); to != op {
		r := *x.op(s)
		r.Claim = to
		s.Op = x.records.number(r)
	}
	for i, c := range [...]int64{a, b} {
		if to := rank(c); to != c {
			p := x.client(s, i)
			p.Claim = to
			x.set(s, i, p)
		}
	}
}
