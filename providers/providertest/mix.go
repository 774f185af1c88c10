package providertest

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// Script appends faults for the next requests, one each, in the order in which they reach the server. They
// precede those of [Server.Seed].
func (s *Server) Script(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, faults...)
}

// Unmet removes the [Server.Script] and [Server.ScriptLooks] faults that no request met, and returns these faults,
// those for look-ups last. A test that leaves some faults did not test its case.
func (s *Server) Unmet() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.Concat(s.script, s.looking)
	s.script, s.looking = nil, nil
	return left
}

// ScriptLooks appends faults for the next look-ups, one each: requests that a table's Lookups or Identity describe.
// Look-ups do not use Script. These faults precede those from [Server.EveryLook] and from Seed.
func (s *Server) ScriptLooks(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looking = append(s.looking, faults...)
}

// EveryLook applies this fault to every later look-up. [None] ends it.
func (s *Server) EveryLook(fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.everyLook = nil
	if fault.kind != none {
		s.everyLook = &fault
	}
}

// Mix has each fault kind's probability, from 0 to 1, with a sum of at most 1. The rest of the requests pass. The kinds
// are named after the functions that make such faults. A cut's length and a delay's are drawn too.
type Mix struct {
	DropBefore, DropAfter, Cut, DelayBefore, DelayAfter, Status float64

	// CutRequest cuts within the first 64 bytes of the request's body. CutResponse cuts anywhere in the
	// response.
	CutRequest, CutResponse float64

	// WrongLength adds up to 16 bytes.
	MalformedChunk, WrongLength float64

	// PageBefore and PageAfter have status 502.
	PageBefore, PageAfter float64

	// FailAfter has status 500, Inform 103.
	FailAfter, Inform float64

	// MaxDelay bounds the delays, which are drawn evenly. Default: 100 ms.
	MaxDelay time.Duration

	// Straggle is delayed by up to MaxStraggle of the server's clock, drawn evenly. Default of MaxStraggle:
	// one hour.
	Straggle    float64
	MaxStraggle time.Duration

	// Statuses are the status codes of Status, drawn evenly. Default: 503.
	Statuses []int

	// Header is added to the answers of Status, such as a Retry-After.
	Header http.Header
}

// Seed draws a fault for each later request without a scripted fault. The draw depends only on the seed and the
// request's number, so the same seed repeats the faults, whichever request has the number.
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
		{m.CutRequest, CutRequestAt(int(part * 64))},
		{m.CutResponse, Fault{kind: cutResponse, bytes: -1, part: part}},
		{m.MalformedChunk, MalformedChunk()},
		{m.WrongLength, WrongLength(1 + int(part*16))},
		{m.PageBefore, PageBefore(http.StatusBadGateway)},
		{m.PageAfter, PageAfter(http.StatusBadGateway)},
		{m.FailAfter, FailAfter(http.StatusInternalServerError)},
		{m.Inform, Inform(http.StatusEarlyHints)},
		{m.Straggle, Straggle(time.Duration(part * float64(cmp.Or(m.MaxStraggle, time.Hour))))},
	} {
		if at < f.odds {
			return f.fault
		}
		at -= f.odds
	}
	return None()
}

// nextFault returns the fault of the request with this number; s.mu is held.
func (s *Server) nextFault(number int, looks bool) Fault {
	switch {
	case looks && len(s.looking) > 0:
		fault := s.looking[0]
		s.looking = s.looking[1:]
		return fault
	case looks && s.everyLook != nil:
		return *s.everyLook
	case looks && s.draw == nil:
		return None()
	case looks:
		return s.draw(number)
	case len(s.script) > 0:
		fault := s.script[0]
		s.script = s.script[1:]
		return fault
	case s.draw != nil:
		return s.draw(number)
	}
	return None()
}
