package inbound_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
)

const chargeStep = "POST api.stripe.com/v1/charges"

func TestInboundNeedsATenantAndASecret(t *testing.T) {
	for _, row := range []struct {
		name   string
		cfg    onceward.Config
		tenant func(*http.Request) (string, error)
		says   string
	}{
		{"no secret", onceward.Config{}, ofTenant, "Config.Secret"},
		{"no tenant", onceward.Config{Secret: testSecret}, nil, "tenant is nil"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inbound, err := server.Inbound(start(t, &line{}, row.cfg).Client, row.tenant, server.InboundOptions{})
			require.ErrorContains(t, err, row.says)
			assert.Nil(t, inbound)
		})
	}
}

// A repeated inbound request repeats its calls with the same keys.
func TestInboundRepeatHasTheSameKeys(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, first, second string }{
		{"raw", "order-1", "order-1"},
		{"quoted, then raw", `"order-1"`, "order-1"},
		{"with parameters", "order-1", ` "order-1"; a=1 `},
	} {
		t.Run(row.name, func(t *testing.T) {
			srv, p := inBox(t, providers.Stripe(), onceward.Config{
				Secret: testSecret, Journal: openSQLite(t, filepath.Join(t.TempDir(), "journal.db")),
			})
			inbound, err := server.Inbound(p.Client, ofTenant, server.InboundOptions{})
			require.NoError(t, err)
			orders := httptest.NewServer(inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for _, ctx := range []context.Context{r.Context(), onceward.WithOperation(r.Context(), "fee"), r.Context()} {
					out := p.Ask(ctx, to(http.MethodPost, srv.URL+"/v1/charges"))
					fmt.Fprintln(w, out.Op.Scope, out.Op.Parent, out.Op.ID, out.Op.Replayed, out.Err)
				}
			})))
			t.Cleanup(orders.Close)
			host := strings.TrimPrefix(srv.URL, "http://")
			want := func(replayed bool) string {
				return fmt.Sprintf("tenant-1 inbound order-1 POST %[1]s/v1/charges %[2]v <nil>\n"+
					"tenant-1 inbound order-1 fee %[2]v <nil>\n"+
					"tenant-1 inbound order-1 POST %[1]s/v1/charges #2 %[2]v <nil>\n", host, replayed)
			}
			assert.Equal(t, want(false), post(t, orders, row.first))
			assert.Equal(t, want(true), post(t, orders, row.second))
			require.Len(t, srv.Effects(), 3)
			for i, step := range []string{"POST " + host + "/v1/charges", "fee", "POST " + host + "/v1/charges #2"} {
				key, err := onceward.DeriveKey(testSecret, "child", "tenant-1", "order-1", step)
				require.NoError(t, err)
				assert.Equal(t, string(key), srv.Effects()[i].Key)
			}
		})
	}
}

func post(t *testing.T, srv *httptest.Server, key string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/orders", nil)
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", key)
	resp, err := srv.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

// malformedKeys are header lines without a valid key, and the reason of each.
var malformedKeys = []struct {
	name   string
	lines  []string
	detail string
}{
	{"two lines", []string{"k-4711", "k-4711"}, "stands in 2 header lines"},
	{"two lines in one", []string{"k-4711,k-4711"}, "holds a comma or a semicolon outside of quotes"},
	{"two lines in one, with a space", []string{"k-4711, k-4712"}, "holds a comma or a semicolon outside of quotes"},
	{"a bare key with parameters", []string{"k-4711;a=b"}, "holds a comma or a semicolon outside of quotes"},
	{"empty", []string{""}, "is empty"},
	{"an empty string", []string{`""`}, "is empty"},
	{"too long", []string{"k-4711" + strings.Repeat("k", 250)}, "is longer than 255 bytes"},
	{"an address", []string{"k-4711@example.com"}, "contains an @"},
	{"a space", []string{"k-4711 2"}, "not visible ASCII"},
	{"a quoted space", []string{`"k-4711 2"`}, "not visible ASCII"},
	{"beyond ASCII", []string{"k-4711ö"}, "not visible ASCII"},
	{"an open quote", []string{`"k-4711`}, "not a structured field string"},
	{"more after the quotes", []string{`"k-4711"2`}, "not a structured field string"},
	{"a list", []string{`"k-4711", "k-4712"`}, "not a structured field string"},
}

// badRequest sends a POST with these header lines as keys through in, which has to refuse it. It returns the detail of
// the refusal.
func badRequest(t *testing.T, in func(http.Handler) http.Handler, lines []string) string {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", nil)
	req.Header["Idempotency-Key"] = lines
	rec := httptest.NewRecorder()
	in(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { assert.Fail(t, "served") })).ServeHTTP(rec, req)
	assert.Equal(t, 400, rec.Code)
	assert.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))
	var problem struct {
		Title, Detail string
		Status        int
	}
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &problem))
	assert.Equal(t, "Bad Request", problem.Title)
	assert.Equal(t, 400, problem.Status)
	return problem.Detail
}

