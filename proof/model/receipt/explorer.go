package receipt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/journal"
)

// Rules are the functions that a search asks, and the checks that the service leaves out.
type Rules struct {
	NextReceipt func(journal.Receipt, machine.ReceiptEvent) (machine.ReceiptResult, error)
	Kept        func(status int, outcome bool) bool

	// An Unlocked database has transactions that don't exclude each other. A Late service records the answer, and
	// reserves nothing before. A Trustful one records it without a look whether the transaction is still open. A Hasty
	// one answers before the commit. A Hopeful one believes that a failed commit did not land. A Forgetful one does not
	// compare a request with the request that the process is serving. For the test that the model can fail.
	Unlocked, Late, Trustful, Hasty, Hopeful, Forgetful bool

	// Only is the number of the one invariant to look at; 0: all.
	Only int
}

// Real are the rules that package server goes by.
func Real() Rules { return Rules{NextReceipt: machine.NextReceipt, Kept: receipts.Kept} }

// Result is a search's result.
type Result struct {
	States, Transitions int
	Depth               int
	Decisions           map[string]bool // of NextReceipt in each state, as "reserve of completed: replay"
	Violation           *Violation      // nil: every invariant holds in every state
}

// Violation is a broken invariant, and a shortest history that breaks the invariant.
type Violation struct {
	Invariant *Invariant
	History   []string
}

// ErrTooLarge means that a search met the limit, so the result is not exhaustive.
var ErrTooLarge = errors.New("receipt: the search met its limit of states")

// explorer finds a state's possible successors.
type explorer struct {
	*Config
	rules   Rules
	numbers map[record]uint16
	records []record
	answers map[asked]outcome
	unsound bool // a receipt that NextReceipt has returned
	emit    func(after state, s step, f facts)
}

func (x *explorer) number(r record) uint16 {
	n, known := x.numbers[r]
	if !known {
		n = uint16(len(x.records))
		x.numbers[r] = n
		x.records = append(x.records, r)
	}
	return n
}

func (x *explorer) rec(n uint16) *record { return &x.records[n] }

// Explore searches every possible history of a world, breadth first, and stops at the first invariant that is broken.
// Without one, and without an error, the search was exhaustive. The error is ErrTooLarge if there are more states than
// limit.
func Explore(cfg *Config, rules Rules, limit int) (Result, error) {
	x := &explorer{Config: cfg, rules: rules, numbers: map[record]uint16{}, answers: map[asked]outcome{}}
	x.number(record{})
	var (
		res     Result
		numbers = map[state]uint32{{}: 0}
		states  = []state{{}}
		way     = trail{steps: []step{{}}, parents: []uint32{0}, swapped: []bool{false}}
		fair    [][]uint32
		current uint32
		bad     *Invariant
	)
	x.emit = func(s state, what step, f facts) {
		if bad != nil {
			return
		}
		res.Transitions++
		c := change{x, &states[current], &s, f}
		for i := range Invariants {
			if in := &Invariants[i]; in.holds != nil && (rules.Only == 0 || rules.Only == in.Number) && !in.holds(&c) {
				bad = in
				res.Violation = &Violation{in, way.history(current, what)}
				return
			}
		}
		swapped := x.canonical(&s)
		n, known := numbers[s]
		if !known {
			n = uint32(len(states))
			numbers[s] = n
			states = append(states, s)
			way.add(what, current, swapped)
		}
		if !f.faulty {
			fair[current] = append(fair[current], n)
		}
	}
	for level := uint32(1); int(current) < len(states) && bad == nil; current++ {
		if current == level {
			res.Depth++
			level = uint32(len(states))
		}
		fair = append(fair, nil)
		x.successors(states[current])
		if len(states) > limit {
			return res, fmt.Errorf("%w: more than %d", ErrTooLarge, limit)
		}
	}
	res.States, res.Decisions = len(states), x.decisions()
	if bad != nil {
		return res, nil
	}
	if stuck, is := x.stuck(states, fair); is {
		for i := range Invariants {
			if in := &Invariants[i]; in.holds == nil {
				res.Violation = &Violation{in, way.history(stuck)}
			}
		}
	}
	return res, nil
}

