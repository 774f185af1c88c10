package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/server"
)

// A caller repeats its request at another process while the first one still pays. The second handler finds that the payment is made,
// and refuses. Its caller gets the answer of the first, since a refusal would make it pay again under another key.
func TestRefusalAfterAnotherProcessHasPaid(t *testing.T) {
	t.Parallel()
	var c *caller
	var overtakes func()
	unlessPaid := func(h http.HandlerFunc, paid func() int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if overtakes != nil {
				overtakes()
			}
			if paid() > 0 {
				http.Error(w, "the order is paid already", http.StatusConflict)
				return
			}
			h(w, r)
		})
	}
	for name, serve := range map[string]func(*server.Server) http.Handler{
		"Atomic": func(s *server.Server) http.Handler {
			return s.Atomic("payments.create", unlessPaid(pay, func() int { return c.rows() }), server.Endpoint{})
		},
		"Repeatable": func(s *server.Server) http.Handler {
			return s.Repeatable("payments.create", unlessPaid(func(w http.ResponseWriter, r *http.Request) { c.charges(w, r) }, func() int { return len(c.provider.Effects()) }), server.Endpoint{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, overtakes = openCaller(t, nil), nil
			first, second := serve(c.server), serve(c.host(nil))
			overtakes = func() {
				overtakes = nil
				assert.Equal(t, http.StatusCreated, ask(first, "POST", "/", "1", keyed(key)).Code)
			}
			got := ask(second, "POST", "/", "1", keyed(key))
			assert.Equal(t, http.StatusCreated, got.Code)
			assert.Equal(t, "true", got.Header().Get("Idempotent-Replayed"))
			assert.Equal(t, http.StatusConflict, ask(second, "POST", "/", "1", keyed("key-0002")).Code, "a refusal of another key")
		})
	}
	t.Run("Once", func(t *testing.T) {
		c := openCaller(t, nil)
		once := func(s *server.Server, before func()) (string, error) {
			return server.Once(t.Context(), s, server.Key{Caller: server.Caller{Tenant: "acme"}, Name: "payments.make", Key: "invoice-991"}, nil,
				func(ctx context.Context) (string, error) {
					before()
					if c.rows() > 0 {
						return "", errors.New("the invoice is paid already")
					}
					tx, err := server.Tx(ctx)
					if err == nil {
						_, err = tx.ExecContext(ctx, "INSERT INTO ledger (amount) VALUES (1)")
					}
					return "paid", err
				})
		}
		result, err := once(c.host(nil), func() {
			_, err := once(c.server, func() {})
			assert.NoError(t, err)
		})
		require.NoError(t, err)
		assert.Equal(t, "paid", result)
	})
}