func noTenant(t *testing.T) func(*http.Request) (string, error) {
	return func(*http.Request) (string, error) {
		assert.Fail(t, "there is nothing to ask it for")
		return "", nil
	}
}

func TestAMalformedInboundKeyIsRefused(t *testing.T) {
	for _, row := range malformedKeys {
		t.Run(row.name, func(t *testing.T) {
			p := start(t, &line{}, onceward.Config{Secret: testSecret})
			for _, opts := range []server.InboundOptions{{}, {AllowKeyless: true}} {
				inbound, err := server.Inbound(p.Client, noTenant(t), opts)
				require.NoError(t, err)
				detail := badRequest(t, inbound, row.lines)
				assert.Contains(t, detail, row.detail)
				assert.NotContains(t, detail, "4711")
			}
		})
	}
}

func TestAnInboundRequestWithoutAKeyIsRefused(t *testing.T) {
	p := start(t, &line{}, onceward.Config{Secret: testSecret})
	inbound, err := server.Inbound(p.Client, noTenant(t), server.InboundOptions{})
	require.NoError(t, err)
	assert.Contains(t, badRequest(t, inbound, nil), "needs a key in the Idempotency-Key header")
}

func TestASafeInboundRequestPasses(t *testing.T) {
	p := start(t, &line{}, onceward.Config{Secret: testSecret})
	inbound, err := server.Inbound(p.Client, noTenant(t), server.InboundOptions{})
	require.NoError(t, err)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		for _, lines := range [][]string{nil, {""}, {"k", "k"}, {"k;a=b"}} {
			served := false
			req := httptest.NewRequestWithContext(t.Context(), method, "/orders", nil)
			req.Header["Idempotency-Key"] = lines
			inbound(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).ServeHTTP(httptest.NewRecorder(), req)
			assert.True(t, served, "%s %q", method, lines)
		}
	}
}

