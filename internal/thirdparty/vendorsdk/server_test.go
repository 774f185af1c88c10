package vendorsdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
)

// service is a service that answers by package server, worded as Stripe's API.
type service struct {
	t       *testing.T
	journal *sqlite.Journal
	web     *httptest.Server

	mu       sync.Mutex
	statuses []int  // of its answers
	lose     int    // so many answers
	refused  func() // is called for the first 409, before its client has it
}

// book is the business of the service: a row and an answer.
func book(w http.ResponseWriter, r *http.Request) {
	tx, err := server.Tx(r.Context())
	if err != nil {
		return
	}
	booked, err := tx.ExecContext(r.Context(), "INSERT INTO ledger (amount) VALUES (?)", r.FormValue("amount"))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	id, _ := booked.LastInsertId()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"paid_%d","object":"payment_intent","status":"succeeded"}`, id)
}

func serve(t *testing.T, http2 bool, h http.HandlerFunc) *service {
	t.Helper()
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "shop.db"), sqlite.Options{Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	s := &service{t: t, journal: j}
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec("CREATE TABLE ledger (id INTEGER PRIMARY KEY, amount TEXT)")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	o, err := server.New(t.Context(), server.Options{
		Journal: j, Flavour: server.Stripe(), Secrets: [][]byte{[]byte("0123456789abcdef")}, Logger: slog.New(slog.DiscardHandler),
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
	})
	require.NoError(t, err)
	endpoint := o.Atomic("payment_intents", h, server.Endpoint{})
	s.web = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, http2, r.ProtoMajor == 2)
		endpoint.ServeHTTP(w, r)
	}))
	s.web.EnableHTTP2 = http2
	if http2 {
		s.web.StartTLS()
	} else {
		s.web.Start()
	}
	t.Cleanup(s.web.Close)
	return s
}

var errLost = errors.New("the connection broke")

// RoundTrip is the way of a client to the service. It loses answers.
func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.web.Client().Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusConflict {
		s.mu.Lock()
		refused := s.refused
		s.refused = nil
		s.mu.Unlock()
		if refused != nil {
			refused()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = append(s.statuses, resp.StatusCode)
	if s.lose > 0 {
		s.lose--
		return nil, errors.Join(errLost, resp.Body.Close())
	}
	return resp, nil
}

func (s *service) rows() (n int) {
	s.t.Helper()
	tx, err := s.journal.BeginSQL(s.t.Context())
	require.NoError(s.t, err)
	defer func() { _ = tx.Rollback() }()
	require.NoError(s.t, tx.QueryRow("SELECT count(*) FROM ledger").Scan(&n))
	return n
}

// serverClient is a client that makes its own retries.
type serverClient struct {
	name    string
	pay     func(ctx context.Context, s *service, key string, amount int64) (id string, status int, err error)
	stripes bool // it reads Stripe's errors
}

var serverClients = []serverClient{
	{"stripe-go", func(ctx context.Context, s *service, key string, amount int64) (string, int, error) {
		backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{
			URL: stripe.String(s.web.URL), HTTPClient: &http.Client{Transport: s}, LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
		})
		backends.API.(*stripe.BackendImplementation).SetNetworkRetriesSleep(false)
		params := &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(amount), Currency: stripe.String(stripe.CurrencyEUR)}
		params.IdempotencyKey = stripe.String(key)
		intent, err := stripe.NewClient("sk_test_1", stripe.WithBackends(backends)).V1PaymentIntents.Create(ctx, params)
		if err != nil {
			var own *stripe.Error
			if errors.As(err, &own) {
				return "", own.HTTPStatusCode, err
			}
			return "", 0, err
		}
		return intent.ID, http.StatusOK, nil
	}, true},
	{"go-retryablehttp", func(ctx context.Context, s *service, key string, amount int64) (string, int, error) {
		c := retryablehttp.NewClient()
		c.HTTPClient, c.Logger = &http.Client{Transport: s}, nil
		c.RetryWaitMin, c.RetryWaitMax, c.Backoff = 0, 0, func(time.Duration, time.Duration, int, *http.Response) time.Duration { return 0 }
		r, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, s.web.URL+"/v1/payment_intents", strings.NewReader(fmt.Sprint("amount=", amount)))
		if err != nil {
			return "", 0, err
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Idempotency-Key", key)
		resp, err := c.Do(r)
		if err != nil {
			return "", 0, err
		}
		defer resp.Body.Close()
		id, err := idOf(resp.Body)
		return id, resp.StatusCode, err
	}, false},
	{"Onceward", func(ctx context.Context, s *service, key string, amount int64) (string, int, error) {
		c, err := onceward.New(onceward.Config{
			Journal: memory.New(), Providers: []providers.Provider{providers.Onceward(30 * 24 * time.Hour)}, HTTPClient: &http.Client{Transport: s},
			Secret: []byte("0123456789abcdef"), Logger: slog.New(slog.DiscardHandler), Backoff: backoff.Policy{Initial: time.Millisecond, Max: time.Millisecond},
		})
		if err != nil {
			return "", 0, err
		}
		ctx = onceward.WithOperation(ctx, key)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.web.URL+"/v1/payment_intents", strings.NewReader(fmt.Sprint("amount=", amount)))
		if err != nil {
			return "", 0, err
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := c.HTTPClient().Do(r)
		var own *onceward.Error
		switch {
		case errors.As(err, &own) && own.Response != nil:
			return "", own.Response.Status, err
		case err != nil:
			return "", 0, err
		}
		defer resp.Body.Close()
		id, err := idOf(resp.Body)
		return id, resp.StatusCode, err
	}, false},
}

func idOf(body io.Reader) (string, error) {
	read, err := io.ReadAll(body)
	id, _, _ := strings.Cut(strings.TrimPrefix(string(read), `{"id":"`), `"`)
	return id, err
}

// untilServed asks with the key until there is an answer, as a caller does after its client gave up. The client
// stripe-go does not repeat a request that got Stripe's JSON.
func (c serverClient) untilServed(t *testing.T, s *service, key string, amount int64) string {
	t.Helper()
	for range 5 {
		id, status, err := c.pay(t.Context(), s, key, amount)
		if status == http.StatusOK {
			require.NoError(t, err)
			return id
		}
	}
	require.Fail(t, "it is never served")
	return ""
}

// A service in package server's Stripe flavour serves other projects' clients and ours. Each client makes each
// payment once, and gets the first answer.
func TestClientsOfTheStripeFlavour(t *testing.T) {
	for _, row := range []struct {
		name string
		run  func(t *testing.T, http2 bool, c serverClient)
	}{
		{"answers are lost", func(t *testing.T, http2 bool, c serverClient) {
			s := serve(t, http2, book)
			s.lose = 2
			id, _, err := c.pay(t.Context(), s, "key-0001", 42)
			require.NoError(t, err)
			assert.Equal(t, "paid_1", id)
			assert.Equal(t, []int{200, 200, 200}, s.statuses)
			assert.Equal(t, 1, s.rows())
		}},
		{"the service fails", func(t *testing.T, http2 bool, c serverClient) {
			var mu sync.Mutex
			failures := 2
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				failures--
				fails := failures >= 0
				mu.Unlock()
				if !fails {
					book(w, r)
					return
				}
				book(httptest.NewRecorder(), r)
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, `{"error":{"type":"api_error","message":"try later"}}`)
			})
			assert.Equal(t, "paid_1", c.untilServed(t, s, "key-0001", 42))
			assert.Equal(t, []int{500, 500, 200}, s.statuses)
			assert.Equal(t, 1, s.rows())
		}},
		{"the key was used for another request", func(t *testing.T, http2 bool, c serverClient) {
			s := serve(t, http2, book)
			_, _, err := c.pay(t.Context(), s, "key-0001", 42)
			require.NoError(t, err)
			_, status, err := c.pay(t.Context(), s, "key-0001", 43)
			assert.Equal(t, http.StatusBadRequest, status)
			switch {
			case c.stripes:
				var own *stripe.Error
				require.ErrorAs(t, err, &own)
				assert.Equal(t, stripe.ErrorTypeIdempotency, own.Type)
			case c.name == "Onceward": // its journal is new, and a process before it may have used the derived key
				require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			}
			assert.Equal(t, []int{200, 400}, s.statuses, "it is not asked for again")
			assert.Equal(t, 1, s.rows())
		}},
		{"a payment is declined", func(t *testing.T, http2 bool, c serverClient) {
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				book(httptest.NewRecorder(), r) // of the decline
				w.WriteHeader(http.StatusPaymentRequired)
				_, _ = io.WriteString(w, `{"error":{"type":"card_error","code":"card_declined","message":"declined"}}`)
			})
			for range 2 {
				_, status, err := c.pay(t.Context(), s, "key-0001", 42)
				assert.Equal(t, http.StatusPaymentRequired, status)
				if c.stripes {
					var own *stripe.Error
					require.ErrorAs(t, err, &own)
					assert.Equal(t, stripe.ErrorCodeCardDeclined, own.Code)
				}
			}
			assert.Equal(t, 1, s.rows())
		}},
		{"the request is being served", func(t *testing.T, http2 bool, c serverClient) {
			began, goOn := make(chan struct{}), make(chan struct{})
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				close(began)
				<-goOn
				book(w, r)
			})
			var first string
			served := make(chan struct{})
			go func() {
				defer close(served)
				var err error
				first, _, err = c.pay(t.Context(), s, "key-0001", 42)
				assert.NoError(t, err)
			}()
			<-began
			s.mu.Lock()
			s.refused = func() {
				close(goOn)
				<-served
			}
			s.mu.Unlock()
			assert.Equal(t, c.untilServed(t, s, "key-0001", 42), first)
			assert.Contains(t, s.statuses, http.StatusConflict)
			assert.Equal(t, 1, s.rows())
		}},
		{"the outcome is not known", func(t *testing.T, http2 bool, c serverClient) {
			s := serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
				book(w, r)
				tx, err := server.Tx(r.Context())
				if assert.NoError(t, err) {
					assert.NoError(t, tx.Commit())
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.name == "Onceward" {
				s.refused = cancel // it would wait for a minute, as the service asks, for a person to resolve the key
			}
			_, status, err := c.pay(ctx, s, "key-0001", 42)
			assert.Equal(t, http.StatusConflict, status)
			assert.Equal(t, c.name == "go-retryablehttp", err == nil)
			assert.Equal(t, 1, s.rows())
			assert.Equal(t, http.StatusConflict, s.statuses[len(s.statuses)-1])
		}},
	} {
		for _, c := range serverClients {
			for _, http2 := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/HTTP2=%v", row.name, c.name, http2), func(t *testing.T) {
					t.Parallel()
					row.run(t, http2, c)
				})
			}
		}
	}
}
