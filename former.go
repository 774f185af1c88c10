package onceward

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// formerAliases are where an operation with a carried key is found that was begun while
// its provider's table said something else: its name, whether it names hosts, whether
// scopes share keys, or nothing, as there was no table.
//
// One that was begun in another scope while keys were one's scope's alone is not among
// them: only the table of that time says where it is.
func (c *Client) formerAliases(route tables.Route, u *url.URL, scope string, account http.Header, key Key) (aliases []Ref) {
	_, alias := refsOfKey(route, u, scope, account, key)
	whose, host := digestOfAccount(account), "at "+hostOf(u)
	holders := []string{host}
	names := c.strange.at(servedAt(route, u))
	if p := route.Provider; p != nil {
		names = slices.Concat([]string{p.Name}, p.FormerNames, names)
	}
	for _, name := range names {
		holders = append(holders, name, name+" "+host)
	}
	for _, holder := range holders {
		for _, perScope := range []bool{false, true} {
			if former := aliasAt(holder+whose, perScope, scope, key); former != alias {
				aliases = append(aliases, former)
			}
		}
	}
	return aliases
}

// formerly tells whether an operation's provider is one that has another name by now.
func formerly(op *journal.Operation, p *providers.Provider) bool {
	return op.Provider == p.Name || slices.Contains(p.FormerNames, op.Provider)
}

// strangeNames are the names of providers that the journal has for operations without an
// answer whose URL is under another table by now, or under none. A table that was renamed
// without saying so may be theirs: nothing of them is sent by it, and no carried key that
// one of theirs has.
type strangeNames struct {
	mu     sync.Mutex
	looked bool
	names  map[string][]string // by servedAt
}

// servedAt is the provider that serves a URL or, where none does, the host.
func servedAt(route tables.Route, u *url.URL) string {
	if route.Provider != nil {
		return route.Provider.Name
	}
	return "at " + hostOf(u)
}

func (s *strangeNames) at(at string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[at]
}

// lookOnce looks through the journal, the first time.
func (s *strangeNames) lookOnce(ctx context.Context, c *Client) error {
	s.mu.Lock()
	looked := s.looked
	s.mu.Unlock()
	if looked {
		return nil
	}
	for op, err := range c.journal.List(ctx, journal.Filter{States: []journal.State{journal.StatePending, journal.StateInFlight, journal.StateUnknown}}) {
		if err != nil {
			return err
		}
		s.see(&op, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = true
	return nil
}

// see takes note of an operation's provider, if it is a stranger.
func (s *strangeNames) see(op *journal.Operation, c *Client) {
	u := parsed(op.Request.URL)
	if op.Provider == "" || u == nil {
		return
	}
	route := c.router.Route(op.Request.Method, u)
	if route.Provider != nil && formerly(op, route.Provider) {
		return
	}
	at := servedAt(route, u)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.names[at], op.Provider) {
		return
	}
	if s.names == nil {
		s.names = map[string][]string{}
	}
	s.names[at] = append(slices.Clip(s.names[at]), op.Provider)
}