// Without a tenant in each name, one of three charges would be made, and one tenant would get the answer of another.
func TestTenantsWithoutKeysShareNoOperation(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		virtual(t, "a name is its tenant's, by "+method, func(t *testing.T) {
			l := (&line{}).Then(says(200, `{"id":"a"}`), says(200, `{"id":"b"}`))
			p := startFlows(t, l, onceward.Config{Secret: testSecret})
			for _, row := range []struct{ tenant, answer string }{{"a", `{"id":"a"}`}, {"b", `{"id":"b"}`}, {"a", `{"id":"a"}`}} {
				out := p.Ask(onceward.WithOperation(p.ArrivesBy(method, "Tenant", row.tenant), "charge"))
				require.NoError(t, out.Err)
				assert.Equal(t, row.answer, out.Body)
				assert.Equal(t, onceward.Ref{Scope: row.tenant, ID: "charge"}, out.Op.Ref)
			}
			assert.Len(t, l.Sent(), 2)
			assert.Len(t, distinct(l.Keys()), 2)
		})

		virtual(t, "one tenant's order makes no other tenant's fail, by "+method, func(t *testing.T) {
			l := &line{}
			p := startFlows(t, l, onceward.Config{Secret: testSecret})
			require.NoError(t, p.Ask(onceward.WithOperation(p.ArrivesBy(method, "Tenant", "hostile"), "charge"), body("amount=1")).Err)
			require.NoError(t, p.Ask(onceward.WithOperation(p.ArrivesBy(method, "Tenant", "a"), "charge")).Err)
		})

		virtual(t, "and a flow, by "+method, func(t *testing.T) {
			l := &line{}
			p := startFlows(t, l, onceward.Config{Secret: testSecret})
			for _, tenant := range []string{"a", "b", "a"} {
				require.NoError(t, p.Flow(p.ArrivesBy(method, "Tenant", tenant), "order-991", nil, p.Sequence("charge")))
				f, err := p.Flows.Flow(t.Context(), onceward.Ref{Scope: tenant, ID: "order-991"})
				require.NoError(t, err)
				assert.Equal(t, flow.StateFinished, f.State)
			}
			assert.Len(t, l.Sent(), 2)
		})

		virtual(t, "no other scope can be set, by "+method, func(t *testing.T) {
			l := &line{}
			p := startFlows(t, l, onceward.Config{Secret: testSecret})
			ctx := onceward.WithScope(p.ArrivesBy(method, "Tenant", "a"), "b")
			require.ErrorIs(t, p.Ask(onceward.WithOperation(ctx, "charge")).Err, onceward.ErrInvalidRequest)
			require.ErrorIs(t, p.Flow(ctx, "order-991", nil, p.Sequence("charge")), onceward.ErrInvalidRequest)
			assert.Empty(t, l.Sent())
			out := p.Ask(onceward.WithOperation(onceward.WithParent(ctx, ""), "charge"))
			require.NoError(t, out.Err)
			assert.Equal(t, onceward.Ref{Scope: "b", ID: "charge"}, out.Op.Ref)
		})
	}
}

// Unnamed calls below a request without a key are unnamed as elsewhere: a repeated request could not find a name of theirs.
func TestInboundKeylessRequestsCallsAreUnnamed(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		virtual(t, method, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Secret: testSecret})
			ctx := p.ArrivesBy(method, "Tenant", "a")
			out := p.Ask(ctx)
			require.NoError(t, out.Err)
			assert.Equal(t, carriedRef(l.Keys()[0]), out.Op.Ref)
			out = p.Ask(ctx, to(http.MethodPost, "https://elsewhere.example/search"))
			require.NoError(t, out.Err)
			assert.Zero(t, out.Op, "a search passes straight through")
		})
	}
}

// A name below a safe request without a known tenant is refused.
func TestInboundSafeRequestOfNoTenant(t *testing.T) {
	l := &line{}
	p := start(t, l, onceward.Config{Secret: testSecret})
	inbound, err := server.Inbound(p.Client, func(*http.Request) (string, error) { return "", errors.New("nobody is authenticated") }, server.InboundOptions{})
	require.NoError(t, err)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/orders", nil)
	inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		out := p.Ask(onceward.WithOperation(r.Context(), "charge"))
		require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
		assert.ErrorContains(t, out.Err, "nobody is authenticated")
		asked, err := http.NewRequestWithContext(r.Context(), http.MethodPost, chargeURL, nil)
		require.NoError(t, err)
		_, err = p.OperationByKey(asked, "key-1")
		assert.ErrorContains(t, err, "nobody is authenticated")
		require.NoError(t, p.Ask(r.Context()).Err)
	})).ServeHTTP(httptest.NewRecorder(), req)
	assert.Len(t, l.Sent(), 1)
}

// An inbound key without a known tenant is not served.
func TestInboundKeyOfNoTenantIsNotServed(t *testing.T) {
	for name, tenant := range map[string]func(*http.Request) (string, error){
		"an error":            func(*http.Request) (string, error) { return "tenant-1", errors.New("no s3cret") },
		"empty":               func(*http.Request) (string, error) { return "", nil },
		"too long":            func(*http.Request) (string, error) { return strings.Repeat("t", 513), nil },
		"a control character": func(*http.Request) (string, error) { return "tenant\n1", nil },
	} {
		t.Run(name, func(t *testing.T) {
			inbound, err := server.Inbound(start(t, &line{}, onceward.Config{Secret: testSecret}).Client, tenant, server.InboundOptions{})
			require.NoError(t, err)
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", nil)
			req.Header.Set("Idempotency-Key", "order-1")
			rec := httptest.NewRecorder()
			inbound(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { assert.Fail(t, "served") })).ServeHTTP(rec, req)
			assert.Equal(t, 500, rec.Code)
			assert.JSONEq(t, `{"title":"Internal Server Error","status":500}`, rec.Body.String())
		})
	}
}

