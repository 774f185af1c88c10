package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/onceward/onceward"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/keyheader"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
)

const inboundHeader = keyheader.Name

// InboundOptions configures Inbound.
type InboundOptions struct {
	// AllowKeyless serves requests without a key, which Inbound otherwise rejects. A named call below such a request is the
	// tenant's own operation, the same in each request. An unnamed call is as elsewhere.
	AllowKeyless bool

	// Endpoint names a request's endpoint, in at most 200 bytes, for an endpoint with several paths or a path that changes.
	// Endpoint is called concurrently. The same key and step at another endpoint is onceward.ErrKeyReused: answer with a
	// 422. Default, also for an empty name: method and path, as in "POST /rides".
	Endpoint func(*http.Request) string

	// KeysPerEndpoint treats one key at two endpoints as two keys. Never change the setting, nor an endpoint's name, while
	// callers may repeat a key: the calls would be made again.
	KeysPerEndpoint bool
}

// maxInboundEndpoint is the longest name of an endpoint, in bytes. The digest of a longer one is recorded.
const maxInboundEndpoint = 200

// Inbound returns middleware for a service whose callers send idempotency keys. The middleware makes a request's
// Idempotency-Key the parent of every operation under the request's context, as onceward.WithParent does. A caller who
// repeats the key repeats the same outbound calls with the same keys, and each takes effect once. docs/server.md has the
// rules.
//
// A request without a valid key is answered by 400 and a problem of RFC 9457. A GET, HEAD or OPTIONS always passes.
// The header's value is the key itself, or a structured field string (RFC 9651): k-1 and "k-1" are one key.
//
// tenant names the tenant after authentication, so wrap Inbound in yours. The name becomes the operations' scope, and is
// never empty. tenant is called concurrently, at most once for a request. An error is logged, and the answer is 500.
//
// Keys derive from Config.Secret, tenant, inbound key and step. So no inbound key reaches another tenant's operations or
// your own, or reveals a key on the wire. Ref.Parent is "inbound ", with the space, and the inbound key.
//
// Inbound reads no body and records no response. next runs again each time, and must make the same calls in the same
// order with the same bodies. A step whose request differs is onceward.ErrKeyReused.
//
// The error says that tenant or Config.Secret is missing.
func Inbound(client *onceward.Client, tenant func(*http.Request) (string, error), opts InboundOptions) (func(next http.Handler) http.Handler, error) {
	if tenant == nil {
		return nil, errors.New("server: Inbound: tenant is nil: if there is a single tenant, return its name")
	}
	if _, err := onceward.DeriveKey(core.Of(client).Secret, "child"); err != nil {
		return nil, fmt.Errorf("server: Inbound: Config.Secret: %w", err)
	}
	in := inbound{core: core.Of(client), tenant: tenant, endpoint: opts.Endpoint, perEndpoint: opts.KeysPerEndpoint, keyless: opts.AllowKeyless}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { in.serve(w, r, next) })
	}, nil
}

type inbound struct {
	core        *core.Core
	tenant      func(*http.Request) (string, error)
	endpoint    func(*http.Request) string
	perEndpoint bool
	keyless     bool
}

func (in *inbound) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	key, err := inboundKey(r.Header)
	var malformed *onceward.KeyError
	switch {
	case safe(r.Method) && (err != nil || key == ""):
		next.ServeHTTP(w, r.WithContext(in.beside(r, sync.OnceValues(func() (string, error) { return in.tenantOf(r) }))))
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
		in.core.Say(r.Context(), slog.LevelError, core.LogTenantUnknown, "the tenant of an inbound request is not known; it was answered by 500", "error", secret.Text(err.Error()))
		problem(w, http.StatusInternalServerError, "")
		return
	}
	if key == "" {
		next.ServeHTTP(w, r.WithContext(in.beside(r, func() (string, error) { return tenant, nil })))
		return
	}
	next.ServeHTTP(w, r.WithContext(in.under(r, tenant, key)))
}

// safe reports whether requests of a method ask for no effect.
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

// under returns r's context with the inbound key as its parent.
func (in *inbound) under(r *http.Request, tenant string, key onceward.Key) context.Context {
	ctx, at, whole := r.Context(), in.endpointOf(r), string(key)
	if in.perEndpoint {
		whole += " at " + at // a key holds no space
	}
	p := &naming.Parent{
		Ref:      seam.Inbound + whole,
		Endpoint: at,
		Scope:    tenant,
		Derive: func(_, step string) string { // the scope is the tenant
			return naming.Derive(in.core.Secret, "child", tenant, whole, step)
		},
		Steps:   &naming.Ordinals{},
		Earlier: seam.Earlier(ctx),
	}
	return naming.With(ctx, naming.Naming{Scope: tenant, Account: naming.Of(ctx).Account, Parent: p})
}

func (in *inbound) endpointOf(r *http.Request) string {
	name := ""
	if in.endpoint != nil {
		name = in.endpoint(r)
	}
	if name == "" { // as http.Request.Pattern is, before its mux has served the request
		name = r.Method + " " + escapedAlike(r.URL.EscapedPath())
	}
	if len(name) > maxInboundEndpoint || naming.CheckText("endpoint", name) != nil {
		sum := sha256.Sum256([]byte(name))
		return "sha256 " + hex.EncodeToString(sum[:])
	}
	return name
}

// escapedAlike returns a path with each segment escaped in Go's way, since a caller or a proxy may escape a repeated
// request in another.
func escapedAlike(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if text, err := url.PathUnescape(segment); err == nil {
			segments[i] = url.PathEscape(text)
		}
	}
	return strings.Join(segments, "/")
}

// beside returns the context of a request without a key. Named calls below it are the tenant's. Unnamed operations have
// no name for a repeated request, so nothing sends them any more once the caller has heard.
func (in *inbound) beside(r *http.Request, tenant func() (string, error)) context.Context {
	p := &naming.Parent{Tenant: tenant}
	return naming.With(r.Context(), naming.Naming{Account: naming.Of(r.Context()).Account, Parent: p})
}

// inboundKey returns a request's key, or "" if it has none. The error is a *KeyError.
func inboundKey(h http.Header) (onceward.Key, error) {
	value, malformed := keyheader.Parse(h)
	if malformed != "" {
		return "", &onceward.KeyError{Reason: malformed}
	}
	if len(h[inboundHeader]) == 0 {
		return "", nil
	}
	if err := onceward.Key(value).Validate(); err != nil {
		return "", err
	}
	return onceward.Key(value), nil
}

// problem answers with a problem of RFC 9457 without a type, titled by its status.
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
