package tables

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"

	"github.com/onceward/onceward/providers"
)

// Router finds a request's contract by host and path. It is safe for concurrent use.
type Router struct {
	exact map[string]*served // by host as in Provider.Hosts
	below map[string]*served // "*.example.com" under "example.com"
	rest  *served            // nil: no provider serves the hosts that none names
}

// served is a provider with its endpoints' patterns compiled.
type served struct {
	provider *providers.Provider
	mux      *http.ServeMux
}

// listed is a table's endpoint, with its rules prepared.
type listed struct {
	providers.Endpoint
	form     string // of its key; "": it was not prepared
	reader   *reader
	secrets  *secretNames // nil: no table says what they are
	compared *Compared
	row      func() string // see Route.Row; nil: no table has it
}

// Route holds the facts about a request that are known before the send.
type Route struct {
	// Provider serves the host; nil if none does. It must not be changed.
	Provider *providers.Provider

	// Endpoint is the request's contract, never nil: the endpoint whose pattern matches, or the unlisted one. The unlisted
	// contract has the key in the raw header Idempotency-Key, nothing remembered, and no retention. Endpoint must not be
	// changed. If the route is Undecided, the Endpoint is one of several candidates.
	Endpoint *providers.Endpoint

	// Undecided says that the method and path don't tell which contract the
	// request is under: [Route.For] does.
	Undecided bool

	// Listed says that an endpoint of the provider matches. Listed is false for safe methods, since the router does not
	// look for their endpoints.
	Listed bool

	// Effect says that the request may change something. It is false for the safe methods GET, HEAD, OPTIONS and TRACE
	// (RFC 9110 section 9.2.1) and for endpoints marked NoEffect. It is true for an Undecided route.
	Effect bool

	at      *listed   // Endpoint, prepared
	choices []*listed // while Undecided
}