// An inbound key reaches no operation of another tenant, or of the application itself.
func TestInboundKeysOfOtherTenants(t *testing.T) {
	virtual(t, "another tenant's, the application's own, or those of its own parents", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Secret: testSecret})
		own := onceward.WithScope(t.Context(), "tenant-1")
		refs := map[onceward.Ref]bool{}
		for _, ctx := range []context.Context{
			p.Keyed("charge"),
			p.Arrives("Idempotency-Key", "charge", "Tenant", "tenant-2"),
			p.Keyed("tenant-1"),
			p.Keyed("inbound"),
			own,
			onceward.WithParent(own, "charge"),
			onceward.WithParent(own, "inbound"),
			t.Context(),
			onceward.WithParent(t.Context(), "charge"),
		} {
			out := p.Ask(onceward.WithOperation(ctx, "charge"), with("Stripe-Account", fmt.Sprint("acct_", len(refs))))
			require.NoError(t, out.Err)
			refs[out.Op.Ref] = true
		}
		assert.Len(t, refs, 9)
		wire := map[string]bool{}
		for _, key := range l.Keys()[:8] {
			wire[key] = true
		}
		assert.Len(t, wire, 8, "Child knows no scope: the last has the key of the same parent under tenant-1")
	})
}

// Every host derives the same keys from an inbound key.
func TestInboundKeyIsTheSameOnEveryHost(t *testing.T) {
	virtual(t, "and none without the secret", func(t *testing.T) {
		l := &line{}
		for _, secret := range []string{"0123456789abcdef", "0123456789abcdef", "fedcba9876543210"} {
			p := start(t, l, onceward.Config{Secret: []byte(secret)})
			require.NoError(t, p.Ask(p.Keyed("order-1")).Err)
		}
		assert.Equal(t, l.Keys()[0], l.Keys()[1])
		assert.NotEqual(t, l.Keys()[0], l.Keys()[2])
	})
}

// WithScope does not move an inbound key to another tenant.
func TestInboundKeyIsNotMovedByWithScope(t *testing.T) {
	virtual(t, "it is refused, unless the operation leaves the parent", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Secret: testSecret})
		ctx := p.Keyed("order-1")
		out := p.Ask(onceward.WithOperation(onceward.WithScope(ctx, "tenant-2"), "charge"))
		require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
		assert.Empty(t, l.Sent())

		out = p.Ask(onceward.WithOperation(onceward.WithScope(ctx, "tenant-1"), "charge"))
		require.NoError(t, out.Err)
		out = p.Ask(onceward.WithOperation(onceward.WithScope(onceward.WithParent(ctx, ""), "tenant-2"), "charge"))
		require.NoError(t, out.Err)
		assert.Equal(t, onceward.Ref{Scope: "tenant-2", ID: "charge"}, out.Op.Ref)
	})
}

// parents are the two kinds of contexts below which unnamed calls get step names.
var parents = map[string]func(p *process) context.Context{
	"inbound": func(p *process) context.Context { return p.Keyed("order-1") },
	"own":     func(p *process) context.Context { return onceward.WithParent(p.T.Context(), "order-1") },
}

// underParents runs a test in virtual time for both kinds of parents. run returns another run's context.
func underParents(t *testing.T, name string, f func(t *testing.T, l *line, p *process, run func() context.Context)) {
	t.Helper()
	for kind, parent := range parents {
		virtual(t, name+" ("+kind+")", func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Secret: testSecret, Backoff: once, Providers: []providers.Provider{providers.Stripe(), own()}})
			f(t, l, p, func() context.Context { return parent(p) })
		})
	}
}