var kinds = [...]string{
	machine.ReceiptReserve: "reserve", machine.ReceiptComplete: "complete", machine.ReceiptRecord: "record", machine.ReceiptResolve: "resolve", machine.ReceiptReap: "reap",
}

// decisions are the decisions that NextReceipt was seen to make.
func (x *explorer) decisions() map[string]bool {
	seen := map[string]bool{}
	for a, out := range x.answers {
		if out.err == nil {
			seen[fmt.Sprintf("%s of %s: %s", kinds[a.kind], x.rec(a.rec).State, out.decision)] = true
		}
	}
	return seen
}

// stuck returns the first state without a path to the end that has no faults. At the end both callers are answered, and
// nothing is under way.
func (x *explorer) stuck(states []state, fair [][]uint32) (uint32, bool) {
	back := make([][]uint32, len(states))
	var next []uint32
	ends := make([]bool, len(states))
	for n := range states {
		for _, to := range fair[n] {
			back[to] = append(back[to], uint32(n))
		}
		s := &states[n]
		if s.quiet() && s.Callers[0].Heard != nothing && s.Callers[1].Heard != nothing {
			ends[n] = true
			next = append(next, uint32(n))
		}
	}
	for ; len(next) > 0; next = next[1:] {
		for _, from := range back[next[0]] {
			if !ends[from] {
				ends[from] = true
				next = append(next, from)
			}
		}
	}
	for n := range ends {
		if !ends[n] {
			return uint32(n), true
		}
	}
	return 0, false
}

// canonical makes two states equal if they differ in names only: of the processes, and of the answers. It reports whether
// the processes changed places.
func (x *explorer) canonical(s *state) (swapped bool) {
	if swapped = s.order(0) < s.order(1); swapped {
		for _, clock := range []*uint8{&s.Ahead, &s.Behind} {
			if *clock != 0 {
				*clock = 3 - *clock
			}
		}
		s.Runs[0], s.Runs[1] = s.Runs[1], s.Runs[0]
		s.Txs[0], s.Txs[1] = s.Txs[1], s.Txs[0]
		for c := range s.Callers {
			if waits := &s.Callers[c].Waits; *waits != 0 {
				*waits = 3 - *waits
			}
		}
	}
	var names [16]uint8
	var used uint8
	name := func(answer *uint8) {
		if *answer == 0 {
			return
		}
		if names[*answer] == 0 {
			used++
			names[*answer] = used
		}
		*answer = names[*answer]
	}
	receipt := func(n *uint16) {
		if r := x.records[*n]; r.HasAnswer {
			name(&r.Answer)
			*n = x.number(r)
		}
	}
	name(&s.Answer)
	receipt(&s.Rec)
	for i := range s.Runs {
		name(&s.Runs[i].Answer)
		receipt(&s.Runs[i].Rec)
	}
	for i := range s.Txs {
		name(&s.Txs[i].Answer)
		receipt(&s.Txs[i].Rec)
	}
	x.renameClaims(s)
	return swapped
}

// renameClaims renames claims in their order: NextReceipt only compares them, and counts on.
func (x *explorer) renameClaims(s *state) {
	buffer := [...]int64{0, x.records[s.Rec].Claim, s.Seen[0].Claim, s.Seen[1].Claim, x.records[s.Txs[0].Rec].Claim, x.records[s.Txs[1].Rec].Claim,
		x.records[s.Txs[2].Rec].Claim, x.records[s.Runs[0].Rec].Claim, x.records[s.Runs[1].Rec].Claim}
	if slices.Max(buffer[:]) <= 1 {
		return
	}
	all := buffer[:]
	slices.Sort(all)
	all = slices.Compact(all)
	rename := func(claim int64) int64 { return int64(slices.Index(all, claim)) }
	receipt := func(n *uint16) {
		r := x.records[*n]
		if to := rename(r.Claim); to != r.Claim {
			r.Claim = to
			*n = x.number(r)
		}
	}
	receipt(&s.Rec)
	for i := range s.Txs {
		receipt(&s.Txs[i].Rec)
	}
	for i := range s.Runs {
		receipt(&s.Runs[i].Rec)
	}
	for i := range s.Seen {
		s.Seen[i].Claim = rename(s.Seen[i].Claim)
	}
}

