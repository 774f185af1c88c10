// Command charge makes one charge, named after its invoice. A second run gets the
// recorded answer from the journal, and charges nothing:
//
//	go run ./examples/charge
//	go run ./examples/charge
//
// The command works offline, against a simulated Stripe: see box.go. For the real
// Stripe, leave out HTTPClient below and give Authorize your key.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

func main() {
	path := flag.String("journal", filepath.Join(os.TempDir(), "onceward-charge", "payments.db"), "the journal's file; removed, the charge is made again")
	invoice := flag.String("invoice", "991", "the invoice to charge")
	flag.Parse()
	if err := os.MkdirAll(filepath.Dir(*path), 0o700); err != nil {
		log.Fatal(err)
	}
	box := newBox()
	defer box.Close()
	if err := charge(context.Background(), *path, *invoice, &http.Client{Transport: detour{box}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("in this run the provider has seen", box.Requests(), "requests, effects:", len(box.Effects()))
	fmt.Println("journal:", *path)
}

func charge(ctx context.Context, path, invoice string, box *http.Client) error {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer j.Close()
	client, err := onceward.New(onceward.Config{
		Journal:    j,
		Providers:  []providers.Provider{providers.Stripe()},
		HTTPClient: box,
		Authorize: func(req *http.Request) error {
			req.SetBasicAuth(os.Getenv("STRIPE_SECRET_KEY"), "")
			return nil
		},
	})
	if err != nil {
		return err
	}
	defer client.Close()

	go client.Run(ctx) // finishes what the last process left, and what has to wait from here on

	form := url.Values{"amount": {"4200"}, "currency": {"eur"}, "customer": {"cus_0042"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.stripe.com/v1/charges", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// The name makes it one charge, however often the program runs.
	resp, err := client.Do(req, "invoice-"+invoice+"/charge")
	if err != nil {
		return err // an *onceward.Error: ErrPending, ErrOutcomeUnknown, …
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}

	op, _ := onceward.OperationOf(resp)
	fmt.Printf("%s: %s, replayed: %t\n%s\n", op.ID, resp.Status, op.Replayed, body)
	return nil
}
