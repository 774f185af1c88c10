package inbound_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
)

// endpoints is a service with several endpoints. Each makes the same calls below its inbound key.
type endpoints struct {
	*process
	handler http.Handler
}

func endpointsOf(p *process, opts server.InboundOptions, serve func(r *http.Request) error) endpoints {
	p.T.Helper()
	inbound, err := server.Inbound(p.Client, ofTenant, opts)
	require.NoError(p.T, err)
	return endpoints{p, inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var failed *onceward.Error
		switch err := serve(r); {
		case err == nil:
			w.WriteHeader(http.StatusCreated)
		case errors.Is(err, onceward.ErrKeyReused):
			w.WriteHeader(http.StatusUnprocessableEntity)
			if errors.As(err, &failed) {
				fmt.Fprint(w, strings.Join(failed.Differs, ", "))
			}
		default:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))}
}

func (e endpoints) post(path string) (status int, body string) {
	req := httptest.NewRequestWithContext(e.T.Context(), http.MethodPost, path, nil)
	req.Header.Set("Idempotency-Key", "k-1")
	rec := httptest.NewRecorder()
	e.handler.ServeHTTP(rec, req)
	return rec.Code, rec.Body.String()
}

// A caller reuses its key at a second endpoint, whose handler makes a call of the same name. The call belongs to the
// first request. The second request must not report success.
func TestInboundKeyAtAnotherEndpoint(t *testing.T) {
	for _, call := range []struct {
		name  string
		under func(context.Context) context.Context
	}{
		{"an unnamed call", func(ctx context.Context) context.Context { return ctx }},
		{"a named call", func(ctx context.Context) context.Context { return onceward.WithOperation(ctx, "charge") }},
	} {
		t.Run(call.name, func(t *testing.T) {
			srv, p := inBox(t, providers.Stripe(), onceward.Config{
				Secret: testSecret, Journal: openSQLite(t, filepath.Join(t.TempDir(), "journal.db")),
			})
			charge := func(r *http.Request) error {
				return p.Ask(call.under(r.Context()), to(http.MethodPost, srv.URL+"/v1/charges")).Err
			}
			refused := func(t *testing.T, e endpoints, path string) {
				t.Helper()
				status, differs := e.post(path)
				assert.Equal(t, http.StatusUnprocessableEntity, status)
				assert.Equal(t, "inbound endpoint", differs)
			}
			made := func(t *testing.T, e endpoints, path string) {
				t.Helper()
				status, body := e.post(path)
				assert.Equal(t, http.StatusCreated, status, body)
			}

			byPath := endpointsOf(p, server.InboundOptions{}, charge)
			made(t, byPath, "/rides")
			refused(t, byPath, "/tips")
			made(t, byPath, "/rides?again=1")
			assert.Len(t, srv.Effects(), 1)

			t.Run("the name of an endpoint decides, and not its path", func(t *testing.T) {
				one := endpointsOf(p, server.InboundOptions{Endpoint: func(*http.Request) string { return "POST /rides" }}, charge)
				made(t, one, "/v2/rides")
				assert.Len(t, srv.Effects(), 1)
			})
			t.Run("an empty name, as of a request that no mux has served yet, is the default", func(t *testing.T) {
				none := endpointsOf(p, server.InboundOptions{Endpoint: func(r *http.Request) string { return r.Pattern }}, charge)
				refused(t, none, "/tips")
				made(t, none, "/rides")
				assert.Len(t, srv.Effects(), 1)
			})
			t.Run("a long name is compared as a whole", func(t *testing.T) {
				long := strings.Repeat("x", 300)
				e := endpointsOf(p, server.InboundOptions{KeysPerEndpoint: true, Endpoint: func(r *http.Request) string { return long + r.URL.Path }}, charge)
				made(t, e, "/a")
				made(t, e, "/b")
				made(t, e, "/a")
				assert.Len(t, srv.Effects(), 3)
			})
			t.Run("with keys per endpoint, each endpoint's charge is made once", func(t *testing.T) {
				each := endpointsOf(p, server.InboundOptions{KeysPerEndpoint: true}, charge)
				made(t, each, "/rides")
				made(t, each, "/tips")
				made(t, each, "/tips")
				assert.Len(t, srv.Effects(), 5)
			})
			t.Run("a path is the same however it is escaped", func(t *testing.T) {
				each := endpointsOf(p, server.InboundOptions{KeysPerEndpoint: true}, charge)
				made(t, each, "/%74ips")
				assert.Len(t, srv.Effects(), 5)
				for _, path := range []string{"/it's%2fone", "/it%27s%2Fone", "/i%74's%2Fone"} {
					made(t, each, path)
					assert.Len(t, srv.Effects(), 6, path)
				}
				made(t, each, "/it's/one")
				assert.Len(t, srv.Effects(), 7)
			})
		})
	}
}

// A caller reuses its key at a second endpoint while the first request still waits for its charge.
func TestInboundKeyAtAnotherEndpointAtOnce(t *testing.T) {
	for path, want := range map[string]int{"/rides": http.StatusCreated, "/tips": http.StatusUnprocessableEntity} {
		virtual(t, path, func(t *testing.T) {
			l := (&line{}).Always(takes(5*time.Second, says(200, paid)))
			p := start(t, l, onceward.Config{Secret: testSecret})
			e := endpointsOf(p, server.InboundOptions{}, func(r *http.Request) error {
				return p.Ask(onceward.WithOperation(r.Context(), "charge")).Err
			})
			first := make(chan int, 1)
			go func() {
				status, _ := e.post("/rides")
				first <- status
			}()
			pass(time.Second)
			status, _ := e.post(path)
			assert.Equal(t, want, status)
			assert.Equal(t, http.StatusCreated, <-first)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

func TestInboundFlowAtAnotherEndpoint(t *testing.T) {
	eachJournal(t, func(t *testing.T, open func() machine.Store) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Journal: open(), Secret: testSecret}, flow.Config{})
		pay := func(r *http.Request) error {
			return p.Flows.Do(r.Context(), "pay", nil, func(ctx context.Context) error {
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) { return "paid", p.Ask(ctx).Err })
				return err
			})
		}
		e := endpointsOf(p, server.InboundOptions{}, pay)
		for _, row := range []struct {
			path string
			want int
		}{{"/rides", http.StatusCreated}, {"/tips", http.StatusUnprocessableEntity}, {"/rides", http.StatusCreated}} {
			status, body := e.post(row.path)
			assert.Equal(t, row.want, status, "%s: %s", row.path, body)
		}
		assert.Len(t, l.Sent(), 1)
		each := endpointsOf(p, server.InboundOptions{KeysPerEndpoint: true}, pay)
		status, body := each.post("/tips")
		assert.Equal(t, http.StatusCreated, status, body)
		assert.Len(t, l.Sent(), 2)
	})
}