// order returns a number that sorts the processes.
func (s *state) order(p int) uint64 {
	r := &s.Runs[p]
	n := uint64(r.Phase)<<40 | uint64(r.Owner)<<32 | uint64(r.Request)<<24 | uint64(r.Status)<<8
	switch uint8(p + 1) {
	case s.Ahead:
		n |= 1
	case s.Behind:
		n |= 2
	}
	return n
}

// quiet reports whether no process and no transaction is at work.
func (s *state) quiet() bool {
	return s.Runs[0].Phase == idle && s.Runs[1].Phase == idle && s.Txs == [3]tx{}
}

// at returns the time by a process's clock.
func (s *state) at(process int) (at int8, leapt bool) {
	switch of := uint8(process + 1); {
	case of > 0 && of == s.Ahead:
		return 3, true
	case of > 0 && of == s.Behind:
		return -1, false
	}
	return 0, false
}

// over reports whether the key's life has ended by the true time, so that a request begins another one.
func (s *state) over() bool { return s.Started && s.Age == 2 }

// hasBegun reports whether the life has an effect or an answer.
func (s *state) hasBegun() bool { return s.Rows > 0 || s.Answer != 0 }

// ask puts an event to NextReceipt, which is asked the same question once.
func (x *explorer) ask(s *state, process int, rec uint16, a asked) outcome {
	a.rec = rec
	a.at, a.leapt = s.at(process)
	out, known := x.answers[a]
	if !known {
		result, err := x.rules.NextReceipt(x.rec(rec).receipt(), a.event())
		out = outcome{rec: x.number(recordOf(&result.Receipt)), decision: result.Decision, err: err}
		out.unsound = result.Receipt.State != journal.ReceiptAbsent && len(machine.ReceiptViolations(result.Receipt)) > 0
		x.answers[a] = out
	}
	x.unsound = x.unsound || out.unsound
	return out
}

// request returns a caller's request.
func (x *explorer) request(c int) uint8 {
	if x.Others {
		return uint8(c)
	}
	return 0
}

// successors emits every step that may come next.
func (x *explorer) successors(s state) {
	for p := range s.Runs {
		for c := range s.Callers {
			x.asks(s, p, c)
		}
		x.serves(s, p)
		x.dies(s, p)
	}
	x.orphan(s)
	x.operators(s)
	x.time(s)
}

// fresh returns the smallest number of an answer that is free.
func (s *state) fresh() uint8 {
	for n := uint8(1); ; n++ {
		used := s.Answer == n
		for i := range s.Runs {
			used = used || s.Runs[i].Phase != idle && s.Runs[i].Answer == n
		}
		for i := range s.Txs {
			used = used || s.Txs[i].Answer == n
		}
		if !used {
			return n
		}
	}
}

// asks has a caller ask a process. The process looks at the receipt and at its own requests in one step. A pause between
// the two is like a pause of the handler.
func (x *explorer) asks(s state, p, c int) {
	if s.Callers[c].Waits != 0 {
		n := s
		n.Runs[s.Callers[c].Waits-1].Owner, n.Callers[c].Waits = 0, 0
		if int(s.Callers[c].Waits) == p+1 {
			x.emit(n, step{what: hangsUp, of: int8(c)}, facts{faulty: true})
		}
		return
	}
	did := step{what: asks, of: int8(c), at: int8(p)}
	out := x.ask(&s, p, s.Rec, asked{kind: machine.ReceiptReserve, request: x.request(c)})
	did.says = out.decision
	if out.decision != machine.Execute {
		x.hears(s, c, s.Rec, out.decision, did)
		return
	}
	r := &s.Runs[p]
	switch {
	case r.Phase != idle && r.Request != x.request(c) && !x.rules.Forgetful:
		did.says = machine.Misuse
		s.Callers[c].Heard = misuse
		x.emit(s, did, facts{heard: misuse, by: c, differs: true})
	case r.Phase != idle: // in flight: it asks again
	default:
		*r = run{Phase: called, Owner: uint8(c + 1), Request: x.request(c), Answer: s.fresh()}
		s.Callers[c].Waits = uint8(p + 1)
		x.emit(s, did, facts{})
	}
}

