package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/server"
)

// An answer without a key is given once only, so a handler may compress it: its calls have been made.
func TestAnswerWithoutAKeyMayBeCompressed(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	h := c.server.Repeatable("charges.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
		}
		c.charges(w, r)
	}), server.Endpoint{Optional: true})
	got := ask(h, "POST", "/charges", "1", with("Accept-Encoding", "gzip"))
	assert.Equal(t, http.StatusCreated, got.Code)
	assert.Equal(t, "gzip", got.Header().Get("Content-Encoding"))
	assert.Len(t, c.provider.Effects(), 1)
}

// A handler goes on when its caller disconnects, also without a key.
func TestCallerWithoutAKeyThatDisconnects(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	gone, goAway := context.WithCancel(t.Context())
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		goAway()
		pay(w, r)
	}), server.Endpoint{})
	ask(h, "PUT", "/payments", "1", func(r *http.Request) { *r = *r.WithContext(gone) })
	assert.Equal(t, 1, s.rows())
}

// An unnamed call below a request without a key is not sent any more once its caller has heard that it is pending: the repeated
// request makes another call.
func TestUnnamedCallWithoutAKeyIsNotSentOnceItsCallerWasTold(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	client, err := onceward.New(onceward.Config{
		Journal: c.journal, Providers: []providers.Provider{c.provider.Provider()}, HTTPClient: c.provider.Client(), Secret: []byte("0123456789abcdef"),
		Logger: slog.New(slog.DiscardHandler), Backoff: backoff.Policy{Initial: time.Millisecond, Max: 10 * time.Millisecond, MaxAttempts: 1},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Shutdown(t.Context()) })
	c.client = client
	c.server = c.host(nil)
	h := c.server.Repeatable("charges.create", http.HandlerFunc(c.charges), server.Endpoint{Optional: true})
	c.provider.Script(providertest.DropBefore())
	assert.Equal(t, http.StatusServiceUnavailable, ask(h, "PUT", "/charges", "1").Code)
	assert.Equal(t, http.StatusCreated, ask(h, "PUT", "/charges", "1").Code)
	for op, err := range c.journal.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		<-time.After(time.Until(op.DueAt)) // the first call would be due then
	}
	_, err = client.Resume(t.Context())
	require.NoError(t, err)
	assert.Len(t, c.provider.Effects(), 1)
}

// A GET has no effect, so a key in it changes nothing: its handler answers every caller.
func TestGetWithAKeyIsServedByItsHandlerAlone(t *testing.T) {
	t.Parallel()
	c := openCaller(t, nil)
	h := c.server.Repeatable("charges.get", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), server.Endpoint{})
	assert.Equal(t, http.StatusNoContent, ask(h, "GET", "/charges", "", keyed("key-0001"), with("X-Tenant", "?")).Code)
}
