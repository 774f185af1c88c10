package onceward

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/keyheader"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
)

const inboundHeader = keyheader.Name

// InboundOptions are what Client.Inbound can do otherwise. The zero value is the default.
type InboundOptions struct {
	// AllowKeyless serves requests without a key that Inbound would refuse. Names below
	// such a request are the tenant's: its scope, and no parent, so that a name which follows
	// from the business is the same operation however often it is asked for. Calls without
	// a name get a parent that is made up for this one request. Nobody can ask for them again:
	// a caller who repeats a keyless request makes them a second time, beside those of the
	// first time that are still pending.
	AllowKeyless bool

	// Endpoint names the endpoint that a request is for, in at most 200 bytes; it is called concurrently. The journal keeps
	// the name with each operation and flow that the request begins. If a caller reuses the key at another endpoint, a step
	// of the same name there is refused with ErrKeyReused; answer it with 422. Default, and of an empty name: method and path, as in "POST /rides".
	// Set it if an endpoint is served under several paths, or to keep a name when a route changes.
	Endpoint func(*http.Request) string

	// KeysPerEndpoint counts one key at two endpoints as two keys. The names and keys of the calls below then include the
	// endpoint. Never change it, nor an endpoint's name, while callers may repeat a key: the calls would be made again.
	KeysPerEndpoint bool
}

// maxInboundEndpoint is the longest name of an endpoint, in bytes. A longer one is recorded as its digest.
const maxInboundEndpoint = 200

// Inbound returns middleware for a service that is asked with idempotency keys of
// its own. It makes the Idempotency-Key of a request the parent of every operation
// under that request's context, through this client or another: whoever asks again
// with the same key, after a crash or a lost answer, has the outbound calls of the
// first time repeated with the same keys, each taking effect once. Their steps are
// named, or made up, as under WithParent; but a name is then a step of that one
// inbound key, not one of the business.
//
// A request without a key, or with one that can't be a key, is answered by 400 and a
// problem (RFC 9457, application/problem+json) that says what is wrong: it could not be
// repeated, and what it asks for would be nobody's. InboundOptions.AllowKeyless serves those
// without a key. A GET, HEAD or OPTIONS always passes; without a key its calls are unnamed as they
// are elsewhere, and names and carried keys below it are the tenant's.
//
// tenant names whose request it is, after authentication: wrap Inbound in what
// authenticates. It is called concurrently, for each request but a GET, HEAD or OPTIONS
// without a key: for these once a name or a carried key is used below them. What it returns is the scope
// of the operations: not empty, since there is no default, but written out where there
// is a single tenant. An error of it is logged and the request answered by 500. Below,
// WithScope may set no other scope; an empty WithParent takes operations out from under
// the request.
//
// A key is a stranger's to choose. The keys made of it are DeriveKey's, of
// Config.Secret, "child", tenant, inbound key and step; Ref.Parent is "inbound ", a
// space included, and the inbound key, which no parent of one's own can be. So no
// inbound key reaches the operations of another tenant or the application's own, nor
// guesses a key on the wire.
//
// The header's value is the key itself, or a structured field string (RFC 9651
// section 3.3.3), whose parameters are ignored: "k-1" with and without its quotes is
// one key. Two header lines, a comma or a semicolon outside of quotes, which may be two
// lines that a proxy has joined or parameters, and what Key.Validate refuses, are no key.
//
// Inbound reads no body and records no responses: next runs again each time, and has to make the same calls in the same
// order, with the same bodies. A step with another request than before is ErrKeyReused. So is a step that an earlier
// request made at another endpoint (InboundOptions.Endpoint): answer it with 422.
//
// The error is for a nil tenant, and wraps a *DeriveError for a client without
// Config.Secret: its hosts would make different keys for one inbound key.
func (c *Client) Inbound(tenant func(*http.Request) (string, error), opts InboundOptions) (func(next http.Handler) http.Handler, error) {
	if tenant == nil {
		return nil, errors.New("onceward: Client.Inbound: tenant is nil: where there is a single tenant, return its name")
	}
	if _, err := DeriveKey(c.core.Secret, "child"); err != nil {
		return nil, fmt.Errorf("onceward: Client.Inbound: Config.Secret: %w", err)
	}
	in := inbound{client: c, tenant: tenant, endpoint: opts.Endpoint, perEndpoint: opts.KeysPerEndpoint, keyless: opts.AllowKeyless}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { in.serve(w, r, next) })
	}, nil
}