// hears answers a caller by a decision on the committed receipt.
func (x *explorer) hears(s state, c int, rec uint16, d machine.Decision, did step) {
	f := facts{by: c, differs: s.Request != x.request(c)}
	switch d {
	case machine.Replay:
		r := x.rec(rec)
		if r.HasAnswer && !final(r.Status) {
			x.emit(s, did, facts{}) // it asks again
			return
		}
		f.heard, f.answer = anAnswer, r.Answer
	case machine.Misuse:
		f.heard = misuse
	case machine.Gone:
		f.heard = gone
	case machine.Stop:
		f.heard = unknown
	default:
		return
	}
	s.Callers[c].Heard = f.heard
	x.emit(s, did, f)
}

// ends ends a process's run, and has its caller wait no more.
func (s *state) ends(p int) {
	if owner := s.Runs[p].Owner; owner != 0 {
		s.Callers[owner-1].Waits = 0
	}
	s.Runs[p], s.Txs[p] = run{}, tx{}
}

// refuses ends a run by a decision on the committed receipt.
func (x *explorer) refuses(s state, p int, d machine.Decision, did step) {
	owner := s.Runs[p].Owner
	s.ends(p)
	did.says = d
	if owner == 0 || d == machine.Wait {
		x.emit(s, did, facts{})
		return
	}
	x.hears(s, int(owner-1), s.Rec, d, did)
}

// denies ends a run whose caller hears that nothing is kept.
func (x *explorer) denies(s state, p int, did step, f facts) {
	f.denied = s.Txs[orphan].State == underway && s.Txs[orphan].Answer == s.Runs[p].Answer
	s.ends(p)
	x.emit(s, did, f)
}

// blocked reports whether another transaction keeps a process's transaction from the key. waits: the blocked one goes
// on after the other's end.
func (x *explorer) blocked(s *state, p int) (blocked, waits bool) {
	if x.rules.Unlocked {
		return false, false
	}
	for i := range s.Txs {
		if i != p && s.Txs[i].State != none {
			return true, !x.PerKey
		}
	}
	return false, false
}

// begun returns a process's transaction after NextReceipt has begun the key's life in the transaction, and whether
// NextReceipt should not have.
func (x *explorer) begun(s *state, p int, out outcome) (t tx, early bool) {
	r := &s.Runs[p]
	t = tx{State: open, Rec: out.rec, Request: r.Request, Answer: r.Answer, Life: s.over() && s.hasBegun()}
	return t, s.hasBegun() && !t.Life && x.Handler != Repeats || s.Answer != 0 && !t.Life
}

// commits commits a transaction, and reports whether another answer replaces the one that was recorded.
func (x *explorer) commits(s *state, t *tx) (replaced bool) {
	if !s.Started || t.Life {
		s.Started, s.Age = true, 0
	}
	if t.Life {
		s.Rows, s.Answer = 0, 0
		for c := range s.Callers {
			s.Callers[c].Heard = nothing
		}
	}
	if !s.hasBegun() {
		s.Request = t.Request
	}
	if t.Row {
		s.Rows = min(s.Rows+1, 3)
	}
	s.Rec = t.Rec
	if rec := x.rec(t.Rec); rec.HasAnswer {
		replaced = s.Answer != 0 && s.Answer != rec.Answer
		s.Answer = rec.Answer
	}
	return replaced
}

