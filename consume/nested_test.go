package consume_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
)

func nothing(context.Context, journal.Tx) error { return nil }

// Within an open transaction, Do, a flow, a request of Atomic and every write to the journal are refused. Each would wait for its end, and the end for each.
func TestNestedTransactionsAreRefused(t *testing.T) {
	t.Parallel()
	b := open(t)
	other := b.another("other")
	client, err := onceward.New(onceward.Config{Journal: b.journal, Providers: []providers.Provider{providers.Stripe()}, Secret: []byte("0123456789abcdef"), Logger: slog.New(slog.DiscardHandler), Reconcile: &onceward.Reconcile{}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Shutdown(context.Background())) })
	pays := flow.Define("pay", 1, func(context.Context, string) (string, error) { return "paid", nil })
	flows, err := flow.New(client, flow.Config{Definitions: []flow.Definition{pays}})
	require.NoError(t, err)
	srv, err := server.New(t.Context(), server.Options{
		Journal: b.journal, Secrets: [][]byte{[]byte("0123456789abcdef")}, Logger: slog.New(slog.DiscardHandler),
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
	})
	require.NoError(t, err)
	writes := srv.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := server.Tx(r.Context()); err == nil {
			w.WriteHeader(http.StatusCreated)
		}
	}), server.Endpoint{})
	asks := func(ctx context.Context, h http.Handler, method string) int {
		r := httptest.NewRequestWithContext(ctx, method, "/", nil)
		if method == http.MethodPost {
			r.Header.Set("Idempotency-Key", "key-0001")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	inner := map[string]func(ctx context.Context) error{
		"Do": func(ctx context.Context) error {
			_, err := b.Do(ctx, consume.Message{ID: "2", Source: "orders"}, nothing)
			return err
		},
		"Do of another consumer": func(ctx context.Context) error {
			_, err := other.Do(ctx, consume.Message{ID: "2", Source: "orders"}, nothing)
			return err
		},
		"a flow": func(ctx context.Context) error {
			_, err := pays.Run(ctx, flows, "invoice-1", "")
			return err
		},
		"a webhook": func(ctx context.Context) error {
			_, err := client.RecordEvent(ctx, "stripe", onceward.Event{Body: []byte("{}")})
			return err
		},
		"an operator's decision": func(ctx context.Context) error {
			_, err := client.Resolve(ctx, onceward.Seen{}, onceward.NotExecuted, onceward.ResolveOptions{})
			return err
		},
		"a look-up": func(ctx context.Context) error {
			_, err := client.Reconcile(ctx, onceward.Ref{ID: "invoice-1"})
			return err
		},
		"a retry of a flow": func(ctx context.Context) error {
			_, err := flows.Retry(ctx, onceward.Ref{ID: "invoice-1"})
			return err
		},
		"a request": func(ctx context.Context) error {
			return answered(asks(ctx, writes, http.MethodPost))
		},
		"a request without a key": func(ctx context.Context) error {
			return answered(asks(ctx, writes, http.MethodPut))
		},
	}
	refusals := map[string]error{"Do": consume.ErrInTransaction, "Do of another consumer": consume.ErrInTransaction, "a flow": onceward.ErrOpenTransaction,
		"a webhook": onceward.ErrOpenTransaction, "an operator's decision": onceward.ErrOpenTransaction, "a look-up": onceward.ErrOpenTransaction, "a retry of a flow": onceward.ErrOpenTransaction,
		"a request": errInternal, "a request without a key": errInternal}
	for name, asked := range inner {
		t.Run(name+" in Do", func(t *testing.T) {
			_, err := b.Do(t.Context(), consume.Message{ID: name, Source: "orders"}, func(ctx context.Context, _ journal.Tx) error {
				assert.ErrorIs(t, asked(ctx), refusals[name])
				return nil
			})
			assert.NoError(t, err, "the outer message is done")
		})
		t.Run(name+" in Atomic, after Tx", func(t *testing.T) {
			h := srv.Atomic("in."+strings.NewReplacer(" ", "-", "'", "").Replace(strings.ToLower(name)), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := server.Tx(r.Context())
				assert.NoError(t, err)
				assert.ErrorIs(t, asked(r.Context()), refusals[name])
			}), server.Endpoint{})
			assert.Equal(t, http.StatusOK, asks(t.Context(), h, http.MethodPut))
		})
	}
	t.Run("Tx in Do, in Atomic before Tx", func(t *testing.T) {
		h := srv.Atomic("before", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := b.Do(r.Context(), consume.Message{ID: "before", Source: "orders"}, func(ctx context.Context, tx journal.Tx) error {
				_, err := server.Tx(ctx)
				assert.ErrorIs(t, err, server.ErrInTransaction)
				_, err = tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO ledger (what) VALUES ('done')")
				return err
			})
			assert.NoError(t, err)
			_, err = server.Tx(r.Context())
			assert.NoError(t, err, "the other transaction is over")
			w.WriteHeader(http.StatusCreated)
		}), server.Endpoint{})
		assert.Equal(t, http.StatusCreated, asks(t.Context(), h, http.MethodPut))
		assert.Equal(t, []string{"done"}, b.ledger())
	})
}

var errInternal = errors.New("answered by 500")

func answered(status int) error {
	if status == http.StatusInternalServerError {
		return errInternal
	}
	return nil
}
