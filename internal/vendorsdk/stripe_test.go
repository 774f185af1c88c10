package vendorsdk_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// The plan of a process that is killed in the middle of a call.
const (
	childJournal = "VENDORSDK_CHILD_JOURNAL"
	childURL     = "VENDORSDK_CHILD_URL"
)

const invoice = "invoice-991/charge"

func TestMain(m *testing.M) {
	if path := os.Getenv(childJournal); path != "" {
		if err := payUntilKilled(path, os.Getenv(childURL)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func payUntilKilled(path, baseURL string) error {
	j, err := sqlite.Open(path, nil)
	if err != nil {
		return err
	}
	client, err := onceward.New(onceward.Config{Journal: j, Providers: stripeAt(baseURL)})
	if err != nil {
		return err
	}
	_, err = pay(onceward.WithOperation(context.Background(), invoice), sdk(client.HTTPClient(), baseURL))
	return fmt.Errorf("it should have been killed; %w", err)
}

// stripeAt is Stripe's contract for a server at another address.
func stripeAt(baseURL string) []providers.Provider {
	u, err := url.Parse(baseURL)
	if err != nil {
		panic(err)
	}
	p := providers.Stripe()
	p.Hosts = []string{u.Host}
	return []providers.Provider{p}
}

// sdk is stripe-go at its default number of retries.
func sdk(hc *http.Client, baseURL string) *stripe.Client {
	return stripe.NewClient("sk_test_1", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL:           stripe.String(baseURL),
		HTTPClient:    hc,
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
}

func pay(ctx context.Context, sc *stripe.Client) (*stripe.PaymentIntent, error) {
	return sc.V1PaymentIntents.Create(ctx, &stripe.PaymentIntentCreateParams{
		Amount:   stripe.Int64(4200),
		Currency: stripe.String(stripe.CurrencyEUR),
	})
}

// failing is a server that gives every request the answer of its turn.
type failing struct {
	mu   sync.Mutex
	keys []string // of the requests, in their order
}

func (f *failing) start(t *testing.T, answer func(w http.ResponseWriter, nth int)) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.keys = append(f.keys, r.Header.Get("Idempotency-Key"))
		nth := len(f.keys)
		f.mu.Unlock()
		answer(w, nth)
	}))
	t.Cleanup(srv.Close)
	return srv
}

func (f *failing) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.keys...)
}

func says(status int, contentType, body string) func(http.ResponseWriter, int) {
	return func(w http.ResponseWriter, _ int) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func drops(http.ResponseWriter, int) { panic(http.ErrAbortHandler) }

const (
	jsonType    = "application/json"
	apiError    = `{"error":{"type":"api_error","message":"try later"}}`
	lockTimeout = `{"error":{"type":"invalid_request_error","code":"lock_timeout","message":"locked"}}`
	keyInUse    = `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use","message":"in use"}}`
)

// ours rests for at least ten minutes once a call has used up its attempts, longer
// than any test.
var ours = backoff.Policy{Initial: time.Millisecond, Max: 10 * time.Minute, MaxAttempts: 4}

// inUse says so ten times in quick succession, and from then on asks for an hour's
// patience: being in flight is not an attempt, and only time ends the call.
func inUse(w http.ResponseWriter, nth int) {
	if nth <= 10 {
		w.Header().Set("Retry-After-Ms", "1")
	} else {
		w.Header().Set("Retry-After", "3600")
	}
	says(http.StatusConflict, jsonType, keyInUse)(w, nth)
}

func TestRetriesOfTheSDKDoNotMultiplyOurs(t *testing.T) {
	for _, row := range []struct {
		name     string
		answer   func(w http.ResponseWriter, nth int)
		requests int
		status   int // of the SDK's own error, 0: it sees ours
		code     stripe.ErrorCode
	}{
		{"503 with Stripe's JSON", says(503, jsonType, apiError), ours.MaxAttempts, 503, ""},
		{"503 with a page of HTML", says(503, "text/html", "<h1>Service Unavailable</h1>"), ours.MaxAttempts, 0, ""},
		{"409 in flight", inUse, 11, 409, "idempotency_key_in_use"},
		{"429 for a lock, which the SDK repeats", says(429, jsonType, lockTimeout), ours.MaxAttempts, 0, ""},
		{"a dropped connection", drops, ours.MaxAttempts, 0, ""},
	} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, named: %t", row.name, named), func(t *testing.T) {
				t.Parallel()
				var got failing
				srv := got.start(t, row.answer)
				j, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), nil)
				require.NoError(t, err)
				defer j.Close()
				client, err := onceward.New(onceward.Config{Journal: j, Providers: stripeAt(srv.URL), Backoff: ours})
				require.NoError(t, err)
				defer client.Shutdown(context.Background())
				sc := sdk(client.HTTPClient(), srv.URL)

				ctx := t.Context()
				if named {
					ctx = onceward.WithOperation(ctx, invoice)
				}
				_, err = pay(ctx, sc)
				keys := got.requests()
				require.Len(t, keys, row.requests)
				for _, key := range keys {
					assert.Equal(t, keys[0], key)
				}
				ref := onceward.Ref{ID: invoice}
				if !named {
					ref.ID = keys[0]
				}
				op, lookupErr := client.Lookup(t.Context(), ref)
				require.NoError(t, lookupErr)
				assert.Equal(t, onceward.Pending, op.State)
				assert.Equal(t, row.requests, op.Attempts)
				if row.status != 0 {
					var own *stripe.Error
					require.ErrorAs(t, err, &own)
					assert.Equal(t, row.status, own.HTTPStatusCode)
					assert.Equal(t, row.code, own.Code)
				} else {
					requirePending(t, err, op.ID)
				}

				if !named {
					return
				}
				_, err = pay(ctx, sc) // three calls of ours, since the SDK repeats every error
				requirePending(t, err, op.ID)
				assert.Len(t, got.requests(), row.requests, "nothing is sent before it is due")
			})
		}
	}
}

