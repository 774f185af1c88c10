package onceward_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/server"
)

// ledger is your own API, in a box.
func ledger() *providertest.Server {
	return providertest.NewServer(providers.Raw(24*time.Hour, "ledger.example.com"),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "paid") }))
}

// newClient would use journal/sqlite in a program.
func newClient(srv *providertest.Server) *onceward.Client {
	client, err := onceward.New(onceward.Config{
		Journal:   memory.New(),
		Providers: []providers.Provider{srv.Provider()},
		Backoff:   backoff.Policy{Initial: time.Millisecond, Max: 10 * time.Millisecond},
	})
	if err != nil {
		panic(err)
	}
	return client
}

func pay(ctx context.Context, hc *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/payments", strings.NewReader(`{"amount":2000}`))
	if err != nil {
		return nil, err
	}
	return hc.Do(req)
}

func Example() {
	srv := ledger()
	defer srv.Close()
	client := newClient(srv)
	defer client.Shutdown(context.Background())
	hc := client.HTTPClient()

	// The payment is made, and the first answer is lost on the way.
	srv.Script(providertest.DropAfter())

	ctx := onceward.WithOperation(context.Background(), "invoice-991/charge")
	for range 2 { // asking again by the same name is safe
		resp, err := pay(ctx, hc, srv.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		op, _ := onceward.OperationOf(resp)
		fmt.Printf("%s, after %d attempts\n", body, op.Attempts)
	}
	fmt.Println("effects:", len(srv.Effects()))
	// Output:
	// paid, after 2 attempts
	// paid, after 2 attempts
	// effects: 1
}

func ExampleError() {
	srv := ledger()
	defer srv.Close()
	client := newClient(srv)
	defer client.Shutdown(context.Background())

	srv.Script(providertest.DropBefore(), providertest.DropBefore(), providertest.DropBefore(), providertest.DropBefore(), providertest.DropBefore())
	ctx := onceward.WithOperation(context.Background(), "invoice-992/charge")
	_, err := pay(ctx, client.HTTPClient(), srv.URL)

	var e *onceward.Error
	switch {
	case errors.As(err, &e) && errors.Is(err, onceward.ErrPending):
		fmt.Println(e.Operation.ID, "is", e.Operation.State, "after", e.Operation.Attempts, "attempts:", e.Operation.Cause)
	default:
		fmt.Println("not expected:", err)
	}
	// Output:
	// invoice-992/charge is pending after 5 attempts: out of attempts: no answer: the connection failed
}

// breaker refuses requests while its circuit is open. A real one opens after failures, closes after a pause, and has a
// circuit for each host.
type breaker struct {
	next http.RoundTripper
	open int // requests to refuse
}

func (b *breaker) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.open > 0 {
		b.open--
		if req.Body != nil {
			req.Body.Close() // every RoundTripper must close it, also on errors
		}
		return nil, onceward.NotSent(errors.New("the circuit is open")) // only the breaker knows that nothing was sent
	}
	return b.next.RoundTrip(req) // an error of next's may come after the first byte, so it has no mark
}

// A circuit breaker below Onceward refuses two attempts. This provider takes no key, so that without the mark nothing
// could be sent after the first, and the outcome would be unknown.
func ExampleNotSent() {
	messages := providers.Provider{Name: "messages", Hosts: []string{"messages.example.com"}, Endpoints: []providers.Endpoint{{Pattern: "POST /"}}}
	srv := providertest.NewServer(messages, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "sent") }))
	defer srv.Close()
	client, err := onceward.New(onceward.Config{
		Journal:    memory.New(), // a program would use journal/sqlite
		Providers:  []providers.Provider{srv.Provider()},
		HTTPClient: &http.Client{Transport: &breaker{next: http.DefaultTransport, open: 2}},
		Backoff:    backoff.Policy{Initial: time.Millisecond, Max: 10 * time.Millisecond},
	})
	if err != nil {
		panic(err)
	}
	defer client.Shutdown(context.Background())

	resp, err := pay(onceward.WithOperation(context.Background(), "reminder-17"), client.HTTPClient(), srv.URL)
	if err != nil {
		panic(err)
	}
	resp.Body.Close()
	op, _ := onceward.OperationOf(resp)
	fmt.Printf("%s after %d attempts, requests at the provider: %d\n", resp.Status, op.Attempts, srv.Requests())
	// Output: 200 OK after 3 attempts, requests at the provider: 1
}

func ExampleClient_Resolve() {
	// The provider takes no key, so nothing can be resent once it may have arrived.
	messages := providers.Provider{Name: "messages", Hosts: []string{"messages.example.com"}, Endpoints: []providers.Endpoint{{Pattern: "POST /"}}}
	srv := providertest.NewServer(messages, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "sent") }))
	defer srv.Close()
	client := newClient(srv)
	defer client.Shutdown(context.Background())

	srv.Script(providertest.DropAfter())
	ctx := onceward.WithOperation(context.Background(), "reminder-17")
	_, err := pay(ctx, client.HTTPClient(), srv.URL)
	fmt.Println("unknown:", errors.Is(err, onceward.ErrOutcomeUnknown))
	var e *onceward.Error
	errors.As(err, &e)

	// An operator finds at the provider that it was sent, and says so. The decision is about the state in
	// e.Operation.Seen, or, from a log, about a state given by hand:
	seen := onceward.Seen{Ref: onceward.Ref{ID: "reminder-17"}, Generation: 0, Claim: 1}
	fmt.Println("seen:", seen == e.Operation.Seen)
	op, err := client.Resolve(ctx, seen, onceward.Executed, onceward.ResolveOptions{By: "ada", Why: "it is in their list of messages"})
	fmt.Println(op.State, "by", op.Resolved.By, err)
	fmt.Println("messages:", len(srv.Effects()))
	// Output:
	// unknown: true
	// seen: true
	// completed by ada <nil>
	// messages: 1
}