// NewRouter validates the providers, each by [providers.Provider.Validate]. Together they must be unambiguous: names
// and KeysUnder are unique, no two of them name the same host, and at most one names none. The error joins every
// [*providers.ValidationError].
func NewRouter(ps []providers.Provider) (*Router, error) {
	r := &Router{exact: map[string]*served{}, below: map[string]*served{}}
	names := map[string]bool{}
	var errs []error
	for i := range ps {
		p := &ps[i]
		s, err := compile(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if names[p.Name] {
			errs = append(errs, invalid(p, "Name", "another provider has the same name"))
			continue
		}
		if p.KeysUnder != p.Name && names[p.KeysUnder] {
			errs = append(errs, invalid(p, "KeysUnder", "another provider has the name %q", p.KeysUnder))
			continue
		}
		names[p.Name], names[cmp.Or(p.KeysUnder, p.Name)] = true, true
		errs = append(errs, r.serve(s)...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// compiled holds the last valid table under each provider's name. To compare a table costs an eighth of what it costs to
// validate and compile one. A program with a client for each tenant compiles each table once.
var compiled sync.Map // *served by name

func compile(p *providers.Provider) (*served, error) {
	if last, ok := compiled.Load(p.Name); ok && reflect.DeepEqual(last.(*served).provider, p) {
		return last.(*served), nil
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	own := p.Clone()
	s := &served{provider: &own, mux: http.NewServeMux()}
	for _, endpoints := range byPattern(&own) {
		s.mux.Handle(endpoints[0].Pattern, target{endpoints})
	}
	compiled.Store(own.Name, s)
	return s, nil
}

func (r *Router) serve(s *served) (errs []error) {
	p := s.provider
	if len(p.Hosts) == 0 {
		if r.rest != nil {
			return []error{invalid(p, "Hosts", "provider %q names no hosts either: only one can serve all others", r.rest.provider.Name)}
		}
		r.rest = s
	}
	for i, host := range p.Hosts {
		at, host := r.exact, strings.ToLower(host)
		if parent, ok := strings.CutPrefix(host, "*."); ok {
			at, host = r.below, parent
		}
		if other := at[host]; other != nil {
			errs = append(errs, invalid(p, fmt.Sprintf("Hosts[%d]", i), "provider %q names the same host", other.provider.Name))
			continue
		}
		at[host] = s
	}
	return errs
}

// Route finds the contract for a request with this method ("" means GET) and
// URL.
//
// Of the hosts that providers name, an exact one comes before a wildcard, and a longer wildcard before a shorter one. A
// path with a second reading (empty, "." or ".." segments, an escaped slash or dot) matches no endpoint: the path is
// under the careful contract, the unlisted one.
func (r *Router) Route(method string, u *url.URL) Route {
	rt := Route{Endpoint: &unlisted.Endpoint, Effect: !safe(method), at: &unlisted}
	s := r.host(u)
	if s == nil {
		return rt
	}
	rt.Provider = s.provider
	if !rt.Effect {
		return rt
	}
	if es := s.endpoints(method, u); len(es) > 0 {
		rt.Endpoint, rt.Listed, rt.at = &es[0].Endpoint, true, es[0]
		if len(es) == 1 && es[0].Action.Place == providers.ActionNone && es[0].Key.Place != providers.KeyGraphQL {
			rt.Effect = !es[0].NoEffect
		} else {
			rt.Undecided, rt.choices = true, es
		}
	}
	return rt
}

// byPattern groups endpoints, in their order but for the ones without an action,
// which come last.
func byPattern(p *providers.Provider) (groups [][]*listed) {
	at := map[string]int{}
	for _, withAction := range []bool{true, false} {
		for i := range p.Endpoints {
			e := &p.Endpoints[i]
			if (e.Action.Place != providers.ActionNone) != withAction {
				continue
			}
			n, known := at[e.Pattern]
			if !known {
				n = len(groups)
				at[e.Pattern] = n
				groups = append(groups, nil)
			}
			groups[n] = append(groups[n], &listed{*e, Key(e.Key).Form(), newReader(e.Rules), newSecretNames(p, e), NewCompared(p, e), sync.OnceValue(func() string { return digestOf(e) })})
		}
	}
	return groups
}

// digestOf returns an endpoint's short digest. Tables have no value that JSON can't hold.
func digestOf(e *providers.Endpoint) string {
	text, _ := json.Marshal(e)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Row returns a digest of the endpoint as the table states it, or "" if no table does. Two releases of a table with equal rows have
// equal digests.
func (rt *Route) Row() string {
	if rt.at.row == nil {
		return ""
	}
	return rt.at.row()
}

func safe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func (r *Router) host(u *url.URL) *served {
	host := hostOf(u)
	if host == "" {
		return nil
	}
	if s := r.exact[host]; s != nil {
		return s
	}
	if len(host) > maxHost {
		return r.rest
	}
	for rest := host; ; {
		_, parent, ok := strings.Cut(rest, ".")
		if !ok {
			return r.rest
		}
		if s := r.below[parent]; s != nil {
			return s
		}
		rest = parent
	}
}

// maxHost is more than a host name and its port can have (RFC 1035 section 2.3.4).
const maxHost = 300

// target is the handler under which a mux knows an endpoint. The mux's own answers (a redirect to a cleaner path,
// 404, 405) are not targets, so that they are not taken for a match.
type target struct{ endpoints []*listed }

func (target) ServeHTTP(http.ResponseWriter, *http.Request) {}

func (s *served) endpoints(method string, u *url.URL) []*listed {
	if method == http.MethodConnect || u.Opaque != "" || !plain(u.EscapedPath()) {
		return nil
	}
	if u.Path == "" {
		rooted := *u
		rooted.Path = "/"
		u = &rooted
	}
	handler, _ := s.mux.Handler(&http.Request{Method: method, URL: u})
	if t, ok := handler.(target); ok {
		return t.endpoints
	}
	return nil
}

func invalid(p *providers.Provider, field, format string, args ...any) error {
	return &providers.ValidationError{Provider: p.Name, Field: field, Problem: fmt.Sprintf(format, args...)}
}
