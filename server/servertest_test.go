package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/server"
	"github.com/onceward/onceward/server/servertest"
	"github.com/stretchr/testify/require"
)

// Package server keeps all rules.
func TestServerKeepsTheRulesOfServertest(t *testing.T) {
	t.Parallel()
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "shop.db"), sqlite.Options{Volatile: true})
	require.NoError(t, err)
	defer j.Close()
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec("CREATE TABLE ledger (id INTEGER PRIMARY KEY, amount TEXT)")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	s, err := server.New(t.Context(), server.Options{
		Journal: j, Secrets: [][]byte{[]byte("0123456789abcdef")}, Logger: slog.New(slog.DiscardHandler),
		Caller: func(r *http.Request) (server.Caller, error) {
			return server.Caller{Tenant: r.Header.Get("Tenant")}, nil
		},
	})
	require.NoError(t, err)
	h := s.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, err := server.Tx(r.Context())
		if err != nil {
			return
		}
		body, _ := io.ReadAll(r.Body)
		booked, err := tx.ExecContext(r.Context(), "INSERT INTO ledger (amount) VALUES (?)", string(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		id, _ := booked.LastInsertId()
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
		w.Header().Set("Location", fmt.Sprint("/payments/", id))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%d}`, id)
	}), server.Endpoint{})
	servertest.Check(t, h, servertest.Request{Header: http.Header{"Tenant": {"acme"}}, Another: http.Header{"Tenant": {"umbrella"}},
		Body: `{"amount":1}`, Other: `{"amount":2}`, Effects: func() (n int) {
			tx, err := j.BeginSQL(context.Background())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			require.NoError(t, tx.QueryRow("SELECT count(*) FROM ledger").Scan(&n))
			return n
		}})
}
