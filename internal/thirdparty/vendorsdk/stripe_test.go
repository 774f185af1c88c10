package vendorsdk_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
)

const (
	apiError    = `{"error":{"type":"api_error","message":"try later"}}`
	lockTimeout = `{"error":{"type":"invalid_request_error","code":"lock_timeout","message":"locked"}}`
	keyInUse    = `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use","message":"in use"}}`
)

// inUse asks the client ten times to come back at once, and from then on after an hour. An answer that the key is in
// flight is not an attempt, so only time ends the call.
func inUse(w http.ResponseWriter, r *http.Request, nth int) {
	if nth <= 10 {
		w.Header().Set("Retry-After-Ms", "1")
	} else {
		w.Header().Set("Retry-After", "3600")
	}
	says(http.StatusConflict, keyInUse)(w, r)
}

// always gives every request the same answer.
func always(h http.HandlerFunc) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, r *http.Request, _ int) { h(w, r) }
}

func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte("<h1>Service Unavailable</h1>"))
}

// calm has a minute's pause after the attempts of a call, far longer than the retries of an SDK take. If nothing has
// run, a caller may go ahead of that pause once in that time.
var calm = backoff.Policy{Initial: 10 * time.Millisecond, Multiplier: 6000, Max: 10 * time.Minute, MaxAttempts: 2}

// stripe-go sees our errors if Stripe fails. By their looks, stripe-go would take some of Stripe's answers for its
// own error, and repeat the call after others. None of them is the operation's outcome.
func TestStripeGoSeesOurErrors(t *testing.T) {
	for _, row := range []struct {
		name     string
		answer   func(w http.ResponseWriter, r *http.Request, nth int)
		requests int
		policy   backoff.Policy
	}{
		{"503 with Stripe's JSON", always(says(503, apiError)), ours.MaxAttempts, ours},
		{"503 with a page of HTML", always(page), ours.MaxAttempts, ours},
		{"409 in flight", inUse, 11, ours},
		{"429 for a lock", always(says(429, lockTimeout)), calm.MaxAttempts, calm},
	} {
		for _, isNamed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, named: %t", row.name, isNamed), func(t *testing.T) {
				t.Parallel()
				var got wire
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					row.answer(w, r, got.see(r.URL.Path, r.Header.Get("Idempotency-Key")))
				}))
				t.Cleanup(srv.Close)
				p := stripeGo.start(t, filepath.Join(t.TempDir(), "journal.db"), srv.URL, row.policy)
				ctx := context.Context(t.Context())
				if isNamed {
					ctx = named(t)
				}
				_, err := p.pay(ctx)
				keys := got.seen()
				require.Len(t, keys, row.requests)
				for _, key := range keys {
					assert.Equal(t, keys[0], key)
				}
				id := payment
				if !isNamed {
					id = keys[0]
				}
				op := p.operation(t, id)
				assert.Equal(t, onceward.StatePending, op.State)
				assert.Equal(t, row.requests, op.Attempts)
				requireOurs(t, err, onceward.ErrPending, stripeGo)

				if !isNamed {
					return
				}
				_, err = p.pay(ctx) // three calls of ours, since the SDK repeats every error
				requireOurs(t, err, onceward.ErrPending, stripeGo)
				assert.Len(t, got.seen(), row.requests, "nothing is sent before it is due")
			})
		}
	}
}