func TestUnnamedCallsGetNumberedSteps(t *testing.T) {
	underParents(t, "of method, host and path", func(t *testing.T, l *line, p *process, run func() context.Context) {
		for _, row := range []struct{ method, url, step string }{
			{"POST", "https://api.stripe.com/v1/charges", chargeStep},
			{"POST", "https://API.stripe.com:443/v1/refunds?expand[]=x", "POST api.stripe.com/v1/refunds"},
			{"DELETE", "https://api.stripe.com/v1/charges", "DELETE api.stripe.com/v1/charges"},
			{"PUT", "https://own.example/orders/a%20%23b%2Fc", "PUT own.example/orders/a%20%23b%2Fc"},
			{"POST", "https://own.example", "POST own.example/"},
			{"POST", "http://elsewhere.example:80/x", "POST elsewhere.example/x"},
			{"POST", "http://elsewhere.example:443/x", "POST elsewhere.example:443/x"},
		} {
			out := p.Ask(run(), to(row.method, row.url))
			require.NoError(t, out.Err, row.url)
			assert.Equal(t, row.step, out.Op.ID)
		}
	})

	underParents(t, "alike ones in sequence get the next ordinals, the same in every run", func(t *testing.T, l *line, p *process, run func() context.Context) {
		l.Then(says(200, paid), declined) // a refusal is an answer, too
		for again := range 3 {
			ctx := run()
			for n, step := range []string{chargeStep, chargeStep + " #2", chargeStep + " #3"} {
				out := p.Ask(ctx, body(fmt.Sprint("amount=", n)))
				require.NoError(t, out.Err)
				assert.Equal(t, step, out.Op.ID)
				assert.Equal(t, again > 0, out.Op.Replayed)
			}
		}
		require.Len(t, l.Sent(), 3)
	})

	underParents(t, "calls without an effect are not counted", func(t *testing.T, l *line, p *process, run func() context.Context) {
		ctx := run()
		token := func() outcome {
			return p.Ask(ctx, to(http.MethodPost, "https://login.example/token"), body("grant_type=client_credentials"))
		}
		for range 2 {
			require.NoError(t, p.Ask(ctx, to(http.MethodGet, chargeURL)).Err)
			require.NoError(t, token().Err)
		}
		var inner error
		l.Then(doing(func() { inner = token().Err }, says(200, paid)))
		out := p.Ask(ctx)
		require.NoError(t, errors.Join(inner, out.Err))
		assert.Equal(t, chargeStep, out.Op.ID)
		assert.Len(t, p.Everything(), 1)
	})

	underParents(t, "a host without a provider is no exception: journaled, never resent", func(t *testing.T, l *line, p *process, run func() context.Context) {
		l.Then(loses())
		elsewhere := to(http.MethodPost, "https://elsewhere.example/orders")
		for range 2 {
			out := p.Ask(run(), elsewhere)
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, "POST elsewhere.example/orders", out.Op.ID)
		}
		assert.Len(t, l.Sent(), 1)
		out := p.Ask(onceward.WithParent(run(), ""), elsewhere)
		require.NoError(t, out.Err)
		assert.Zero(t, out.Op, "out from under the parent it passes straight through")
	})

	underParents(t, "the child key goes where the endpoint takes it", func(t *testing.T, l *line, p *process, run func() context.Context) {
		inBody := own(func(e *providers.Endpoint) { e.Key = providers.Key{Place: providers.KeyJSONField, Name: "reference"} })
		p = start(t, l, onceward.Config{Secret: testSecret, Journal: p.Journal.Store, Providers: []providers.Provider{inBody}})
		order := []option{to(http.MethodPost, ownURL), body(`{"amount":100}`), with("Content-Type", "application/json")}
		for range 2 {
			ctx := run()
			for n, step := range []string{"POST own.example/orders", "POST own.example/orders #2"} {
				out := p.Ask(ctx, order...)
				require.NoError(t, out.Err)
				assert.Equal(t, step, out.Op.ID)
				assert.Contains(t, l.Sent()[n].Body, `"reference":"`+string(out.Op.Key)+`"`)
			}
		}
		assert.Len(t, l.Sent(), 2)
	})

	underParents(t, "what can't be repeated is refused", func(t *testing.T, l *line, p *process, run func() context.Context) {
		out := p.Ask(run(), func(r *http.Request) { r.TransferEncoding = []string{"chunked"} })
		require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
		assert.Empty(t, l.Sent())
	})

	underParents(t, "one that is too long asks for a name", func(t *testing.T, l *line, p *process, run func() context.Context) {
		ctx, long := run(), to(http.MethodPost, ownURL+"/"+strings.Repeat("x", 512))
		for range 2 {
			err := p.Ask(ctx, long).Err
			require.ErrorIs(t, err, onceward.ErrNameNeeded)
			require.ErrorContains(t, err, "bytes")
		}
		assert.Empty(t, l.Sent())
		require.NoError(t, p.Ask(onceward.WithOperation(ctx, "put"), long).Err)
	})
}

