// Command inbound-chi is a small service on the chi router. Its callers send an
// Idempotency-Key, and each order makes three calls to a payment provider. The
// provider executes the second call and is slow to answer, so the caller gives up. The
// caller asks again with the same key, and each call has taken effect once:
//
//	go run ./inbound-chi
//
// One middleware, server.Inbound, makes the service repeatable: see service.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func main() {
	dir, err := os.MkdirTemp("", "inbound-chi-")
	if err != nil {
		log.Fatal(err)
	}
	err = run(context.Background(), filepath.Join(dir, "orders.db"), os.Stdout)
	os.RemoveAll(dir)
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, journal string, out io.Writer) error {
	provider := newProvider()
	defer provider.Close()
	provider.Script(providertest.None(), providertest.DelayAfter(4*patience))

	j, err := sqlite.Open(journal, sqlite.Options{})
	if err != nil {
		return err
	}
	defer j.Close()
	client, err := onceward.New(onceward.Config{
		Journal:   j,
		Providers: []providers.Provider{provider.Provider()},
		Secret:    []byte("the same on every host, and nowhere else"),
		Backoff:   backoff.Policy{Initial: 10 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	defer client.Close()

	handler, err := newService(client, provider.URL)
	if err != nil {
		return err
	}
	server := httptest.NewServer(handler)
	defer server.Close()

	for _, ask := range []struct {
		account, key, order string
		patience            time.Duration
	}{
		{"alice", "key-1", "order-991", patience},
		{"alice", "key-1", "order-991", time.Minute},
		{"alice", `"key-1"`, "order-991", time.Minute}, // the same key, quoted
		{"alice", "key-1", "order-992", time.Minute},   // a mistake
		{"bob", "key-1", "order-17", time.Minute},      // another tenant's key
		{"bob", "key 2", "order-18", time.Minute},      // not a key
		{"bob", "", "order-19", time.Minute},           // no key: it can't be repeated
	} {
		asking, cancel := context.WithTimeout(ctx, ask.patience)
		answer, err := place(asking, server, ask.account, ask.key, ask.order)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			answer, err = "– gave up", nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-5s  %-7s  %-9s  %s\n", ask.account, ask.key, ask.order, answer)
	}
	fmt.Fprintln(out, "effects at the provider:", len(provider.Effects()))
	return nil
}

// newProvider starts a Stripe on this machine.
func newProvider() *providertest.Server {
	return providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"amount":%s}`, r.FormValue("amount"))
	}))
}

// patience is how long the first caller waits.
const patience = 250 * time.Millisecond

// place asks the service for an order.
func place(ctx context.Context, server *httptest.Server, account, key, order string) (answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/orders/"+order, nil)
	if err != nil {
		return "", err
	}
	req.SetBasicAuth(account, "")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(text))), err
}
