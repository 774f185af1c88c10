package sim

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/internal/machine"
)

// stillness makes a process stand still at times, as if the process or the machine were suspended. Other processes see
// no progress of it, and go on. A bubble can't stop a goroutine at any place, so a process stops at its gates. These
// are before and after each commit, before a connection, before a request's headers, before an answer is read, and
// before a caller gets its answer. Between two gates the process does only work that would come first afterwards. Its
// timers run out meanwhile, as they would at once then.
//
// For the others its session is soon over, as a lease is. In a third of the pauses the session is not over, as if a session lasted
// as long as its process.
type stillness struct {
	life    *life
	process *process

	mu     sync.Mutex
	next   []halt
	passed map[bool]int // gates, those of claims and of the rest
	until  time.Time
	lapsed map[string]bool   // sessions that others have taken for dead
	counts time.Time         // when they did so last
	holds  map[string]string // by an operation's name in the ledger: the session under which this process may send it
}

// halt is one stop of a process.
type halt struct {
	gate   int  // the number of gates before it, of its kind
	claims bool // that kind: calls that the process makes all the time, also if nothing is due
	lasts  time.Duration
	lapses bool
}

// lease is how long a session outlives its process's last sign of life.
const lease = 12 * time.Second

// newStillness draws when a process stands still, by dice of its own.
func (l *life) newStillness(p *process, right bool) *stillness {
	if !l.has(standstills) || right {
		return nil
	}
	s := &stillness{life: l, process: p, passed: map[bool]int{}, lapsed: map[string]bool{}, holds: map[string]string{}}
	random := l.dice("still", p.name)
	gates := map[bool]int{}
	for range 1 + random.IntN(4) {
		h := halt{claims: random.of(4), lapses: !random.of(3)}
		gates[h.claims] += random.IntN([]int{4, 12, 60}[random.IntN(3)])
		h.gate = gates[h.claims]
		switch random.IntN(3) {
		case 0:
			h.lasts = random.within(lease)
		case 1:
			h.lasts = lease + random.within(2*time.Minute)
		default:
			h.lasts = lease + random.within(l.length/3)
		}
		s.next = append(s.next, h)
	}
	return s
}

// pass is a gate: the process stops there, or goes on standing still.
func (s *stillness) pass(at any, of string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	claims := of == ""
	s.passed[claims]++
	if len(s.next) > 0 && s.next[0].claims == claims && s.passed[claims] > s.next[0].gate && !s.life.isOver() && !time.Now().Before(s.until) {
		h := s.next[0]
		s.next = s.next[1:]
		s.until = time.Now().Add(h.lasts)
		s.life.tell("process", s.process.name, "stands still for %v, at %v %s (its session lapses: %v)", h.lasts, at, of, h.lapses && h.lasts > lease)
		s.life.visit("a process stands still")
		if h.lapses && h.lasts > lease {
			go s.lapses()
		}
	}
	s.mu.Unlock()
	s.goesOn()
}

// gates passes the gate before a commit, and returns a function for the one after it.
func (s *stillness) gates(at any, of string) (leave func()) {
	if s == nil {
		return func() {}
	}
	s.pass(at, of)
	return func() {
		if of != "" {
			of += ", after it"
		}
		s.pass(at, of)
	}
}

// goesOn waits until the process goes on.
func (s *stillness) goesOn() {
	for s != nil {
		s.mu.Lock()
		left := time.Until(s.until)
		s.mu.Unlock()
		if left <= 0 {
			return
		}
		select {
		case <-time.After(left):
		case <-s.process.dying:
			return
		}
	}
}

// lapses ends the process's sessions, so the others treat its held operations as left by a dead process.
func (s *stillness) lapses() {
	select {
	case <-time.After(lease):
	case <-s.process.dying:
		return
	}
	s.process.book.leaves()
	for _, session := range s.process.book.Sessions() {
		s.mu.Lock()
		s.lapsed[session.ID()], s.counts = true, time.Now()
		s.mu.Unlock()
		_ = session.End(context.Background())
	}
	s.life.tell("process", s.process.name, "counts as dead, and is not")
	s.life.visit("a session lapses")
}

// stood reports whether the process stood still after a time.
func (s *stillness) stood(since time.Time) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until.After(since)
}

// countedAsDead reports whether the others took the process for dead after a time. Its later claims need not know facts
// learned under the earlier ones.
func (s *stillness) countedAsDead(since time.Time) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.After(since)
}

// has notes the session under which the process may send an operation.
func (s *stillness) has(ev machine.Event, res machine.Result) {
	if s == nil || res.Decision != machine.Execute {
		return
	}
	name := s.life.ledgerName(res.Operation.Ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[name] = ev.Session
}

// sends reports a fault for a request that a process sends after the session visibly lapsed.
func (s *stillness) sends(errand string) {
	if s == nil {
		return
	}
	if s.isLapsed(errand) {
		s.life.fault("%s: sent under a session that had lapsed", errand)
	}
}

// isLapsed reports whether the session has ended under which the process was to send an operation.
func (s *stillness) isLapsed(errand string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lapsed[s.holds[errand]]
}

// tenure is a session that knows when it has lapsed, like a session whose lease is over by its own clock.
type tenure struct {
	machine.Session
	still *stillness
}

func (t *tenure) Lost() bool {
	if t.Session.Lost() {
		return true
	}
	t.still.mu.Lock()
	defer t.still.mu.Unlock()
	return t.still.lapsed[t.ID()]
}

// wire is a request's connection. It records the closing.
type wire struct {
	net.Conn
	closed atomic.Bool
}

func (w *wire) Close() error {
	w.closed.Store(true)
	return nil
}

// connects gives a request a connection, or returns errNetwork if the client closes the connection unused. If the
// process may stand still, there is a gate before the headers. There is none between the headers and the bytes on the
// wire: net/http still has them in a buffer at the client's last check.
func (l *line) connects(req *http.Request, trace *httptrace.ClientTrace, errand string) error {
	if l.still == nil {
		l.heedsTimes(errand)
		if trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{})
		}
		return nil
	}
	conn := &wire{}
	for _, step := range []func(){
		func() {
			if trace.GotConn != nil {
				trace.GotConn(httptrace.GotConnInfo{Conn: conn})
			}
			if !conn.closed.Load() {
				l.heedsTimes(errand)
			}
		},
		func() { l.still.pass("the headers of", errand) },
		func() {
			if trace.WroteHeaders != nil {
				trace.WroteHeaders()
			}
		},
	} {
		if step(); conn.closed.Load() || req.Context().Err() != nil {
			l.still.life.visit("a connection is left unused")
			return errNetwork
		}
	}
	l.still.sends(errand)
	return nil
}
