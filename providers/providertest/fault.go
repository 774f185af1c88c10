package providertest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// Fault is what goes wrong with one request. The zero Fault is none.
type Fault struct {
	kind   kind
	bytes  int     // of the body before a cut; negative: by part
	part   float64 // of the body before a cut
	delay  time.Duration
	status int
	header http.Header
}

type kind int

const (
	none kind = iota
	dropBefore
	dropAfter
	cut
	delayBefore
	delayAfter
	status
)

// None lets a request through: a gap in a script.
func None() Fault { return Fault{} }

// DropBefore resets the connection before anything is executed.
func DropBefore() Fault { return Fault{kind: dropBefore} }

// DropAfter executes, and resets the connection in place of the answer.
func DropAfter() Fault { return Fault{kind: dropAfter} }

// CutAt executes, sends the headers, with the whole body's Content-Length, and
// the first n bytes of the body, at most all but one, and then drops the
// connection. An answer without a body is dropped as a whole.
func CutAt(n int) Fault { return Fault{kind: cut, bytes: max(n, 0)} }

// DelayBefore waits for d of real time before anything is executed. It executes
// then even if the client has given up.
func DelayBefore(d time.Duration) Fault { return Fault{kind: delayBefore, delay: d} }

// DelayAfter executes, and waits for d of real time before it answers.
func DelayAfter(d time.Duration) Fault { return Fault{kind: delayAfter, delay: d} }

// Status answers with this status and, in addition, header, which may be nil,
// without executing anything. Where the provider's rules tell such an answer by
// a field of its body, the body has that field.
func Status(code int, header http.Header) Fault {
	return Fault{kind: status, status: code, header: header.Clone()}
}

// String returns the fault in words, for logs.
func (f Fault) String() string {
	switch f.kind {
	case dropBefore:
		return "drop before the effect"
	case dropAfter:
		return "drop after the effect"
	case cut:
		if f.bytes < 0 {
			return fmt.Sprintf("cut after %.0f %% of the body", f.part*100)
		}
		return fmt.Sprintf("cut after %d bytes of the body", f.bytes)
	case delayBefore:
		return fmt.Sprintf("delay of %v before the effect", f.delay)
	case delayAfter:
		return fmt.Sprintf("delay of %v after the effect", f.delay)
	case status:
		return fmt.Sprintf("status %d", f.status)
	}
	return "none"
}

// Script appends faults for the next requests, one each, in the order in which
// the server reads them. They come before those of [Server.Seed].
func (s *Server) Script(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, faults...)
}

// Mix says how often each kind of fault is drawn, as probabilities from 0 to 1
// that should add up to at most 1. What is left of 1 goes through.
type Mix struct {
	DropBefore, DropAfter, Cut, DelayBefore, DelayAfter, Status float64

	// MaxDelay bounds the delays, which are drawn evenly. 0 means 100 ms.
	MaxDelay time.Duration

	// Statuses are the status codes of Status, drawn evenly. None means 503.
	Statuses []int

	// Header is added to the answers of Status, a Retry-After for instance.
	Header http.Header
}

// Seed draws a fault for each further request that has none in the script. The
// draw depends on the seed and the request's number only, so that the same seed
// gives the same faults again, whichever request comes under a number.
func (s *Server) Seed(seed uint64, mix Mix) {
	mix.Statuses = slices.Clone(mix.Statuses)
	mix.Header = mix.Header.Clone()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draw = func(number int) Fault { return mix.draw(seed, number) }
}

func (m Mix) draw(seed uint64, number int) Fault {
	random := rand.New(rand.NewPCG(seed, uint64(number)))
	delay := m.MaxDelay
	if delay <= 0 {
		delay = 100 * time.Millisecond
	}
	code := http.StatusServiceUnavailable
	at := random.Float64()
	part := random.Float64()
	if len(m.Statuses) > 0 {
		code = m.Statuses[random.IntN(len(m.Statuses))]
	}
	for _, f := range []struct {
		odds  float64
		fault Fault
	}{
		{m.DropBefore, DropBefore()},
		{m.DropAfter, DropAfter()},
		{m.Cut, Fault{kind: cut, bytes: -1, part: part}},
		{m.DelayBefore, DelayBefore(time.Duration(part * float64(delay)))},
		{m.DelayAfter, DelayAfter(time.Duration(part * float64(delay)))},
		{m.Status, Status(code, m.Header)},
	} {
		if at < f.odds {
			return f.fault
		}
		at -= f.odds
	}
	return None()
}

// nextFault returns the fault of the request with this number; s.mu is held.
func (s *Server) nextFault(number int) Fault {
	switch {
	case len(s.script) > 0:
		fault := s.script[0]
		s.script = s.script[1:]
		return fault
	case s.draw != nil:
		return s.draw(number)
	}
	return None()
}