type inbound struct {
	client      *Client
	tenant      func(*http.Request) (string, error)
	endpoint    func(*http.Request) string
	perEndpoint bool
	keyless     bool
}

func (in *inbound) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	key, err := inboundKey(r.Header)
	var malformed *KeyError
	switch {
	case safe(r.Method) && (err != nil || key == ""):
		next.ServeHTTP(w, r.WithContext(in.beside(r)))
		return
	case errors.As(err, &malformed):
		problem(w, http.StatusBadRequest, "The key in the "+inboundHeader+" header "+malformed.Reason+".")
		return
	case key == "" && !in.keyless:
		problem(w, http.StatusBadRequest, "The request needs a key in the "+inboundHeader+" header.")
		return
	}
	tenant, err := in.tenantOf(r)
	if err != nil {
		in.client.core.Say(r.Context(), slog.LevelError, core.LogTenantUnknown, "the tenant of an inbound request is not known; it was answered by 500", "error", secret.Text(err.Error()))
		problem(w, http.StatusInternalServerError, "")
		return
	}
	next.ServeHTTP(w, r.WithContext(in.under(r, tenant, key)))
}

// safe tells methods by which nobody asks for an effect.
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

func (in *inbound) tenantOf(r *http.Request) (string, error) {
	tenant, err := in.tenant(r)
	if err == nil && tenant == "" {
		err = errors.New("it is empty")
	}
	if err == nil {
		err = naming.CheckText("scope", tenant)
	}
	return tenant, err
}

// under is r's context with the inbound key as its parent, or a made-up one for want of a key.
func (in *inbound) under(r *http.Request, tenant string, key Key) context.Context {
	ctx, at, whole := r.Context(), in.endpointOf(r), string(key)
	if in.perEndpoint {
		whole += " at " + at // a key holds no space
	}
	p := &naming.Parent{
		Ref:      seam.Inbound + whole,
		Endpoint: at,
		Scope:    tenant,
		Derive: func(_, step string) string { // the scope is the tenant
			return naming.Derive(in.client.core.Secret, "child", tenant, whole, step)
		},
		Steps: &naming.Ordinals{},
	}
	if key == "" {
		p = naming.OwnParent(naming.NewKey())
		p.Ref, p.Scope = "inbound, once "+p.Ref, tenant // the comma keeps it from any key's
		p.Tenant = func() (string, error) { return tenant, nil }
	}
	return naming.With(ctx, naming.Naming{Scope: tenant, Account: naming.Of(ctx).Account, Parent: p})
}

func (in *inbound) endpointOf(r *http.Request) string {
	name := ""
	if in.endpoint != nil {
		name = in.endpoint(r)
	}
	if name == "" { // as http.Request.Pattern is, before its mux has served the request
		name = r.Method + " " + r.URL.EscapedPath()
	}
	if len(name) > maxInboundEndpoint || naming.CheckText("endpoint", name) != nil {
		sum := sha256.Sum256([]byte(name))
		return "sha256 " + hex.EncodeToString(sum[:])
	}
	return name
}

// beside is the context of a safe request without a key.
func (in *inbound) beside(r *http.Request) context.Context {
	p := &naming.Parent{Tenant: sync.OnceValues(func() (string, error) { return in.tenantOf(r) })}
	return naming.With(r.Context(), naming.Naming{Account: naming.Of(r.Context()).Account, Parent: p})
}

// inboundKey returns the key that a request came with, or "" if it came with none.
// The error is a *KeyError.
func inboundKey(h http.Header) (Key, error) {
	value, malformed := keyheader.Parse(h)
	if malformed != "" {
		return "", &KeyError{Reason: malformed}
	}
	if len(h[inboundHeader]) == 0 {
		return "", nil
	}
	if err := Key(value).Validate(); err != nil {
		return "", err
	}
	return Key(value), nil
}

// problem answers by a problem of RFC 9457 without a type, whose title is the
// status's own.
func problem(w http.ResponseWriter, status int, detail string) {
	body, _ := json.Marshal(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{http.StatusText(status), status, detail})
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
