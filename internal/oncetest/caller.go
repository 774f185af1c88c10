package oncetest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/server"
)

// OfTenant returns the tenant in the header Tenant, or tenant-1. It is for tests: a program takes the tenant from the
// authenticated caller.
func OfTenant(r *http.Request) (string, error) {
	if name := r.Header.Get("Tenant"); name != "" {
		return name, nil
	}
	return "tenant-1", nil
}

// Leaves makes a call whose response's body is never closed.
func (p *Process) Leaves(ctx context.Context) {
	p.T.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ChargeURL, strings.NewReader(ChargeForm))
	require.NoError(p.T, err)
	req.Header.Set("Content-Type", Form)
	_, err = p.HTTP.Do(req) //nolint:bodyclose // that is the point
	require.NoError(p.T, err)
}

// LosesSession ends a client's session as a takeover would, and leaves the client alive.
func (p *Process) LosesSession() {
	p.T.Helper()
	for _, s := range p.Journal.Sessions() {
		require.NoError(p.T, s.End(context.Background()))
	}
}

// LookedAt returns the facts that a look at an operation shows now.
func (p *Process) LookedAt(ref onceward.Ref) onceward.Seen {
	p.T.Helper()
	op, err := p.Operation(p.T.Context(), ref)
	require.NoError(p.T, err)
	return op.Seen
}

// Get makes a GET, or the request made by the options.
func (p *Process) Get(ctx context.Context, options ...Option) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, OwnURL, nil)
	require.NoError(p.T, err)
	for _, change := range options {
		change(req)
	}
	return p.Transport().RoundTrip(req)
}

// Due leaves a payment pending for the background. It is due at ten minutes plus in from now.
func (p *Process) Due(in time.Duration, options ...Option) {
	p.T.Helper()
	name := fmt.Sprint("invoice-", len(p.Everything()))
	require.ErrorIs(p.T, p.Ask(Named(p.T, name), append(options, With("X-Due", fmt.Sprint((10*time.Minute+in).Seconds())))...).Err, onceward.ErrPending)
}

// Arrives returns the context of a handler under Inbound, which accepts requests without a key here. The request is a
// POST with these header fields, given as name, value, name, value.
func (p *Process) Arrives(header ...string) context.Context {
	p.T.Helper()
	return p.ArrivesBy(http.MethodPost, header...)
}

func (p *Process) ArrivesBy(method string, header ...string) context.Context {
	p.T.Helper()
	inbound, err := server.Inbound(p.Client, OfTenant, server.InboundOptions{AllowKeyless: true})
	require.NoError(p.T, err)
	req := httptest.NewRequestWithContext(p.T.Context(), method, "/orders", nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	var ctx context.Context
	inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })).
		ServeHTTP(httptest.NewRecorder(), req)
	require.NotNil(p.T, ctx)
	return ctx
}

// Keyed returns the context under an inbound key of tenant-1.
func (p *Process) Keyed(key string) context.Context {
	p.T.Helper()
	return p.Arrives("Idempotency-Key", key)
}