// A call's second try keeps its step. A new step would be a second effect once the first is sent again in the
// background.
func TestRetryingCallerHasTheSameStep(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		first reply
		state onceward.State
	}{
		{"no answer", loses(), onceward.StatePending},
		{"not sent", refuses(), onceward.StatePending},
		{"an error of the provider", says(503, ""), onceward.StatePending},
		{"too many requests", limited, onceward.StatePending},
		{"a wrong credential", wrongKey, onceward.StateCancelled},
		{"an unknown outcome", frozen, onceward.StateUnknown},
	} {
		underParents(t, row.name, func(t *testing.T, l *line, p *process, run func() context.Context) {
			l.Then(row.first)
			ctx := run()
			first := p.Ask(ctx, carrying("sdk-1"))
			assert.Equal(t, row.state, p.Recorded(onceward.Ref{Scope: first.Op.Scope, Parent: first.Op.Parent, ID: chargeStep}).State)
			pass(time.Hour)
			second := p.Ask(ctx, carrying("sdk-2"))
			assert.Equal(t, chargeStep, second.Op.ID)
			if row.state == onceward.StateUnknown {
				require.ErrorIs(t, second.Err, onceward.ErrOutcomeUnknown)
				assert.Len(t, p.Everything(), 1)
				return
			}
			require.NoError(t, second.Err)
			assert.Equal(t, onceward.StateCompleted, second.Op.State)
			third := p.Ask(ctx, carrying("sdk-3"))
			assert.Equal(t, chargeStep+" #2", third.Op.ID, "by then the first was answered")
		})
	}

	underParents(t, "a carried key is one step", func(t *testing.T, l *line, p *process, run func() context.Context) {
		ctx := run()
		for _, row := range []struct{ key, step string }{
			{"sdk-1", chargeStep},
			{"sdk-1", chargeStep},
			{"sdk-2", chargeStep + " #2"},
			{"sdk-1", chargeStep},
			{"sdk-3", chargeStep + " #3"},
		} {
			out := p.Ask(ctx, carrying(row.key))
			require.NoError(t, out.Err)
			assert.Equal(t, row.step, out.Op.ID)
		}
		assert.Len(t, l.Sent(), 3)
	})

	underParents(t, "an earlier step asked again says nothing of the latest", func(t *testing.T, l *line, p *process, run func() context.Context) {
		l.Then(says(200, paid), loses())
		ctx := run()
		require.NoError(t, p.Ask(ctx, carrying("sdk-1")).Err)
		require.ErrorIs(t, p.Ask(ctx, carrying("sdk-2")).Err, onceward.ErrPending)
		require.NoError(t, p.Ask(ctx, carrying("sdk-1")).Err)
		pass(time.Hour)
		out := p.Ask(ctx, carrying("sdk-3"))
		require.NoError(t, out.Err)
		assert.Equal(t, chargeStep+" #2", out.Op.ID)
		assert.Len(t, p.Everything(), 2)
	})

	underParents(t, "an answer that was cut is asked for again, not made again", func(t *testing.T, l *line, p *process, run func() context.Context) {
		once := own(func(e *providers.Endpoint) { e.Remembers, e.Retention = providers.Nothing, 0 })
		p = start(t, l, onceward.Config{Secret: testSecret, Journal: p.Journal.Store, Providers: []providers.Provider{once}})
		l.Then(cuts(200, paid))
		ctx := run()
		for range 2 {
			out := p.Ask(ctx, to(http.MethodPost, ownURL))
			require.ErrorIs(t, out.Err, io.ErrUnexpectedEOF)
			assert.Equal(t, "POST own.example/orders", out.Op.ID)
		}
		assert.Len(t, l.Sent(), 1)
	})

	underParents(t, "while Resume sends it, too", func(t *testing.T, l *line, p *process, run func() context.Context) {
		l.Then(loses())
		ctx := run()
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
		pass(time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, report.Completed)
		out := p.Ask(ctx)
		require.NoError(t, out.Err)
		assert.True(t, out.Op.Replayed)
		assert.Equal(t, chargeStep, out.Op.ID)
		assert.Equal(t, l.Keys()[0], l.Keys()[1])
		assert.Len(t, l.Sent(), 2)
	})
}