// serves emits the steps of a process's run.
func (x *explorer) serves(s state, p int) {
	r, n := &s.Runs[p], s
	me := int8(p)
	touched := r.Phase == reserved || r.Phase == written || r.Phase == escaped || r.Phase == broken
	switch r.Phase {
	case idle:
		return
	case called:
		switch x.Handler {
		case Writes:
			x.reserves(s, p)
		case Idle:
			x.finishes(s, p, done, false, false)
			x.finishes(s, p, invalid, false, true)
		case Repeats:
			if s.Rows > 0 && s.Request != r.Request {
				x.denies(s, p, step{what: fails, of: me}, facts{}) // its client refuses the call: another request has its name
				return
			}
			n.Rows, n.Request, n.Runs[p].Phase = 1, r.Request, written
			x.emit(n, step{what: writes, of: me}, facts{})
		}
	case reserved:
		n.Runs[p].Phase, n.Txs[p].Row = written, true
		x.emit(n, step{what: writes, of: me}, facts{})
	case written:
		x.finishes(s, p, created, x.Handler == Writes, false)
		if x.Handler == Writes {
			x.finishes(s, p, declined, true, true)
		}
	case escaped, broken:
		x.finishes(s, p, created, true, false)
	case committing:
		f := facts{replaced: x.commits(&n, &s.Txs[p])}
		n.Txs[p] = tx{}
		n.Runs[p].Phase = giving
		x.emit(n, step{what: lands, of: me}, f)
		n = s
		n.Txs[p], n.Runs[p].Phase = tx{}, settling
		x.emit(n, step{what: fallsThrough, of: me}, facts{faulty: true})
		if s.Txs[orphan].State == none {
			n = s
			n.Txs[orphan], n.Txs[p], n.Runs[p].Phase = s.Txs[p], tx{}, settling
			x.emit(n, step{what: inDoubt, of: me}, facts{faulty: true})
		}
		if x.rules.Hasty {
			x.gives(s, p, true)
		}
	case settling:
		x.settles(s, p)
	case giving:
		x.gives(s, p, true)
		x.gives(s, p, false)
	}
	if r.Phase >= called && r.Phase <= broken {
		x.finishes(s, p, failed, touched, true)
	}
	if x.Escapes && (r.Phase == reserved || r.Phase == written) {
		n = s
		f := facts{faulty: true, replaced: x.commits(&n, &s.Txs[p])}
		n.Txs[p], n.Runs[p].Phase = tx{}, escaped
		x.emit(n, step{what: commits, of: me}, f)
	}
	if x.Breaks && (r.Phase == reserved || r.Phase == written) {
		n = s
		n.Runs[p].Phase, n.Runs[p].Rec, n.Txs[p] = broken, s.Txs[p].Rec, tx{}
		x.emit(n, step{what: isRolledBack, of: me}, facts{faulty: true})
	}
}

// reserves begins the transaction for a handler that asks for one.
func (x *explorer) reserves(s state, p int) {
	did := step{what: reserves, of: int8(p)}
	if blocked, waits := x.blocked(&s, p); blocked {
		if !waits {
			x.refuses(s, p, machine.Wait, did)
		}
		return
	}
	if x.rules.Late {
		s.Txs[p] = tx{State: open, Rec: s.Rec, Request: s.Runs[p].Request, Answer: s.Runs[p].Answer}
		s.Runs[p].Phase = reserved
		x.emit(s, did, facts{})
		return
	}
	out := x.ask(&s, p, s.Rec, asked{kind: machine.ReceiptReserve, request: s.Runs[p].Request})
	if out.decision != machine.Execute {
		x.refuses(s, p, out.decision, did)
		return
	}
	var f facts
	s.Txs[p], f.early = x.begun(&s, p, out)
	s.Runs[p].Phase = reserved
	did.says = out.decision
	x.emit(s, did, f)
}

