package model

import (
	"slices"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// phase is where a client is between two of its steps.
type phase uint8

const (
	idle       phase = iota // nothing under way; also a client that has not started yet, or again
	ready                   // it has the claim, and makes an attempt next
	flying                  // an attempt is under way
	ending                  // the run's end is decided, and not yet recorded
	undoing                 // a Begin failed, and may have been recorded
	delivering              // it has an outcome for its caller or for Outcomes.Handle
)

// client is one process with its run, if there is one.
type client struct {
	Phase phase
	Asked bool // by a caller; else it is Resume's or Run's

	Claim  int64
	Held   held
	Open   bool // as in run
	Sent   bool // as in run
	Quit   bool // it ends through no fault of the operation's
	Failed bool // as in run
	Tried  bool // it has made an attempt
	Gone   bool // the run's context has ended
	Due    stamp

	Paused  bool
	Expired bool // the run's time is up
	Taken   bool // its session is lost
	Seen    bool // and it knows
	Failing bool // its end could not be recorded at first; its caller has gone on

	End    machine.EventKind // ending
	EndDue stamp
	Busy   bool
	Answer answer

	Landed bool // undoing

	Outcome    journal.State // delivering
	Generation int
}

// held is a run's knowledge of an operation, from the claim on.
type held struct {
	Generation int
	Life       uint8
	Key        string
	Form       string
	Terms      journal.Terms
	Found      journal.State // found by the claim, as the following
	MayHaveRun bool
	Failed     bool
	Fresh      bool  // nothing had been sent before
	Jumped     bool  // the clock was not believed
	At         stamp // of the claim
	First      stamp
	Ended      stamp
	Closed     bool
	Last       int8 // how far the journal's last time was ahead of the clock, in steps
}

func (p *client) active() bool {
	return p.Phase == ready || p.Phase == flying || p.Phase == ending
}

// agedClient returns p after so many steps of its clock. Its wait is timed by another clock, which only passing time
// moves.
func (c *Config) agedClient(p client, steps int, passed bool) client {
	for _, s := range []*stamp{&p.Held.First, &p.Held.Ended, &p.Held.At, &p.EndDue} {
		*s = s.aged(steps, c.oldest())
	}
	if passed {
		p.Due = p.Due.aged(steps, c.oldest())
	}
	if c.Budget.ClockSteps == 0 {
		p.Due, p.EndDue, p.Held.At = p.Due.notPast(), p.EndDue.notPast(), never
	} else {
		p.Held.Last = max(p.Held.Last-int8(steps), -past)
	}
	return p
}

// message is one request on the way or being executed, or its answer. The zero message is none.
type message uint16

type whereabouts uint8

const (
	undelivered whereabouts = iota
	executing
	answered
)

// verdict is the meaning of an answer, or of its absence.
type verdict uint8

const (
	saysSuccess verdict = iota
	saysReplayed
	saysRefused
	saysFrozen      // a stored failure that does not say whether it happened
	saysFailed      // a failure that does not say whether it happened, and is not stored
	saysNotExecuted // 429
	saysRejected    // 401
	saysInFlight    // 409
	saysDone        // an earlier attempt took effect
	noReply
	notSent
)

var verdictNames = [...]string{"201", "201, replayed", "402", "500, stored", "500", "429", "401", "409 in flight", "it exists already",
	"no answer", "not sent"}

func newMessage(owner, life, key uint8, late bool) message {
	m := message(1) | message(owner)<<1 | message(life)<<3 | message(key)<<4
	if late {
		m |= 1 << 5
	}
	return m
}

func (m message) owner() uint8       { return uint8(m >> 1 & 3) } // 0: no client waits for its answer; else the client's number plus one
func (m message) life() uint8        { return uint8(m >> 3 & 1) }
func (m message) key() uint8         { return uint8(m >> 4 & 1) }
func (m message) late() bool         { return m>>5&1 == 1 } // it was sent when the window was over
func (m message) where() whereabouts { return whereabouts(m >> 6 & 3) }
func (m message) says() verdict      { return verdict(m >> 8 & 15) }
func (m message) mayExecute() bool   { return m != 0 && m.where() != answered }

func (m message) orphan() message { return m &^ (3 << 1) }
func (m message) executing() message {
	return m&^(3<<6) | message(executing)<<6
}
func (m message) answered(v verdict) message {
	return m&^(3<<6) | message(answered)<<6 | message(v)<<8
}

// memory is the provider's memory of a key.
type memory struct {
	Status memoryStatus
	Age    uint8 // steps since it first saw the key
}

type memoryStatus uint8

const (
	unseen        memoryStatus = iota
	dated                      // seen, and nothing is stored
	storedSuccess              //
	storedRefusal
	storedFrozen
)

const noSend = 4 // of state.First: nothing was sent

// state is one world state. Indices stand for interned records and clients.
type state struct {
	Op, Saved uint32 // Saved: the backup; 0 is none
	Clients   [2]uint32
	Net       [3]message
	Keys      [2]memory
	Effects   [2]uint8 // of each life
	Life      uint8    // a generation, or the name's next use after its record was removed
	First     [2]uint8 // true age of each key's first send, in steps
	Served    [2]answer

	FalseNot  bool // a person said "not executed" and was wrong
	FalseDone bool // … "executed" …
	Named     bool // the name has had an answer
	Begun     bool
	Told      bool // a caller got an error, and has not asked again
	Reached   bool // the recorded answer reached a caller or Outcomes.Handle
	Deployed  bool // the last release is out
	Doubted   bool // it was unknown, and has not been resolved since
	Jumped    bool // the clock stands behind, and is not believed yet
	Looked    look

	Ahead int8 // the clock's error, in steps: -1, 0, 1
	Last  int8 // how far the journal's last time is ahead of the clock, in steps; -1: behind it

	Left [budgets]uint8
}

// look is the result of a look: the record's claim and generation, and the facts of that time.
type look struct {
	Claim, Generation uint8 // Claim 0: no look
	Clean             bool  // nothing had happened, and nothing could any more
	Ran               bool  // it had taken effect
}

// The places of state.Left.
const (
	asks = iota
	crashes
	pauses
	losses
	cancels
	operators
	takeovers
	failures
	locals
	clockSteps
	restores
	looks
	finds
	budgets
)

var budgetBits = [budgets]uint8{2, 2, 1, 2, 1, 2, 1, 1, 1, 2, 1, 2, 2}

func (b Budget) left() [budgets]uint8 {
	all := [budgets]int{b.Asks, b.Crashes, b.Pauses, b.Losses, b.Cancels, b.Operator, b.Takeovers, b.Failures, b.Local, b.ClockSteps, b.Restores, b.Looks, b.Finds}
	var left [budgets]uint8
	for i, n := range all {
		if n >= 1<<budgetBits[i] {
			panic("model: a budget that the packed state has no room for")
		}
		left[i] = uint8(n)
	}
	return left
}

// key is a packed state.
type key [4]uint64

type packer struct {
	word uint64
	bits uint8
}

func (p *packer) put(v uint64, bits uint8) {
	if v>>bits != 0 || p.bits+bits > 64 {
		panic("model: a value that the packed state has no room for")
	}
	p.word |= v << p.bits
	p.bits += bits
}

func (p *packer) flag(v bool) {
	if v {
		p.word |= 1 << p.bits
	}
	p.bits++
}

func (p *packer) get(bits uint8) uint64 {
	v := p.word & (1<<bits - 1)
	p.word >>= bits
	return v
}

func (s *state) pack() key {
	var k key
	k[0] = uint64(s.Op) | uint64(s.Saved)<<32
	k[1] = uint64(s.Clients[0]) | uint64(s.Clients[1])<<32
	var p packer
	for _, m := range s.Net {
		p.put(uint64(m), 12)
	}
	for i := range s.Keys {
		p.put(uint64(s.Keys[i].Status), 3)
		p.put(uint64(s.Keys[i].Age), 2)
		p.put(uint64(s.Effects[i]), 2)
		p.put(uint64(s.First[i]), 3)
	}
	k[2] = p.word
	p = packer{}
	for i := range s.Served {
		p.put(uint64(s.Served[i]), 3)
	}
	p.put(uint64(s.Life), 1)
	for _, f := range [...]bool{s.FalseNot, s.FalseDone, s.Named, s.Begun, s.Told, s.Reached, s.Deployed, s.Jumped, s.Looked.Clean, s.Looked.Ran, s.Doubted} {
		p.flag(f)
	}
	p.put(uint64(s.Looked.Claim), 3)
	p.put(uint64(s.Looked.Generation), 1)
	p.put(uint64(s.Ahead+1), 2)
	p.put(uint64(s.Last+1), 3)
	for i, n := range s.Left {
		p.put(uint64(n), budgetBits[i])
	}
	k[3] = p.word
	return k
}

func (k key) unpack() (s state) {
	s.Op, s.Saved = uint32(k[0]), uint32(k[0]>>32)
	s.Clients = [2]uint32{uint32(k[1]), uint32(k[1] >> 32)}
	p := packer{word: k[2]}
	for i := range s.Net {
		s.Net[i] = message(p.get(12))
	}
	for i := range s.Keys {
		s.Keys[i] = memory{memoryStatus(p.get(3)), uint8(p.get(2))}
		s.Effects[i] = uint8(p.get(2))
		s.First[i] = uint8(p.get(3))
	}
	p = packer{word: k[3]}
	for i := range s.Served {
		s.Served[i] = answer(p.get(3))
	}
	s.Life = uint8(p.get(1))
	for _, f := range [...]*bool{&s.FalseNot, &s.FalseDone, &s.Named, &s.Begun, &s.Told, &s.Reached, &s.Deployed, &s.Jumped, &s.Looked.Clean, &s.Looked.Ran, &s.Doubted} {
		*f = p.get(1) == 1
	}
	s.Looked.Claim, s.Looked.Generation = uint8(p.get(3)), uint8(p.get(1))
	s.Ahead, s.Last = int8(p.get(2))-1, int8(p.get(3))-1
	for i := range s.Left {
		s.Left[i] = uint8(p.get(budgetBits[i]))
	}
	return s
}

// addMessage tells whether there was room for it.
func (s *state) addMessage(m message, most int) bool {
	i := slices.Index(s.Net[:most], 0)
	if i >= 0 {
		s.Net[i] = m
	}
	return i >= 0
}

func (s *state) effects() int { return int(s.Effects[0]) + int(s.Effects[1]) }

// mayExecute tells whether a request of this life may still take effect.
func (s *state) mayExecute(life uint8) bool {
	for _, m := range s.Net {
		if m.mayExecute() && m.life() == life {
			return true
		}
	}
	return false
}

// interned gives each value a small number.
type interned[T comparable] struct {
	numbers map[T]uint32
	values  []T
}

func (in *interned[T]) number(v T) uint32 {
	if n, ok := in.numbers[v]; ok {
		return n
	}
	if in.numbers == nil {
		in.numbers = map[T]uint32{}
	}
	n := uint32(len(in.values))
	in.numbers[v] = n
	in.values = append(in.values, v)
	return n
}
