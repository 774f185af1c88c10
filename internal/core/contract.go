package core

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Why an operation is under no contract that the client knows.
var (
	ErrContractGone = errors.New("no provider of this name serves its URL any more: add it to Config.Providers. If its table was renamed, set KeysUnder to the old name")
	ErrUnreadable   = errors.New("its recorded URL can't be read")
)

// Contract returns a frozen request's contract.
func (c *Core) Contract(req *journal.Request, u *url.URL) tables.Route {
	return c.Router.Route(req.Method, u).For(tables.Message{Header: req.Header, Query: u.RawQuery, Body: AsRead(req.Body)})
}

// NeedsBody reports whether an operation's contract depends on its body.
func (c *Core) NeedsBody(op *journal.Operation) bool {
	u := Parsed(op.Request.URL)
	return u != nil && c.Router.Route(op.Request.Method, u).For(tables.Message{Header: op.Request.Header, Query: u.RawQuery}).Undecided
}

// SameContract reports whether an operation's contract is still the one from its begin. Under another contract,
// the credentials could go elsewhere.
func SameContract(op *journal.Operation, route tables.Route) bool {
	if op.Provider == "" {
		return !route.Listed
	}
	return route.Listed && op.Provider == route.Provider.KeysUnder
}

// ListedSince reports whether a provider serves an operation's host now, and none did at the begin. Such an
// operation has no recorded terms for a resend.
func ListedSince(op *journal.Operation, route tables.Route) bool {
	return op.Provider == "" && route.Listed
}

// TermsOf puts the endpoint's contract in the resend rule's words.
func TermsOf(route tables.Route) journal.Terms {
	e := route.Endpoint
	t := journal.Terms{Retention: e.Retention, Guard: e.InFlightGuard, Handling: e.HandlingTime}
	if e.Key.Place != providers.KeyNone {
		t.Remembers = e.Remembers
	}
	return t
}

// AsRead marks a body, which may be empty, as read.
func AsRead(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body
}

// Parsed returns rawURL as a URL, or nil for a malformed rawURL.
func Parsed(rawURL string) *url.URL {
	u, _ := url.Parse(rawURL)
	return u
}

// Target returns a request target's name in errors and logs.
func Target(method string, u *url.URL) string { return method + " " + secret.URL(u) }

// Called returns the provider with the Name or KeysUnder, or nil.
func (c *Core) Called(name string) *providers.Provider {
	for i := range c.Providers {
		if p := &c.Providers[i]; p.Name == name || p.KeysUnder == name {
			return p
		}
	}
	return nil
}

// Recorded returns the provider that the journal calls so, or nil.
func (c *Core) Recorded(name string) *providers.Provider {
	if p := c.Called(name); p != nil && p.KeysUnder == name {
		return p
	}
	return nil
}

// EndpointOf returns an operation's endpoint, by the recorded pattern, or nil.
func (c *Core) EndpointOf(op *journal.Operation) *providers.Endpoint {
	p := c.Recorded(op.Provider)
	if p == nil {
		return nil
	}
	if u := Parsed(op.Request.URL); u != nil && op.Request.Method != "" {
		if route := c.Contract(&op.Request, u); route.Listed && SameContract(op, route) && route.Endpoint.Pattern == op.Endpoint {
			return route.Endpoint
		}
	}
	for i := range p.Endpoints {
		if p.Endpoints[i].Pattern == op.Endpoint {
			return &p.Endpoints[i]
		}
	}
	return nil
}

// Budget returns the retry budget that all operations with a route's provider share.
func (c *Core) Budget(route tables.Route) *retry.Bucket {
	if route.Listed {
		return c.Budgets[route.Provider.KeysUnder]
	}
	return c.Budgets[""]
}

// SiteOf returns the site that a route's request to a host goes to.
func SiteOf(route tables.Route, host string) throttle.Site {
	if route.Listed {
		return throttle.Site{Provider: route.Provider.KeysUnder}
	}
	return throttle.Site{Host: strings.ToLower(host)}
}

// TargetOf returns an operation's site, scope and account. Operations that have these in common are held back
// together.
func TargetOf(op *journal.Operation, route tables.Route, host string) throttle.Target {
	to := throttle.Target{Site: SiteOf(route, host), Scope: op.Scope, Account: op.Account, Needs: wire.Withheld(&op.Request), Handle: op.Handle}
	if route.Provider != nil {
		to.Account += "\x00" + AccountHeaders(route.Provider, op.Request.Header)
	}
	return to
}

// AccountHeaders returns the header values that name a request's account, as listed in the provider's table.
func AccountHeaders(p *providers.Provider, h http.Header) string {
	var values []string
	for _, name := range p.AccountHeaders {
		values = append(values, strings.Join(h.Values(name), ","))
	}
	return strings.Join(values, "\x00")
}

// MayAdd reports whether the client may add the credentials that an operation's record lacks.
func (c *Core) MayAdd(op *journal.Operation, u *url.URL) bool {
	return c.Authorize != nil && op.Provider != "" && wire.Confidential(u) || !wire.NeedsCredential(&op.Request)
}

// InBackground reports whether Run and Resume send a pending operation, as far as this
// client knows.
func (c *Core) InBackground(op *journal.Operation, frozen *journal.Request) bool {
	switch {
	case op.BodyWithheld, op.Naming != journal.Named && (op.Told || c.NamedOnly), c.isStranger(op, frozen), c.lacksCredential(op, frozen):
		return false
	case !op.MayHaveRun && !op.NotAfter.IsZero() && Later(c.Now(), op.DueAt).After(op.NotAfter): // it is cancelled, then
		return false
	case c.Authorize != nil && op.Provider != "" && wire.Confidential(Parsed(frozen.URL)):
		return true
	}
	return !wire.NeedsCredential(frozen)
}

// lacksCredential reports whether Run or Resume lately lacked the credential for an operation under a known contract.
func (c *Core) lacksCredential(op *journal.Operation, frozen *journal.Request) bool {
	u := Parsed(frozen.URL)
	asked := *op
	asked.Request = *frozen
	return c.Throttle.Missing(TargetOf(&asked, c.Router.Route(frozen.Method, u), u.Host)) != ""
}

// isStranger reports whether this client knows no contract under the operation's provider name. Only clients with a
// contract send such an operation.
func (c *Core) isStranger(op *journal.Operation, frozen *journal.Request) bool {
	u := Parsed(frozen.URL)
	if u == nil {
		return true
	}
	route := c.Router.Route(frozen.Method, u)
	return !route.Undecided && !SameContract(op, route)
}
