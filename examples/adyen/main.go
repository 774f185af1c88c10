// Command adyen pays an invoice by Adyen's contract: its keys have at most 64
// characters, an error is sent again only if Adyen marks it transient, and error 704
// says that the payment is still being worked on.
//
//	go run ./examples/adyen
//
// It works offline, against an Adyen in a box: see box.go. It succeeds if the invoice
// was paid exactly once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
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
	b := newBox(providertest.NewUnstartedServer)
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, b, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

const invoice = "invoice-991"

// run pays the invoice in two lives of a program, which have a journal in common,
// and returns an error unless it was paid once.
func run(ctx context.Context, b *box, out io.Writer) error {
	dir, err := os.MkdirTemp("", "onceward-adyen-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	journal := filepath.Join(dir, "payments.db")

	tooLong := http.Header{"Idempotency-Key": {strings.Repeat("k", 65)}}
	if err := live(ctx, journal, b, out, "", tooLong); !errors.Is(err, onceward.ErrInvalidRequest) {
		return errors.Join(errors.New("a key of 65 characters was not refused"), err)
	}
	fmt.Fprintln(out, "a key of 65 characters is refused here; requests at Adyen:", b.Requests())

	name := invoice + "/payment"
	if err := live(ctx, journal, b, out, name, nil); err != nil {
		return err
	}
	fmt.Fprintln(out, "the program starts again and asks for the same payment")
	if err := live(ctx, journal, b, out, name, nil); err != nil {
		return err
	}

	effects := b.Effects()
	fmt.Fprintln(out, "payments that Adyen has made:", len(effects))
	if len(effects) != 1 {
		return fmt.Errorf("%s was paid %d times", invoice, len(effects))
	}
	return nil
}

// live is one life of the program: it opens the journal, pays, and ends.
func live(ctx context.Context, path string, b *box, out io.Writer, name string, header http.Header) (err error) {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	client, err := onceward.New(onceward.Config{
		Journal:    j,
		HTTPClient: b.Client(),
		Providers:  []providers.Provider{b.Provider()}, // in earnest: providers.Adyen(prefix)
		Authorize: func(req *http.Request) error {
			req.Header.Set("X-API-Key", os.Getenv("ADYEN_API_KEY"))
			return nil
		},
		AttemptTimeout: 3 * time.Second, // less than this payment takes
		Backoff:        backoff.Policy{Initial: 50 * time.Millisecond, Max: time.Second},
		Trace: &onceward.Trace{AttemptEnded: func(_ context.Context, _ onceward.Operation, a onceward.Attempt) {
			if a.Err != nil {
				fmt.Fprintln(out, "  no answer:", a.Err)
				return
			}
			fmt.Fprintf(out, "  %d, which for Adyen says: %v\n", a.Status, a.Verdict)
			if a.Verdict == providers.InFlight {
				b.finish()
			}
		}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Shutdown(ctx)) }()

	if name != "" {
		ctx = onceward.WithOperation(ctx, name)
	}
	resp, err := pay(ctx, client.HTTPClient(), b.URL, header)
	if err != nil {
		return err // an *onceward.Error: ErrPending, ErrOutcomeUnknown, …
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	op, _ := onceward.OperationOf(resp)
	fmt.Fprintf(out, "%s: %s, key %s, attempts %d, recorded before: %t\n  %s\n", op.ID, resp.Status, op.Key, op.Attempts, op.Replayed, body)
	return nil
}

// pay makes the request that Adyen's own library makes for PaymentsApi.Payments.
func pay(ctx context.Context, hc *http.Client, base string, header http.Header) (*http.Response, error) {
	const payment = `{"merchantAccount":"Shop","reference":"` + invoice + `","amount":{"value":4200,"currency":"EUR"},"paymentMethod":{"type":"scheme"}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v71/payments", strings.NewReader(payment))
	if err != nil {
		return nil, err
	}
	for field, values := range header {
		req.Header[field] = values
	}
	req.Header.Set("Content-Type", "application/json")
	return hc.Do(req)
}
