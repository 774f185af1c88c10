package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/server"
)

// A payment is made once, however often a caller asks for it. Its table lies in the journal's file.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	folder, err := os.MkdirTemp("", "server")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	j, err := sqlite.Open(filepath.Join(folder, "shop.db"), sqlite.Options{Volatile: true}) // in a service of yours: sqlite.Options{}
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	tables, err := j.BeginSQL(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := tables.Exec("CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, request TEXT)"); err != nil {
		log.Fatal(err)
	}
	if err := tables.Commit(); err != nil {
		log.Fatal(err)
	}
	s, err := server.New(ctx, server.Options{
		Journal: j,
		Caller:  func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil }, // of your authentication
		Secrets: [][]byte{[]byte("0123456789abcdef")},                                                     // of your configuration
	})
	if err != nil {
		log.Fatal(err)
	}
	go s.Run(ctx) // removes what has expired
	pay := s.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, err := server.Tx(r.Context())
		if err != nil {
			return // the answer is made of the error
		}
		made, err := tx.ExecContext(r.Context(), "INSERT INTO payments (request) VALUES (?)", r.Header.Get("Idempotency-Key"))
		if err != nil {
			http.Error(w, "the payment could not be booked", http.StatusInternalServerError)
			return
		}
		id, _ := made.LastInsertId()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "payment %d", id)
	}), server.Endpoint{})

	for _, body := range []string{`{"amount":1}`, `{"amount":1}`, `{"amount":2}`} {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "invoice-991")
		w := httptest.NewRecorder()
		pay.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Idempotent-Replayed"), w.Body)
	}
	// Output:
	// 201  payment 1
	// 201 true payment 1
	// 422  {"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"The key was used for another request. Use a new key for a new request."}
}