// finishes makes the handler return an answer, and records the answer if such an answer is kept.
func (x *explorer) finishes(s state, p int, status uint16, touched, faulty bool) {
	r := &s.Runs[p]
	did := step{what: finishes, of: int8(p), status: status}
	if !x.rules.Kept(int(status), touched) {
		f := facts{faulty: faulty}
		if owner := r.Owner; final(status) && owner != 0 {
			s.Callers[owner-1].Heard = anAnswer
			f.heard, f.by, f.answer = anAnswer, int(owner-1), r.Answer
		}
		x.denies(s, p, did, f)
		return
	}
	r.Status = status
	f := facts{faulty: faulty}
	switch {
	case r.Phase == broken && x.rules.Trustful:
		out := x.ask(&s, p, r.Rec, asked{kind: machine.ReceiptComplete, claim: x.rec(r.Rec).Claim, answer: r.Answer, status: status})
		if x.rec(s.Rec).State != journal.ReceiptAbsent {
			r.Phase = settling
			break
		}
		t := tx{Rec: out.rec, Request: r.Request, Answer: r.Answer} // a commit of its own
		f.replaced = x.commits(&s, &t)
		r.Phase = giving
	case r.Phase == broken, r.Phase == escaped:
		r.Phase = settling // the store looks whether the transaction is open
	case touched && !x.rules.Late:
		t := &s.Txs[p]
		out := x.ask(&s, p, t.Rec, asked{kind: machine.ReceiptComplete, claim: x.rec(t.Rec).Claim, answer: r.Answer, status: status})
		if out.decision != machine.Recorded {
			x.denies(s, p, did, f)
			return
		}
		t.Rec, t.State, r.Phase = out.rec, underway, committing
	default:
		if blocked, waits := x.blocked(&s, p); blocked {
			if !waits {
				x.refuses(s, p, machine.Wait, did)
			}
			return
		}
		out := x.ask(&s, p, s.Rec, asked{kind: machine.ReceiptRecord, request: r.Request, answer: r.Answer, status: status})
		if out.decision != machine.Recorded {
			x.refuses(s, p, out.decision, did)
			return
		}
		wrote := s.Txs[p].Row
		s.Txs[p], f.early = x.begun(&s, p, out)
		s.Txs[p].State, s.Txs[p].Row, r.Phase = underway, wrote, committing
	}
	x.emit(s, did, f)
}

// settles finds out what became of a commit that has failed, as a request would.
func (x *explorer) settles(s state, p int) {
	did := step{what: settles, of: int8(p)}
	if blocked, _ := x.blocked(&s, p); blocked && !x.rules.Hopeful {
		did.says = machine.Wait
		n := s
		n.ends(p) // after a while its caller is told to ask again
		x.emit(n, did, facts{})
		return
	}
	out := x.ask(&s, p, s.Rec, asked{kind: machine.ReceiptReserve, request: s.Runs[p].Request})
	if out.decision == machine.Execute {
		x.denies(s, p, did, facts{})
		return
	}
	x.refuses(s, p, out.decision, did)
}

// gives has the answer leave, and reach its caller or be lost.
func (x *explorer) gives(s state, p int, reaches bool) {
	r := s.Runs[p]
	did, f := step{what: loses, of: int8(p)}, facts{faulty: true}
	if reaches {
		did.what, f.faulty = gives, false
		if r.Owner != 0 && final(r.Status) {
			s.Callers[r.Owner-1].Heard = anAnswer
			f.heard, f.by, f.answer = anAnswer, int(r.Owner-1), r.Answer
		}
	}
	t := s.Txs[p]
	s.ends(p)
	if t.State != none {
		s.Txs[orphan] = t // Hasty
	}
	x.emit(s, did, f)
}

// dies ends a process at once. Its transaction is rolled back, now or when the database notices. A commit that is under
// way may land.
func (x *explorer) dies(s state, p int) {
	if s.Runs[p].Phase == idle {
		return
	}
	t := s.Txs[p]
	s.ends(p)
	if t.State != none && x.PerKey && s.Txs[orphan].State == none {
		s.Txs[orphan] = t
		x.emit(s, step{what: dies, of: int8(p)}, facts{faulty: true})
		return
	}
	x.emit(s, step{what: dies, of: int8(p)}, facts{faulty: true})
	if t.State == underway {
		f := facts{faulty: true, replaced: x.commits(&s, &t)}
		x.emit(s, step{what: diesAfterCommit, of: int8(p)}, f)
	}
}

