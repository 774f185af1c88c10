package inbound_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/server"
)

// hop is a service in a chain. Its processes crash one after the other, before and after they send, and after they have
// handled a request.
type hop struct {
	t       *testing.T
	name    string
	srv     *httptest.Server
	journal machine.Store
	calls   func(p *process, r *http.Request) error
	next    providers.Provider
	via     http.RoundTripper

	mu      sync.Mutex
	fate    *rand.Rand
	crashes int
	left    int // crashes still to come
	now     *process
	handler http.Handler
}

func newHop(t *testing.T, name string, seed uint64, next providers.Provider, calls func(*process, *http.Request) error) *hop {
	t.Helper()
	h := &hop{
		t: t, name: name, calls: calls, next: next, via: &http.Transport{}, left: 15,
		journal: openSQLite(t, filepath.Join(t.TempDir(), name+".db")),
		fate:    rand.New(rand.NewPCG(seed, uint64(len(name)))),
	}
	h.start()
	h.srv = httptest.NewServer(h)
	t.Cleanup(h.srv.Close)
	return h
}

// secretOf returns the secret of all processes of a service.
func secretOf(name string) []byte { return []byte("the secret of " + name) }

func (h *hop) provider() providers.Provider {
	return providers.IETF(24*time.Hour, h.srv.Listener.Addr().String()).WithStoredFailures()
}

// start starts the next process. h.mu is held, or h is not shared yet.
func (h *hop) start() {
	var p *process
	p = start(h.t, roundTrip(func(req *http.Request) (*http.Response, error) {
		if h.mayCrash(p) {
			return nil, severed.Err
		}
		resp, err := h.via.RoundTrip(req)
		if err == nil && h.mayCrash(p) {
			resp.Body.Close()
			return nil, severed.Err
		}
		return resp, err
	}), onceward.Config{
		Journal: h.journal, Secret: secretOf(h.name), Providers: []providers.Provider{h.next}, Backoff: quick,
	})
	inbound, err := server.Inbound(p.Client, func(*http.Request) (string, error) { return "the chain", nil }, server.InboundOptions{})
	require.NoError(h.t, err)
	h.now = p
	h.handler = inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := h.calls(p, r)
		if h.mayCrash(p) || p.Crashed() {
			panic(http.ErrAbortHandler)
		}
		switch {
		case err == nil:
		case errors.Is(err, onceward.ErrInFlight):
			http.Error(w, "", http.StatusConflict)
		default:
			assert.NotErrorIs(h.t, err, onceward.ErrOutcomeUnknown)
			assert.NotErrorIs(h.t, err, onceward.ErrKeyReused)
			http.Error(w, "", http.StatusServiceUnavailable)
		}
	}))
}

// mayCrash ends p at random, unless it has ended already, and starts its successor. It reports whether it did.
func (h *hop) mayCrash(p *process) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left == 0 || p != h.now || h.fate.IntN(4) > 0 {
		return false
	}
	h.left--
	h.crashes++
	h.now.Crash()
	h.start()
	return true
}

func (h *hop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	handler := h.handler
	h.mu.Unlock()
	handler.ServeHTTP(w, r)
}

// succeeds returns an error unless the call's status is 200.
func succeeds(out outcome) error {
	if out.Err == nil && out.Status != http.StatusOK {
		return fmt.Errorf("status %d", out.Status)
	}
	return out.Err
}

// insist sends requests with the same key until the answer is a success.
func insist(t *testing.T, h *hop, key onceward.Key) {
	for t.Context().Err() == nil {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.srv.URL+"/", nil)
		if !assert.NoError(t, err) {
			return
		}
		req.Header.Set("Idempotency-Key", string(key))
		resp, err := h.via.RoundTrip(req)
		if err != nil {
			continue // its process crashed
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
}

// childOf returns the key that a service sends for a request's step.
func childOf(t *testing.T, h *hop, inbound onceward.Key, step string) onceward.Key {
	t.Helper()
	key, err := onceward.DeriveKey(secretOf(h.name), "child", "the chain", string(inbound), step)
	require.NoError(t, err)
	return key
}

// A chain of services has one effect for each call through crashes.
func TestInboundChainOfServices(t *testing.T) {
	t.Parallel()
	for n := range soak.Times(1, 20) {
		t.Run(fmt.Sprint("chain ", n), func(t *testing.T) {
			seed := soak.Seed(t, 1) + uint64(n)
			box := providertest.NewServer(providers.Stripe(), http.HandlerFunc(pays))
			t.Cleanup(box.Close)
			c := newHop(t, "the last service", seed, box.Provider(), func(p *process, r *http.Request) error {
				return succeeds(p.Ask(r.Context(), to(http.MethodPost, box.URL+"/v1/charges")))
			})
			b := newHop(t, "the middle service", seed, c.provider(), func(p *process, r *http.Request) error {
				return succeeds(p.Ask(r.Context(), to(http.MethodPost, c.srv.URL+"/payments")))
			})
			a := newHop(t, "the first service", seed, b.provider(), func(p *process, r *http.Request) error {
				for _, ctx := range []context.Context{r.Context(), r.Context(), onceward.WithOperation(r.Context(), "receipt")} {
					if err := succeeds(p.Ask(ctx, to(http.MethodPost, b.srv.URL+"/orders"))); err != nil {
						return err
					}
				}
				return nil
			})

			var wanted []string
			var top sync.WaitGroup
			for n := range 4 {
				order := onceward.Key(fmt.Sprint("order-", n))
				top.Go(func() { insist(t, a, order) })
				step := func(path string, h *hop) string { return "POST " + h.srv.Listener.Addr().String() + path }
				for _, first := range []string{step("/orders", b), step("/orders", b) + " #2", "receipt"} {
					key := childOf(t, a, order, first)
					key = childOf(t, b, key, step("/payments", c))
					key = childOf(t, c, key, "POST "+strings.TrimPrefix(box.URL, "http://")+"/v1/charges")
					wanted = append(wanted, string(key))
				}
			}
			top.Wait()
			var got []string
			for _, effect := range box.Effects() {
				got = append(got, effect.Key)
			}
			slices.Sort(wanted)
			slices.Sort(got)
			assert.Equal(t, wanted, got)
			for _, h := range []*hop{a, b, c} {
				assert.Positive(t, h.crashes, h.name)
			}
		})
	}
}