func TestConcurrentEqualCallsNeedNames(t *testing.T) {
	underParents(t, "and from then on all of them do", func(t *testing.T, l *line, p *process, run func() context.Context) {
		l.Always(takes(time.Second, says(200, paid)))
		ctx := run()
		first := make(chan outcome, 1)
		go func() { first <- p.Ask(ctx) }()
		synctest.Wait()
		second := p.Ask(ctx)
		require.ErrorIs(t, second.Err, onceward.ErrNameNeeded)
		assert.ErrorContains(t, second.Err, "WithOperation")
		assert.ErrorContains(t, second.Err, chargeStep)
		assert.NoError(t, p.Ask(ctx, to(http.MethodPost, chargeURL+"/capture")).Err, "this one is not alike")
		require.NoError(t, (<-first).Err)
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrNameNeeded)
		assert.Len(t, l.Sent(), 2)
		require.NoError(t, p.Ask(run()).Err, "the next run finds what the first did")
	})

	underParents(t, "named ones run at once", func(t *testing.T, l *line, p *process, run func() context.Context) {
		l.Always(takes(time.Second, says(200, paid)))
		for range 2 {
			ctx, done := run(), make(chan outcome, 8)
			for n := range 8 {
				go func() { done <- p.Ask(onceward.WithOperation(ctx, fmt.Sprint("charge-", n))) }()
			}
			for range 8 {
				require.NoError(t, (<-done).Err)
			}
		}
		assert.Len(t, l.Sent(), 8)
	})

	underParents(t, "two runs at once share their steps", func(t *testing.T, l *line, p *process, run func() context.Context) {
		l.Always(takes(time.Second, says(200, paid)))
		done := make(chan outcome, 2)
		for range 2 {
			ctx := run()
			go func() { done <- p.Ask(ctx) }()
		}
		for range 2 {
			out := <-done
			require.NoError(t, out.Err)
			assert.Equal(t, chargeStep, out.Op.ID)
		}
		assert.Len(t, l.Sent(), 1)
	})
}

// Another body under the same step is refused.
func TestAnotherBodyUnderAStepIsRefused(t *testing.T) {
	underParents(t, "in a later run", func(t *testing.T, l *line, p *process, run func() context.Context) {
		require.NoError(t, p.Ask(run()).Err)
		out := p.Ask(run(), body("amount=200&currency=eur"))
		require.ErrorIs(t, out.Err, onceward.ErrKeyReused)
		var e *onceward.Error
		require.ErrorAs(t, out.Err, &e)
		assert.Equal(t, []string{"body"}, e.Differs)
		assert.Len(t, l.Sent(), 1)
	})
	underParents(t, "in the same run, before the first is answered", func(t *testing.T, l *line, p *process, run func() context.Context) {
		l.Then(loses())
		ctx := run()
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
		require.ErrorIs(t, p.Ask(ctx, body("amount=200&currency=eur")).Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 1)
	})
}