// orphan ends the transaction that has outlived its process or connection.
func (x *explorer) orphan(s state) {
	t := s.Txs[orphan]
	if t.State == none {
		return
	}
	s.Txs[orphan] = tx{}
	x.emit(s, step{what: orphanEnds}, facts{})
	if t.State == underway {
		f := facts{replaced: x.commits(&s, &t)}
		x.emit(s, step{what: orphanLands}, f)
	}
}

// operators emits the steps of two operators, who look at a reserved receipt and at the rows, and resolve it later.
func (x *explorer) operators(s state) {
	if !x.Escapes {
		return
	}
	rec := x.rec(s.Rec)
	for i := range s.Seen {
		if i > 0 && x.Days {
			return // one operator will do
		}
		n := s
		saw := s.Seen[i]
		if saw.Claim == 0 {
			if rec.State == journal.ReceiptReserved && (i == 0 || s.Seen[0].Claim != 0) {
				n.Seen[i] = seen{Claim: rec.Claim, Row: s.Rows > 0}
				x.emit(n, step{what: operatorLooks, of: int8(i)}, facts{})
			}
			continue
		}
		if blocked, _ := x.blocked(&s, -1); blocked {
			continue
		}
		n.Seen[i] = seen{}
		ask := asked{kind: machine.ReceiptResolve, resolution: journal.NotExecuted, claim: saw.Claim, handle: row}
		if saw.Moved {
			ask.handle = anotherRow
		}
		if saw.Row {
			ask.resolution, ask.answer, ask.status = journal.Executed, s.fresh(), created
		}
		out := x.ask(&s, -1, s.Rec, ask)
		f := facts{resolved: true}
		if out.err == nil && out.decision == machine.Recorded {
			n.Rec = out.rec
			if saw.Row {
				f.replaced = s.Answer != 0
				n.Answer = ask.answer
			} else {
				for j := range n.Seen {
					n.Seen[j].Moved = n.Seen[j].Claim != 0
				}
			}
			for c := range n.Callers {
				if n.Callers[c].Heard == unknown {
					n.Callers[c].Heard = nothing // it asks again
				}
			}
		}
		x.emit(n, step{what: operatorActs, of: int8(i), says: out.decision}, f)
	}
}

// time emits the steps of the clocks and of the reaper.
func (x *explorer) time(s state) {
	if !x.Days {
		return
	}
	right := s.Ahead == 0 && s.Behind == 0
	if n := s; s.quiet() && right {
		n.Rec = x.number(x.rec(s.Rec).older())
		n.Age = min(n.Age+1, 2)
		x.emit(n, step{what: dayPasses}, facts{faulty: true})
	}
	for p := range s.Runs {
		x.reaps(s, p)
		if n := s; x.Clocks && right {
			n.Ahead = uint8(p + 1)
			x.emit(n, step{what: leaps, of: int8(p)}, facts{faulty: true})
			n = s
			n.Behind = uint8(p + 1)
			x.emit(n, step{what: fallsBehind, of: int8(p)}, facts{faulty: true})
		}
	}
	if !right {
		s.Ahead, s.Behind = 0, 0
		x.emit(s, step{what: isSetRight}, facts{})
	}
}

// reaps has a process's reaper come to the receipt. It passes over a receipt that a transaction works on.
func (x *explorer) reaps(s state, p int) {
	if s.Txs != [3]tx{} {
		return
	}
	out := x.ask(&s, p, s.Rec, asked{kind: machine.ReceiptReap})
	if out.decision != machine.Recorded {
		return
	}
	before, after := x.rec(s.Rec), x.rec(out.rec)
	f := facts{removed: before.State == journal.ReceiptReserved || s.Age < 1 || after.State == journal.ReceiptAbsent && s.Age < 2}
	s.Rec = out.rec
	if after.State == journal.ReceiptAbsent {
		for i := range s.Seen {
			s.Seen[i].Moved = s.Seen[i].Claim != 0
		}
	}
	x.emit(s, step{what: reaps, of: int8(p)}, f)
}
