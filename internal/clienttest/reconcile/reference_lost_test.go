package reconcile_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// keyedStripe remembers each key's first body. It refuses the key with another body, as Stripe does.
type keyedStripe struct {
	mu     sync.Mutex
	first  map[string]string
	bodies []string // of all requests, in their order
	keys   []string
	status int // of the next answer; negative: the connection breaks; 0: as Stripe answers
}

func (s *keyedStripe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // for the credential's account
		_, _ = io.WriteString(w, `{"id":"acct_1"}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	key := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.bodies = append(s.keys, key), append(s.bodies, string(body))
	w.Header().Set("Content-Type", "application/json")
	first, again := s.first[key]
	switch {
	case s.status < 0:
		s.status = 0
		s.first[key] = string(body)
		panic(http.ErrAbortHandler)
	case s.status != 0:
		w.WriteHeader(s.status)
		s.status = 0
		_, _ = io.WriteString(w, `{"error":{"type":"invalid_request_error"}}`)
		return
	case again && first != string(body):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"type":"idempotency_error"}}`)
		return
	case again:
		w.Header().Set("Idempotent-Replayed", "true")
	}
	s.first[key] = string(body)
	_, _ = io.WriteString(w, `{"id":"ch_1","object":"charge","amount":10}`)
}

// A reference that the client filled in comes back after a journal loss whenever its key does. Stripe refuses
// the key with another body. A request that may have been sent without a reference gets none.
func TestReferenceComesBackWithItsKey(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	looks := onceward.Config{Secret: secret, Reconcile: &onceward.Reconcile{}}
	under := func(key onceward.Key) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context { return onceward.WithParent(ctx, key) }
	}
	own := onceward.NewKey()
	bare := onceward.Config{Reconcile: &onceward.Reconcile{}}
	for name, row := range map[string]struct {
		first, second onceward.Config
		under         func(context.Context) context.Context
		carried       string
		kept          bool // the journal is not lost
		status        int  // of the first answer; none if negative
		references    int  // how many of the two requests have one
		otherKey      bool // the second request has another key
		is            string
	}{
		"a name, under a secret":               {first: looks, second: looks, references: 2, is: "0df42ff1-7c16-8032-b328-79b7af143de5"},
		"a step of a parent, under a secret":   {first: looks, second: looks, under: under(own), references: 2},
		"a step of a parent, without a secret": {first: bare, second: bare, under: under(own), references: 2},
		"a name whose key is random":           {first: bare, second: bare, references: 2, otherKey: true},
		"a key of the caller's":                {first: looks, second: looks, carried: "invoice-1-by-its-caller"},
		"refused before, with one":             {first: bare, second: bare, kept: true, status: http.StatusUnauthorized, references: 2},
		"refused before, without one":          {first: onceward.Config{}, second: bare, kept: true, status: http.StatusUnauthorized},
		"not answered before, without one":     {first: onceward.Config{}, second: bare, kept: true, status: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stripe := &keyedStripe{first: map[string]string{}, status: row.status}
			server := httptest.NewServer(stripe)
			defer server.Close()
			at, err := url.Parse(server.URL)
			require.NoError(t, err)
			table := providers.Stripe()
			table.Hosts = []string{at.Host}
			for i := range table.Endpoints {
				table.Endpoints[i].RefusalsRegisterNoKey = false
			}
			asks := func(cfg onceward.Config, path string) (int, error) {
				j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
				require.NoError(t, err)
				defer j.Close()
				cfg.Journal, cfg.Providers, cfg.Backoff = j, []providers.Provider{table}, backoff.Policy{Initial: 1, Max: 1, MaxAttempts: 1}
				client, err := onceward.New(cfg)
				require.NoError(t, err)
				defer func() { require.NoError(t, client.Shutdown(t.Context())) }()
				ctx := onceward.WithOperation(t.Context(), "invoice-1")
				if row.under != nil {
					ctx = row.under(ctx)
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/charges", strings.NewReader("amount=10&currency=eur"))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				if row.carried != "" {
					req.Header.Set("Idempotency-Key", row.carried)
				}
				resp, err := client.HTTPClient().Do(req)
				if err != nil {
					return 0, err
				}
				defer resp.Body.Close()
				return resp.StatusCode, nil
			}
			path := filepath.Join(t.TempDir(), "journal.db")
			if _, err := asks(row.first, path); row.status == 0 {
				require.NoError(t, err)
			}
			if !row.kept {
				path = filepath.Join(t.TempDir(), "journal.db")
			}
			status, err := asks(row.second, path)
			require.NoError(t, err)
			assert.Equal(t, http.StatusOK, status)
			require.Len(t, stripe.bodies, 2)
			with := 0
			for _, body := range stripe.bodies {
				with += strings.Count(body, "onceward")
			}
			assert.Equal(t, row.references, with, stripe.bodies)
			assert.Contains(t, stripe.bodies[1], row.is, "each release has to make the same")
			assert.Equal(t, row.otherKey, stripe.keys[0] != stripe.keys[1])
			assert.Equal(t, row.otherKey, stripe.bodies[0] != stripe.bodies[1])
		})
	}
}
