package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
)

// provides is a provider in this process.
type provides struct{ charges int }

func (p *provides) RoundTrip(r *http.Request) (*http.Response, error) {
	p.charges++
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"id":"ch_1"}`)), Request: r}, nil
}

// A key is not taken for a new one while the client still knows the calls below it. They would not be made again, and the new
// payment would be booked without a charge.
func TestKeyIsRefusedWhileItsCallsAreKnown(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		provider := &provides{}
		var client *onceward.Client
		s := openIn(t, folder, nil)
		client, err := onceward.New(onceward.Config{
			Journal: s.journal, Providers: []providers.Provider{providers.Stripe()}, HTTPClient: &http.Client{Transport: provider},
			Secret: []byte("0123456789abcdef"), Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		defer func() { assert.NoError(t, client.Shutdown(context.Background())) }()
		h := s.another(func(o *server.Options) { o.Client = client }).Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			book(r)
			tx, err := server.JournalTx(r.Context())
			if err != nil {
				return
			}
			charge, err := http.NewRequestWithContext(onceward.WithOperation(r.Context(), "charge"), http.MethodPost, "https://api.stripe.com/v1/charges", strings.NewReader("amount=1"))
			assert.NoError(t, err)
			charge.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			_, err = client.Enqueue(charge.Context(), tx, charge)
			assert.NoError(t, err)
			w.WriteHeader(http.StatusCreated)
		}), server.Endpoint{})
		pays := func(key string) int {
			got := ask(h, "POST", "/payments", "1", keyed(key)).Code
			_, err := client.Resume(t.Context())
			require.NoError(t, err)
			return got
		}
		require.Equal(t, http.StatusCreated, pays(key))
		require.Equal(t, 1, provider.charges)
		n := 0
		for range 31 {
			<-time.After(24 * time.Hour)
			n++
			require.Equal(t, http.StatusCreated, pays(fmt.Sprint("traffic-", n)))
		}
		for range 3 { // the journal believes a clock that goes on
			<-time.After(time.Minute)
			n++
			require.Equal(t, http.StatusCreated, pays(fmt.Sprint("traffic-", n)))
		}
		assert.Equal(t, http.StatusGone, pays(key))
		assert.Equal(t, s.rows(), provider.charges, "each payment has its charge")
	})
}

// enqueueCharge enqueues a charge as the step "charge" of a request.
func enqueueCharge(ctx context.Context, client *onceward.Client, amount string) error {
	tx, err := server.JournalTx(ctx)
	if err != nil {
		return err
	}
	charge := chargeUnder(onceward.WithOperation(ctx, "charge"), amount)
	_, err = client.Enqueue(charge.Context(), tx, charge)
	return err
}

func chargeUnder(ctx context.Context, amount string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "https://api.stripe.com/v1/charges", strings.NewReader("amount="+amount))
	r.RequestURI = "" // it is a client's
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// lifetime is a service over some days of virtual time.
type lifetime struct {
	*shop
	client  *onceward.Client
	service *server.Server
	lost    string // the body of a request whose answer the provider loses
	reaps   func() // starts to remove receipts
}

func (l *lifetime) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	if string(body) == l.lost {
		return nil, errors.New("connection reset by peer")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"id":"ch_1"}`)), Request: r}, nil
}

// live calls f in a bubble, with a service whose client keeps calls for a day, or for as long as keep says.
func live(t *testing.T, keep time.Duration, f func(l *lifetime)) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := &lifetime{shop: openIn(t, folder, nil)}
		var err error
		l.client, err = onceward.New(onceward.Config{
			Journal: l.journal, Providers: []providers.Provider{providers.Stripe()}, HTTPClient: &http.Client{Transport: l},
			Secret: []byte("0123456789abcdef"), Logger: slog.New(slog.DiscardHandler), Keep: keep,
		})
		require.NoError(t, err)
		l.service = l.another(func(o *server.Options) { o.Client = l.client })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		l.reaps = func() { running.Go(func() { _ = l.service.Run(ctx) }) }
		running.Go(func() { _ = l.client.Run(seam.Seldom(ctx, 6*time.Hour)) })
		f(l)
		cancel()
		running.Wait()
		assert.NoError(t, l.client.Shutdown(context.Background()))
	})
}

