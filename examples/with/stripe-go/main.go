// Command stripe-go charges an invoice through Stripe's own SDK, with Onceward below
// the SDK. Stripe charges, but the answer is lost. The program ends. The next program
// asks for the same invoice, and stripe-go makes another key:
//
//	go run ./stripe-go
//
// The command works offline, against a simulated Stripe: see box.go. With a key of a
// sandbox or of test mode, the same happens at the real Stripe:
//
//	STRIPE_SECRET_KEY=… go run ./stripe-go -live
//
// The command succeeds if the invoice was charged exactly once.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85"

	"github.com/onceward/onceward/providers"
)

const keyVariable = "STRIPE_SECRET_KEY"

func main() {
	live := flag.Bool("live", false, "charge at the real Stripe, with the test key in "+keyVariable)
	flag.Parse()
	at := api{provider: providers.Stripe(), url: stripe.APIURL, key: os.Getenv(keyVariable)}
	if !*live {
		box := newBox()
		defer box.Close()
		at = api{provider: box.Provider(), url: box.URL, key: "sk_test_box"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, at, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// api is a Stripe.
type api struct {
	provider providers.Provider
	url      string
	key      string // secret, and never printed
}

// check refuses a key that would move real money.
func (a api) check() error {
	for _, prefix := range []string{"sk_test_", "rk_test_"} {
		if strings.HasPrefix(a.key, prefix) {
			return nil
		}
	}
	return errors.New(keyVariable + " must hold a test key (sk_test_… or rk_test_…)")
}

// run charges one invoice in three lives of a program, which have a journal in
// common, and returns an error unless it was charged once.
func run(ctx context.Context, at api, out io.Writer) error {
	if err := at.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "onceward-stripe-go-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	journal := filepath.Join(dir, "payments.db")
	invoice := "invoice-" + rand.Text()[:8]

	fmt.Fprintln(out, "1. Stripe charges, the answer is lost, the program gives up and ends")
	lost := life{api: at, journal: journal, out: out, deaf: true}
	due, err := lost.charge(ctx, invoice)
	if err != nil {
		return err
	}

	fmt.Fprintln(out, "2. the next one charges the same invoice")
	select {
	case <-time.After(time.Until(due)): // before that, asking again would send nothing
	case <-ctx.Done():
		return ctx.Err()
	}
	next := life{api: at, journal: journal, out: out}
	if _, err := next.charge(ctx, invoice); err != nil {
		return err
	}

	fmt.Fprintln(out, "3. and so does one more")
	if _, err := next.charge(ctx, invoice); err != nil {
		return err
	}

	n, err := countCharges(ctx, at, invoice)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "charges that Stripe has for the invoice:", n)
	if n != 1 {
		return fmt.Errorf("%s was charged %d times", invoice, n)
	}
	return nil
}

// countCharges asks Stripe itself, past Onceward.
func countCharges(ctx context.Context, at api, invoice string) (n int, err error) {
	since := time.Now().Add(-time.Hour).Unix()
	params := &stripe.PaymentIntentListParams{CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: since}}
	for intent, err := range at.sdk(nil).V1PaymentIntents.List(ctx, params).All(ctx) {
		if err != nil {
			return n, err
		}
		if intent.Metadata["invoice"] == invoice && intent.Status == stripe.PaymentIntentStatusSucceeded {
			n++
		}
	}
	return n, nil
}
