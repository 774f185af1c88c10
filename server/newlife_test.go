package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
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