func FuzzInboundKeys(f *testing.F) {
	for _, value := range []string{"order-1", `"order-1"`, `"a\"b\\c"`, `"order-1"; p=1`, "", `"`, `""`, "a,b", "\x00", "é", `%"x"`, ":eHg=:", "inbound k", "a@b", "(a b)", "a;b=c", `"a,b;c"`} {
		f.Add(value, "")
		f.Add(value, value)
	}
	l := &line{}
	p, err := onceward.New(onceward.Config{
		Secret: testSecret, Journal: memory.New(), Providers: []providers.Provider{providers.Stripe()},
		HTTPClient: &http.Client{Transport: l},
	})
	require.NoError(f, err)
	f.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	inbound, err := server.Inbound(p, ofTenant, server.InboundOptions{})
	require.NoError(f, err)
	hc := p.HTTPClient()

	// refs returns the references of a named and an unnamed call under ctx.
	refs := func(t *testing.T, ctx context.Context) (found []onceward.Ref) {
		for _, ctx := range []context.Context{onceward.WithOperation(ctx, "charge"), ctx} {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, chargeURL, strings.NewReader(chargeForm))
			require.NoError(t, err)
			resp, err := hc.Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			op, _ := onceward.OperationOf(resp)
			found = append(found, op.Ref)
		}
		return found
	}
	f.Fuzz(func(t *testing.T, value, second string) {
		arrives := func(tenant string) (found []onceward.Ref) {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", nil)
			req.Header.Set("Tenant", tenant)
			req.Header.Add("Idempotency-Key", value)
			if second != "" {
				req.Header.Add("Idempotency-Key", second)
			}
			rec := httptest.NewRecorder()
			inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { found = refs(t, r.Context()) })).
				ServeHTTP(rec, req)
			require.Equal(t, found == nil, rec.Code == http.StatusBadRequest)
			return found
		}
		one, two := arrives("tenant-1"), arrives("tenant-2")
		if one == nil {
			require.Nil(t, two)
			return
		}
		require.Empty(t, second, "two lines are malformed")
		for i := range one {
			parent, ok := strings.CutPrefix(one[i].Parent, "inbound ")
			require.True(t, ok)
			require.NoError(t, onceward.Key(parent).Validate())
			require.Error(t, onceward.Key(one[i].Parent).Validate(), "no key of one's own can be that parent")
			require.Equal(t, onceward.Ref{Scope: "tenant-1", Parent: one[i].Parent, ID: one[i].ID}, one[i])
			require.Equal(t, onceward.Ref{Scope: "tenant-2", Parent: one[i].Parent, ID: one[i].ID}, two[i])
			mine, err := p.Operation(t.Context(), one[i])
			require.NoError(t, err)
			others, err := p.Operation(t.Context(), two[i])
			require.NoError(t, err)
			require.NotEqual(t, mine.Key, others.Key)
		}
		require.Equal(t, one, arrives("tenant-1"), "the same again")
	})
}

// A carried key below a safe inbound request belongs to its tenant. A service may pass on a key in a GET, too.
func TestInboundSafeRequestsCarriedKey(t *testing.T) {
	stripe := providers.Stripe()
	for _, perScope := range []bool{false, true} {
		stripe.KeysPerScope = perScope
		l := &line{}
		p := start(t, l, onceward.Config{Secret: testSecret, Providers: []providers.Provider{stripe}})
		a, b := p.ArrivesBy(http.MethodGet, "Tenant", "a"), p.ArrivesBy(http.MethodGet, "Tenant", "b")
		of := p.Ask(a, carrying("from-a-stranger"))
		require.NoError(t, of.Err)
		assert.Equal(t, "a", of.Op.Scope)
		other := p.Ask(b, carrying("from-a-stranger"))
		if perScope {
			require.NoError(t, other.Err)
			assert.False(t, other.Op.Replayed, "it is answered by its own")
			assert.Len(t, l.Sent(), 2)
		} else {
			require.ErrorIs(t, other.Err, onceward.ErrKeyReused)
			assert.Nil(t, other.Op.Answer)
			assert.Len(t, l.Sent(), 1)
		}
		req, err := http.NewRequestWithContext(a, http.MethodPost, chargeURL, nil)
		require.NoError(t, err)
		found, err := p.OperationByKey(req, "from-a-stranger")
		require.NoError(t, err)
		assert.Equal(t, of.Op.Ref, found.Ref)
		require.ErrorIs(t, p.Ask(onceward.WithScope(a, "b"), carrying("from-a-stranger")).Err, onceward.ErrInvalidRequest)
	}
}
