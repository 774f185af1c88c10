package providertest

import (
	"bytes"
	"cmp"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

const panicked = "the handler panicked"

func said(what string, a Answer) string { return fmt.Sprintf("%s: %d", what, a.Status) }

// leave records a request's result, once. leave runs before the client gets the answer, so the client finds the
// result in the ledger.
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

// Effects returns the ledger in the effects' order. The caller must not change its headers and bodies.
func (s *Server) Effects() []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.effects)
}

// EffectsFor returns a key's number of effects.
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

// AssertNoDuplicates fails the test, without ending the test, if a name returned by by, as in [Server.Duplicates], has
// more than one effect. It reports whether the assertion holds.
func (s *Server) AssertNoDuplicates(t testing.TB, by func(Effect) string) bool {
	t.Helper()
	twice := s.Duplicates(by)
	if len(twice) == 0 {
		return true
	}
	t.Errorf("these have had more than one effect: %v:\n%s", twice, s.table(func(e *entry) bool { return e.effect > 0 }))
	return false
}

// Ledger returns one line for each request that reached the server: the key, the fault and the result. It has neither
// headers nor bodies.
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

// create returns an effect's object. s.mu is held.
func (s *Server) create(c *call, seq int, a Answer) *creation {
	o := &creation{
		seq: seq, url: c.r.URL.Path, id: s.idOf(a), names: s.idNames, world: c.world, endpoint: c.route.Endpoint,
		request: tables.Message{Header: c.r.Header.Clone(), Query: c.r.URL.RawQuery, Body: bytes.Clone(c.body)},
		key:     c.key, at: s.now(), answer: a.clone(),
	}
	o.id = cmp.Or(o.id, fmt.Sprintf("object-%d", seq))
	for i := range s.provider.Endpoints {
		if e := &s.provider.Endpoints[i]; e.Pattern == o.endpoint.Pattern && e.Action == o.endpoint.Action {
			o.endpoint = e
		}
	}
	o.path = wildcards(o.endpoint.Pattern, c.r.URL.EscapedPath())
	return o
}

// idOf returns an answer object's id, from the body or the Location's end.
func (s *Server) idOf(a Answer) string {
	body, _ := parsed(a.Body)
	if id, found := identified(body, s.idNames); found != nil {
		return id
	}
	if to, err := url.Parse(a.Header.Get("Location")); err == nil && len(to.Path) > 1 {
		return path.Base(to.Path)
	}
	return ""
}
