package providertest

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// Effect is one execution that took effect: the handler ran and answered with a status below 400, without an
// error in a 200 if the provider has those.
type Effect struct {
	// Seq counts the effects, from 1.
	Seq int

	// Request is the number of the request that caused it.
	Request int

	// Key is the idempotency key of the execution, without quotes, or empty.
	Key string

	Method string
	Path   string
	Header http.Header
	Body   []byte

	// Status is the status of the handler's answer.
	Status int

	// At is the time of the effect on the server's clock.
	At time.Time

	// Account is the account of the effect, and Mode the mode of the credential, if the table distinguishes
	// these.
	Account, Mode string

	// Object is the id of the created object. It is the first id that exists of three: an id in the answer, the end
	// of its Location, an id of the server's own. The id in the answer is the member id, or the member that the
	// table's ObjectID names. It may be of the answer's object itself or of the first object in it.
	Object string

	// State is the object's state after [Server.Turn]. It is Refused from the start if the handler's answer is a decline
	// by the table (Declines): nothing took effect then. Zero means neither.
	State providers.Outcome
}

// entry is the ledger's record of one request.
type entry struct {
	number       int
	key          string
	method, path string
	fault        Fault
	came         string // of it; empty while it is being worked on
	effect       int    // its effect's Seq; 0 if it had none
	waits        bool   // to be executed, without a client for the answer
}

const panicked = "the handler panicked"

func said(what string, a Answer) string { return fmt.Sprintf("%s: %d", what, a.Status) }

// leave records the result of a request, unless it is recorded already. It runs before the client gets its
// answer, so that the client finds it in the ledger.
func (s *Server) leave(c *call, came string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.entry.came = cmp.Or(c.entry.came, came)
}

// enter adds an execution with an effect to the ledger, and returns the events that are to
// be delivered at once; s.mu is held.
func (s *Server) enter(c *call, a Answer) []*event {
	c.entry.effect = len(s.effects) + 1
	o := s.create(c, c.entry.effect, a)
	what := providers.TookEffect
	if tables.Declined(&s.provider, a.seen(false)) {
		what, o.state = providers.Refused, providers.Refused
	}
	s.effects = append(s.effects, Effect{
		Seq:     c.entry.effect,
		Request: c.entry.number,
		Key:     c.key,
		Method:  c.r.Method,
		Path:    c.r.URL.Path,
		Header:  c.r.Header.Clone(),
		Body:    bytes.Clone(c.body),
		Status:  a.Status,
		At:      o.at,
		Account: o.world.account,
		Mode:    o.world.mode,
		Object:  o.id,
		State:   o.state,
	})
	s.made = append(s.made, o)
	return s.happens(o, what)
}

// Effects returns the ledger in the order of the effects. The caller must not change its headers and bodies.
func (s *Server) Effects() []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.effects)
}

// EffectsFor returns the number of effects of a key.
func (s *Server) EffectsFor(key string) (n int) {
	for _, e := range s.Effects() {
		if e.Key == key {
			n++
		}
	}
	return n
}

// Duplicates counts the effects by the name that by returns for each (the key, a reference in the body), and
// returns the names with more than one. Effects with an empty name are left out. A nil by means the key.
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

// AssertEffects fails the test, without ending it, unless the key had n effects. The empty key means the
// effects without one. The failure shows what happened to the key's requests. It reports whether the
// assertion holds.
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

// AssertNoDuplicates fails the test, without ending it, if a name that by returns, as in [Server.Duplicates],
// has more than one effect. It reports whether the assertion holds.
func (s *Server) AssertNoDuplicates(t testing.TB, by func(Effect) string) bool {
	t.Helper()
	twice := s.Duplicates(by)
	if len(twice) == 0 {
		return true
	}
	t.Errorf("these have had more than one effect: %v:\n%s", twice, s.table(func(e *entry) bool { return e.effect > 0 }))
	return false
}

// Ledger returns one line for each request that reached the server: its key, its fault and its result. It has
// neither headers nor bodies.
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