// passes lets time pass, which the journal sees, and returns how many other requests it has served.
func (l *lifetime) passes(d time.Duration, other http.Handler) (requests int) {
	pauses := slices.Repeat([]time.Duration{d / 24}, 24)
	for _, pause := range append(pauses, time.Minute, time.Minute, time.Minute) { // it believes a clock that goes on
		<-time.After(pause)
		require.Equal(l.t, http.StatusCreated, ask(other, "POST", "/others", "1", keyed(fmt.Sprint("other-", time.Now().Unix()))).Code)
		requests++
	}
	return requests
}

// A key that is used again, after the server has forgotten it, is refused if the client still knows a call below it. That call would not
// be made again, and the new payment would be booked without it.
func TestKeyWithCallsHasNoNewLife(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, row := range map[string]struct {
		loses bool          // the provider loses the answers to the key's call
		keep  time.Duration // Config.Keep
		after time.Duration // when the key is used again
		body  string        // of the later request
		wants int
	}{
		"the call was answered":                  {after: day, body: "5", wants: http.StatusGone},
		"another request, and it was answered":   {after: day, body: "7", wants: http.StatusGone},
		"the call has no outcome":                {loses: true, after: day, body: "5", wants: http.StatusGone},
		"the call is unknown":                    {loses: true, after: 3 * day, body: "5", wants: http.StatusGone},
		"the call's answer was reaped":           {keep: day, after: 3 * day, body: "5", wants: http.StatusGone},
		"another request, and it was reaped":     {keep: day, after: 3 * day, body: "7", wants: http.StatusGone},
		"the key keeps its answer for a day":     {after: 23 * time.Hour, body: "5", wants: http.StatusCreated},
		"and another request is refused as such": {after: 23 * time.Hour, body: "7", wants: http.StatusUnprocessableEntity},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live(t, row.keep, func(l *lifetime) {
				l.reaps()
				if row.loses {
					l.lost = "amount=5"
				}
				h := l.service.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					book(r)
					body, _ := io.ReadAll(r.Body)
					if enqueueCharge(r.Context(), l.client, string(body)) != nil {
						http.Error(w, "the charge can't be made", http.StatusInternalServerError)
						return
					}
					w.WriteHeader(http.StatusCreated)
				}), server.Endpoint{Retain: day, RefuseFor: -1})
				others := l.service.Atomic("others.create", http.HandlerFunc(pay), server.Endpoint{})
				require.Equal(t, http.StatusCreated, ask(h, "POST", "/payments", "5", keyed(key)).Code)
				booked := 1 + l.passes(row.after, others)
				for range 2 {
					assert.Equal(t, row.wants, ask(h, "POST", "/payments", row.body, keyed(key)).Code)
				}
				assert.Equal(t, booked, l.rows(), "nothing is booked under the key again")
			})
		})
	}
}

