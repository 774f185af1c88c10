package providertest

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/providers"
)

// Effect is one execution that took effect: the handler ran and answered with a
// status below 400, and with no error in a 200 where the provider has those.
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

	// Account is the account that it happened in, and Mode the mode of the
	// credential, where the table tells these apart.
	Account, Mode string

	// Object is the id of what was made: the member id in the answer, or one of the name
	// that the table's ObjectID has for it, of the object itself or of the first one in it,
	// or the end of its Location; else one of the server's own making.
	Object string

	// State is what [Server.Turn] made of the object; 0 if it did nothing.
	State providers.Outcome
}

// entry is what the ledger has of one request.
type entry struct {
	number       int
	key          string
	method, path string
	fault        Fault
	came         string // of it; empty while it is being worked on
	effect       int    // its effect's Seq; 0 if it had none
	waits        bool   // to be executed, and nobody waits for the answer
}

const panicked = "the handler panicked"

func said(what string, a Answer) string { return fmt.Sprintf("%s: %d", what, a.Status) }

// leave notes what came of a request, unless that is noted already. It is called
// before the client is told anything: who has its answer finds it in the ledger.
func (s *Server) leave(c *call, came string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.entry.came == "" {
		c.entry.came = came
	}
}

// enter adds an execution with an effect to the ledger, and returns the events that are to
// be delivered at once; s.mu is held.
func (s *Server) enter(c *call, a Answer) []*event {
	c.entry.effect = len(s.effects) + 1
	o := s.create(c, c.entry.effect, a)
	s.effects = append(s.effects, Effect{
		Seq:     c.entry.effect,
		Request: c.entry.number,
		Key:     c.key,
		Method:  c.r.Method,
		Path:    c.r.URL.Path,
		Header:  c.r.Header.Clone(),
		Body:    bytes.Clone(c.body),
		Status:  a.Status,
		At:      s.now(),
		Account: o.world.account,
		Mode:    o.world.mode,
		Object:  o.id,
	})
	s.made = append(s.made, o)
	return s.happens(o, providers.TookEffect)
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
// Effects under an empty name are left out. A nil by stands for the key.
func (s *Server) Duplicates(by func(Effect) string) map[string]int {
	if by == nil {
		by = func(e Effect) string { return e.Key }
	}
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

// AssertEffects fails the test, and goes on with it, unless the key has had n
// effects; the empty key stands for the effects without one. The failure shows
// what became of the key's requests. It reports whether the assertion holds.
func (s *Server) AssertEffects(t testing.TB, key string, n int) bool {
	t.Helper()
	got := s.EffectsFor(key)
	if got == n {
		return true
	}
	t.Errorf("key %q has had %d effects, not %d:\n%s", key, got, n, s.table(func(e *entry) bool { return e.key == key }))
	return false
}

// AssertOneEffect is [Server.AssertEffects] with exactly one effect.
func (s *Server) AssertOneEffect(t testing.TB, key string) bool {
	t.Helper()
	return s.AssertEffects(t, key, 1)
}

// AssertNoDuplicates fails the test, and goes on with it, if any name that by gives
// to the effects, as in [Server.Duplicates], has more than one. It reports whether
// the assertion holds.
func (s *Server) AssertNoDuplicates(t testing.TB, by func(Effect) string) bool {
	t.Helper()
	twice := s.Duplicates(by)
	if len(twice) == 0 {
		return true
	}
	t.Errorf("these have had more than one effect: %v:\n%s", twice, s.table(func(e *entry) bool { return e.effect > 0 }))
	return false
}

// Ledger returns, a line each, the requests that have reached the server: the key,
// what went wrong by a fault and what came of it. It has neither headers nor
// bodies.
func (s *Server) Ledger() string {
	return s.table(func(*entry) bool { return true })
}

func (s *Server) table(shows func(*entry) bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "request\tkey\tof\tfault\tcame of it")
	hidden := 0
	for _, e := range s.entries {
		if !shows(e) {
			hidden++
			continue
		}
		came := e.came
		switch {
		case came == "" && e.waits:
			came = "is still on its way"
		case came == "":
			came = "is being worked on"
		}
		if e.effect > 0 {
			came += fmt.Sprintf(", effect %d", e.effect)
		}
		fmt.Fprintf(w, "%d\t%q\t%s %s\t%s\t%s\n", e.number, e.key, e.method, e.path, e.fault, came)
	}
	_ = w.Flush() // a builder takes it all
	if hidden > 0 {
		fmt.Fprintf(&text, "and %d more\n", hidden)
	}
	return text.String()
}
