package proxy

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/core"
)

// A request's headers.
const (
	operationHeader = "Onceward-Operation"
	scopeHeader     = "Onceward-Scope"
)

// An answer's headers.
const (
	stateHeader    = "Onceward-State"
	replayedHeader = "Onceward-Replayed"
	dueHeader      = "Onceward-Due"
)

// proxy is the handler in front of one upstream.
type proxy struct {
	upstream Upstream
	sends    http.RoundTripper // the client's
	core     *core.Core
	callers  []caller
	forward  *httputil.ReverseProxy
}

// caller is what one proves itself by, and the credential that its requests go on with.
type caller struct {
	proof      [sha256.Size]byte // a digest
	credential string
}

// digest gives credentials one length, so a comparison takes one time.
func digest(credential []byte) [sha256.Size]byte { return sha256.Sum256(credential) }

// asked is a request's name, and the credential to go on with.
type asked struct {
	name, scope string
	named       bool
	credential  string
}

type askedKey struct{}

// ServeHTTP checks the caller before anything else.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	credential, known := p.callerOf(r.Header[p.upstream.CredentialHeader])
	if !known {
		p.fail(w, &refusal{problem: foreignCaller})
		return
	}
	if problem := p.refuses(r); problem != nil {
		p.fail(w, problem)
		return
	}
	if r.Method == http.MethodPost && p.upstream.TokenPath != "" && r.URL.Path == p.upstream.TokenPath {
		p.giveToken(w, r, credential)
		return
	}
	name, err := p.asked(r.Header)
	if err != nil {
		p.fail(w, err)
		return
	}
	name.credential = credential
	r = r.WithContext(context.WithValue(r.Context(), askedKey{}, name))
	r.Header = maps.Clone(r.Header)
	r.Header.Del("Connection") // which could list a credential or an account, or ask for an Upgrade: see httputil.ReverseProxy
	p.forward.ServeHTTP(w, r)
}

// refuses returns why a request can't be the callers' own although it has a credential, or nil.
func (p *proxy) refuses(r *http.Request) *refusal {
	switch {
	case !slices.Contains(p.upstream.Hosts, hostname(r.Host)), r.URL.Opaque != "": // as in "POST x:https://elsewhere/"
		return &refusal{problem: foreignHost}
	case len(r.Header["Origin"]) > 0 || len(r.Header["Sec-Fetch-Site"]) > 0:
		return &refusal{problem: fromAPage}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return nil
	}
	return &refusal{problem: foreignMethod}
}

// callerOf returns the credential of the caller that a request's header proves. It compares the header with all of the
// callers', in the same time for each.
func (p *proxy) callerOf(values []string) (credential string, known bool) {
	if len(values) != 1 {
		return "", false
	}
	given, at := digest([]byte(values[0])), -1
	for i := range p.callers {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], p.callers[i].proof[:]), i, at)
	}
	if at < 0 {
		return "", false
	}
	return p.callers[at].credential, true
}

// hostname returns a Host header's name without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// asked returns the name and the scope that a request's headers give.
func (p *proxy) asked(h http.Header) (asked, error) {
	names, scopes := h[operationHeader], h[scopeHeader]
	switch {
	case len(names) > 1, len(scopes) > 1:
		return asked{}, &refusal{problem: ambiguous}
	case len(names) == 1 && names[0] == "":
		return asked{}, &refusal{problem: ambiguous}
	case p.upstream.Scope != "" && len(scopes) == 1 && scopes[0] != p.upstream.Scope:
		return asked{}, &refusal{problem: foreignScope}
	}
	a := asked{scope: p.upstream.Scope, named: len(names) == 1}
	if a.named {
		a.name = names[0]
	}
	if a.scope == "" && len(scopes) == 1 {
		a.scope = scopes[0]
	}
	return a, nil
}

// rewrite makes the request that goes on: the same path and query, at the upstream, with the caller's credential and
// without the proxy's own headers. An
// answer in a coding that one caller asked for would be recorded for all, so none is asked for.
func (p *proxy) rewrite(r *httputil.ProxyRequest) {
	out := *r.In.URL
	out.Scheme, out.Host, out.User = p.upstream.URL.Scheme, p.upstream.URL.Host, nil
	r.Out.URL, r.Out.Host = &out, ""
	strip(r.Out.Header)
	r.Out.Header.Del("Accept-Encoding")
	r.Out.Header.Del("HTTP2-Settings") // of an Upgrade
	r.Out.Header[p.upstream.CredentialHeader] = []string{r.In.Context().Value(askedKey{}).(asked).credential}
}

// strip removes the headers between a caller and the proxy, in any spelling that a server may take for one.
func strip(h http.Header) {
	for name := range h {
		if isOwn(name) {
			delete(h, name)
		}
	}
}

// isOwn reports whether a header is between a caller and the proxy. Some servers read an underscore as a hyphen.
func isOwn(name string) bool {
	const prefix = "onceward"
	return len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) && (name[len(prefix)] == '-' || name[len(prefix)] == '_')
}