// Under Atomic a call or a flow may come before the transaction. Such a key has no new life either. A request whose handler was
// killed after its call has no receipt, and is booked when it comes again.
func TestKeyWithCallsBeforeTheTransactionHasNoNewLife(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	once := server.Endpoint{Retain: day, RefuseFor: -1}
	calls := func(l *lifetime) func(context.Context) error { return l.charges }
	flows := func(l *lifetime) func(context.Context) error {
		pays := flow.Define("pay", 1, func(ctx context.Context, _ string) (string, error) {
			return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) { return "paid", l.charges(ctx) })
		})
		runner, err := flow.New(l.client, flow.Config{Definitions: []flow.Definition{pays}})
		require.NoError(t, err)
		return func(ctx context.Context) error {
			_, err := pays.Run(ctx, runner, "pay", "5")
			return err
		}
	}
	for name, row := range map[string]struct {
		pays     func(*lifetime) func(context.Context) error
		endpoint server.Endpoint
		reaps    bool
		fails    bool // the first run, after its call
		after    time.Duration
		wants    int
	}{
		"a call, and the receipt is there":            {pays: calls, endpoint: once, after: 3 * day, wants: http.StatusGone},
		"a call, and the receipt was reaped":          {pays: calls, endpoint: once, reaps: true, after: 3 * day, wants: http.StatusGone},
		"a flow, and the receipt was reaped":          {pays: flows, endpoint: once, reaps: true, after: 3 * day, wants: http.StatusGone},
		"a call of a run that was killed":             {pays: calls, reaps: true, fails: true, after: 3 * day, wants: http.StatusCreated},
		"a flow of a run that was killed":             {pays: flows, reaps: true, fails: true, after: 3 * day, wants: http.StatusCreated},
		"a call of a run that was killed long before": {pays: calls, endpoint: once, fails: true, after: 3 * day, wants: http.StatusGone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live(t, 97*day, func(l *lifetime) {
				if row.reaps {
					l.reaps()
				}
				charge, fails := row.pays(l), row.fails
				h := l.service.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if err := charge(r.Context()); err != nil || fails {
						http.Error(w, "not yet", http.StatusServiceUnavailable)
						return
					}
					book(r)
					w.WriteHeader(http.StatusCreated)
				}), row.endpoint)
				first := ask(h, "POST", "/payments", "5", keyed(key)).Code
				booked := 0
				if !fails {
					require.Equal(t, http.StatusCreated, first)
					booked = 1
				}
				fails = false
				booked += l.passes(row.after, l.service.Atomic("others.create", http.HandlerFunc(pay), server.Endpoint{}))
				for range 2 {
					assert.Equal(t, row.wants, ask(h, "POST", "/payments", "5", keyed(key)).Code)
				}
				if row.wants == http.StatusCreated {
					booked++
				}
				assert.Equal(t, booked, l.rows())
			})
		})
	}
}

// Once refuses such a key likewise.
func TestOnceWithCallsHasNoNewLife(t *testing.T) {
	t.Parallel()
	live(t, 24*time.Hour, func(l *lifetime) {
		once := func() (string, error) {
			k := server.Key{Caller: server.Caller{Tenant: "acme"}, Name: "jobs.pay", Key: "job-1"}
			return server.Once(t.Context(), l.service, k, "5", func(ctx context.Context) (string, error) {
				return "paid", enqueueCharge(ctx, l.client, "5")
			})
		}
		result, err := once()
		require.NoError(t, err)
		require.Equal(t, "paid", result)
		l.passes(31*24*time.Hour, l.service.Atomic("others.create", http.HandlerFunc(pay), server.Endpoint{}))
		_, err = once()
		var refused *server.RefusedError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, "key-expired", refused.Problem.Name)
	})
}

// A key of Repeatable whose calls are past Config.Keep has no answer any more, and no new life.
func TestRepeatableWithCallsHasNoNewLife(t *testing.T) {
	t.Parallel()
	expires := server.Endpoint{Retain: 24 * time.Hour, RefuseFor: -1}
	for name, serves := range map[string]func(l *lifetime) http.Handler{
		"a call": func(l *lifetime) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := l.charges(r.Context()); err != nil {
					http.Error(w, err.Error(), http.StatusBadGateway)
					return
				}
				w.WriteHeader(http.StatusCreated)
			})
		},
		"a flow": func(l *lifetime) http.Handler {
			pays := flow.Define("pay", 1, func(ctx context.Context, _ string) (string, error) {
				return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) { return "paid", l.charges(ctx) })
			})
			flows, err := flow.New(l.client, flow.Config{Definitions: []flow.Definition{pays}})
			require.NoError(t, err)
			return server.FlowHandler(pays, flows, func(*http.Request) (string, error) { return "", nil }, func(w http.ResponseWriter, _ string, err error) {
				assert.NoError(t, err)
				w.WriteHeader(http.StatusCreated)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live(t, 24*time.Hour, func(l *lifetime) {
				l.reaps()
				h := l.service.Repeatable("payments.create", serves(l), expires)
				require.Equal(t, http.StatusCreated, ask(h, "POST", "/payments", "5", keyed(key)).Code)
				l.passes(3*24*time.Hour, l.service.Atomic("others.create", http.HandlerFunc(pay), server.Endpoint{}))
				assert.Equal(t, http.StatusGone, ask(h, "POST", "/payments", "5", keyed(key)).Code)
			})
		})
	}
}

func (l *lifetime) charges(ctx context.Context) error {
	got, err := l.client.HTTPClient().Do(chargeUnder(ctx, "5"))
	if err != nil {
		return err
	}
	return got.Body.Close()
}