// An order and its payment are one commit, and so are the outcome's entry and its delivery.
func ExampleClient_Enqueue() {
	srv := ledger()
	defer srv.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.db")
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	if err != nil {
		panic(err)
	}
	defer j.Close()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)") // the journal's own file
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE entries (text TEXT) STRICT"); err != nil {
		panic(err)
	}

	client, err := onceward.New(onceward.Config{
		Journal: j, Providers: []providers.Provider{srv.Provider()},
		Outcomes: &onceward.Outcomes{HandleTx: func(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
			_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO entries VALUES (?)", op.ID+" is "+op.State.String())
			return err
		}},
	})
	if err != nil {
		panic(err)
	}
	defer client.Shutdown(context.Background())

	ctx := onceward.WithOperation(context.Background(), "order-991/charge")
	charge, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/payments", strings.NewReader(`{"amount":2000}`))
	if err != nil {
		panic(err)
	}
	tx, err := db.Begin()
	if err != nil {
		panic(err)
	}
	if _, err := tx.Exec("INSERT INTO entries VALUES ('order-991')"); err != nil {
		panic(err)
	}
	if _, err := client.Enqueue(ctx, sqlite.Tx(tx), charge); err != nil {
		panic(err)
	}
	fmt.Println("sent before the commit:", len(srv.Effects()))
	if err := tx.Commit(); err != nil {
		panic(err)
	}
	if _, err := client.Resume(context.Background()); err != nil { // a service has Run
		panic(err)
	}
	fmt.Println("sent after it:", len(srv.Effects()))
	rows, err := db.Query("SELECT text FROM entries")
	if err != nil {
		panic(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			panic(err)
		}
		fmt.Println(text)
	}
	if err := rows.Err(); err != nil {
		panic(err)
	}
	// Output:
	// sent before the commit: 0
	// sent after it: 1
	// order-991
	// order-991/charge is completed
}

func Example_inbound() {
	srv := ledger()
	defer srv.Close()
	client, err := onceward.New(onceward.Config{
		Journal:   memory.New(), // a program would use journal/sqlite
		Providers: []providers.Provider{srv.Provider()},
		Secret:    []byte("the same on every host"),
	})
	if err != nil {
		panic(err)
	}
	defer client.Shutdown(context.Background())

	inbound, err := server.Inbound(client, func(*http.Request) (string, error) { return "the only tenant", nil }, server.InboundOptions{})
	if err != nil {
		panic(err)
	}
	orders := httptest.NewServer(inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := pay(r.Context(), client.HTTPClient(), srv.URL) // under the request's context
		if err != nil {
			http.Error(w, "ask again with the same key", http.StatusServiceUnavailable)
			return
		}
		resp.Body.Close()
		op, _ := onceward.OperationOf(resp)
		fmt.Fprintf(w, "%s, parent %q, replayed: %v", resp.Status, op.Parent, op.Replayed)
	})))
	defer orders.Close()

	for _, key := range []string{"order-991", "order-991", `"not a key`} {
		req, _ := http.NewRequest(http.MethodPost, orders.URL, nil)
		req.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			panic(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, string(text))
	}
	fmt.Println("payments:", len(srv.Effects()))
	// Output:
	// 200 200 OK, parent "inbound order-991", replayed: false
	// 200 200 OK, parent "inbound order-991", replayed: true
	// 400 {"title":"Bad Request","status":400,"detail":"The key in the Idempotency-Key header begins with a quote and is not a structured field string (RFC 9651 section 3.3.3)."}
	// payments: 1
}

func ExampleNewKey() {
	key := onceward.NewKey()
	fmt.Println(len(key), key.Validate())
	// Output: 36 <nil>
}

func ExampleKey_Child() {
	flow := onceward.Key("6f1c2f9e-8f0b-4c52-9d2e-0d6a3f5b7c11")
	fmt.Println(flow.Child("charge"))
	fmt.Println(flow.Child("receipt"))
	// Output:
	// 72a68032-74fc-852a-9dd0-295bbd2287f3
	// a64fe55b-37e3-86f2-8cf0-32c79bd29ac7
}

func ExampleDeriveKey() {
	secret := []byte("0123456789abcdef") // in production: random, the same on every host, kept out of the source
	key, err := onceward.DeriveKey(secret, "tenant-42", "inbound-1", "charge")
	fmt.Println(key, err)
	// Output: 2ff4f0c9-db41-8b92-bedb-7ebe5f65b4f1 <nil>
}

func ExampleKey_Validate() {
	err := onceward.Key("jo.doe@example.com").Validate()
	fmt.Println(err)
	fmt.Println(errors.Is(err, onceward.ErrInvalidKey))
	// Output:
	// onceward: invalid key: it contains an @; keys must hold no personal data
	// true
}
