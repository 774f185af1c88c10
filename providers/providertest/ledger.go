package providertest

import (
	"bytes"
	"net/http"
	"slices"
	"time"
)

// Effect is one execution that took effect: the handler ran and answered with a
// status below 400.
type Effect struct {
	// Seq counts the effects, from 1.
	Seq int

	// Request is the number of the request that caused it.
	Request int

	// Key is the idempotency key it ran under, without quotes; empty if
	// there was none.
	Key string

	Method string
	Path   string
	Header http.Header
	Body   []byte

	// Status is what the handler answered.
	Status int

	// At is when it happened, on the server's clock.
	At time.Time
}

// enter adds an execution to the ledger, if it had an effect; s.mu is held.
func (s *Server) enter(c *call, a answer) {
	if a.status >= http.StatusBadRequest {
		return
	}
	s.effects = append(s.effects, Effect{
		Seq:     len(s.effects) + 1,
		Request: c.number,
		Key:     c.key,
		Method:  c.r.Method,
		Path:    c.r.URL.Path,
		Header:  c.r.Header.Clone(),
		Body:    bytes.Clone(c.body),
		Status:  a.status,
		At:      s.now(),
	})
}

// Effects returns the ledger, in the order in which the effects took place. The
// caller must not change the headers and bodies in it.
func (s *Server) Effects() []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.effects)
}

// EffectsFor returns how many effects a key has had.
func (s *Server) EffectsFor(key string) (n int) {
	for _, e := range s.Effects() {
		if e.Key == key {
			n++
		}
	}
	return n
}

// Duplicates counts the effects by the name that by gives each one (the key, a
// reference in the body) and returns the names that have more than one.
// Effects under an empty name are left out.
func (s *Server) Duplicates(by func(Effect) string) map[string]int {
	counts := map[string]int{}
	for _, e := range s.Effects() {
		if name := by(e); name != "" {
			counts[name]++
		}
	}
	for name, n := range counts {
		if n < 2 {
			delete(counts, name)
		}
	}
	return counts
}
