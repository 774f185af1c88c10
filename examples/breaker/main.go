// Command breaker puts a circuit breaker (sony/gobreaker) below Onceward. A
// provider drops three connections, so its circuit opens; the charges that are
// asked for meanwhile are refused here, without a byte sent, and stay pending.
// Once the circuit lets requests through again, each is charged once:
//
//	go run .
//
// One call, of onceward.NotSent, makes it safe: see breaker.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func main() {
	box := newBox()
	defer box.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, box, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// newBox starts a Stripe on this machine that drops its first three connections.
func newBox() *providertest.Server {
	box := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"charge","amount":%s}`, r.FormValue("amount"))
	}))
	box.Script(providertest.DropBefore(), providertest.DropBefore(), providertest.DropBefore())
	return box
}

var invoices = []string{"invoice-991", "invoice-992", "invoice-993"}

// run charges the invoices and waits until each has its answer.
func run(ctx context.Context, box *providertest.Server, out io.Writer) error {
	settled := make(chan onceward.Operation, len(invoices))
	client, err := onceward.New(onceward.Config{
		Journal:    memory.New(), // a program would use journal/sqlite
		Providers:  []providers.Provider{box.Provider()},
		HTTPClient: &http.Client{Transport: newBreaker(http.DefaultTransport, 5*time.Second)},
		Backoff:    backoff.Policy{Initial: 5 * time.Millisecond, Max: 50 * time.Millisecond, MaxAttempts: 4},
		OnSettled: func(_ context.Context, op onceward.Operation) error {
			select {
			case settled <- op:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
	if err != nil {
		return err
	}
	defer client.Shutdown(ctx)

	for _, invoice := range invoices {
		err := charge(ctx, client.HTTPClient(), box.URL, invoice)
		var e *onceward.Error
		if !errors.As(err, &e) {
			return fmt.Errorf("%s: the circuit should have kept it: %w", invoice, err)
		}
		fmt.Fprintf(out, "%s: %s, %v\n", e.Operation.ID, e.Operation.State, e.Err)
	}
	fmt.Fprintf(out, "requests at the provider: %d, effects: %d\n", box.Requests(), len(box.Effects()))

	// From here on, pending operations are sent when they are due.
	go client.Run(ctx)
	for range invoices {
		select {
		case op := <-settled:
			fmt.Fprintf(out, "%s: %s\n", op.ID, op.State)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fmt.Fprintf(out, "effects: %d\n", len(box.Effects()))
	return nil
}

func charge(ctx context.Context, hc *http.Client, base, invoice string) error {
	ctx = onceward.WithOperation(ctx, invoice+"/charge")
	form := url.Values{"amount": {"4200"}, "currency": {"eur"}, "description": {invoice}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/charges", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