// requirePending checks that an error of the SDK is ours inside, and what it says.
func requirePending(t *testing.T, err error, id string) {
	t.Helper()
	var e *onceward.Error
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, onceward.ErrPending)
	assert.Equal(t, id, e.Operation.ID)
	assert.True(t, e.Operation.DueAt.After(time.Now()))
	assert.False(t, errors.As(err, new(*stripe.Error)))
}

func TestANameKeepsItsKeyThoughTheSDKMakesUpAnotherAfterACrash(t *testing.T) {
	for name, resumed := range map[string]bool{"asked for again": false, "finished by Resume, then asked for": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var keys []string
			charged, gone := make(chan struct{}), make(chan struct{})
			box := providertest.NewUnstartedServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(charged)
				<-gone // nobody is there any more to hear of it
				says(200, jsonType, `{"id":"pi_1","object":"payment_intent","status":"succeeded"}`)(w, 1)
			}))
			box.Observe = func(r providertest.Request) {
				mu.Lock()
				defer mu.Unlock()
				keys = append(keys, r.Key)
			}
			box.Start()
			defer box.Close()
			letGo := sync.OnceFunc(func() { close(gone) })
			defer letGo()

			path := filepath.Join(t.TempDir(), "journal.db")
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childJournal+"="+path, childURL+"="+box.URL)
			child.Stderr = os.Stderr
			require.NoError(t, child.Start())
			ended := make(chan error, 1)
			go func() { ended <- child.Wait() }()
			select {
			case <-charged:
			case err := <-ended:
				require.Fail(t, "it ended before it had paid", "%v", err)
			}
			require.NoError(t, child.Process.Kill())
			var killed *exec.ExitError
			require.ErrorAs(t, <-ended, &killed)
			require.False(t, killed.Exited(), "it was killed and did not end by itself")
			letGo()

			j, err := sqlite.Open(path, nil)
			require.NoError(t, err)
			defer j.Close()
			replaced := 0
			client, err := onceward.New(onceward.Config{
				Journal:   j,
				Providers: []providers.Provider{box.Provider()},
				Authorize: func(r *http.Request) error {
					r.Header.Set("Authorization", "Bearer sk_test_1")
					return nil
				},
				Backoff: backoff.Policy{Initial: time.Millisecond, Max: 10 * time.Millisecond, MaxAttempts: 100},
				Trace:   &onceward.Trace{KeyReplaced: func(onceward.Operation) { replaced++ }},
			})
			require.NoError(t, err)
			defer client.Shutdown(context.Background())
			if resumed {
				report, err := client.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 1, report.Completed)
			}

			sc := sdk(client.HTTPClient(), box.URL)
			for range 2 {
				intent, err := pay(onceward.WithOperation(t.Context(), invoice), sc)
				require.NoError(t, err)
				assert.Equal(t, "pi_1", intent.ID)
			}
			op, err := client.Lookup(t.Context(), onceward.Ref{ID: invoice})
			require.NoError(t, err)
			assert.Equal(t, journal.Completed, op.State)
			mu.Lock()
			defer mu.Unlock()
			require.GreaterOrEqual(t, len(keys), 2)
			for _, key := range keys {
				assert.Equal(t, string(op.Key), key)
			}
			assert.Len(t, box.Effects(), 1)
			if !resumed {
				assert.Equal(t, 1, replaced, "the SDK's new key was replaced by the journal's")
			}
		})
	}
}
