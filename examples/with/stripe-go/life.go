package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/stripe/stripe-go/v85"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// life is one life of a program: it opens the journal, charges, and ends.
type life struct {
	api
	journal string // the file
	out     io.Writer
	deaf    bool // it makes one attempt, and doesn't hear the answer
}

// sdk is stripe-go over hc, or over its own client if hc is nil. Its retries are switched off, since Onceward repeats
// requests. With them on, no more requests would be sent, but a call that fails would take longer.
func (a api) sdk(hc *http.Client) *stripe.Client {
	return stripe.NewClient(a.key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL:               stripe.String(a.url),
		HTTPClient:        hc,
		MaxNetworkRetries: stripe.Int64(0),
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
}

// charge charges the invoice, or says when to ask again.
func (l life) charge(ctx context.Context, invoice string) (due time.Time, err error) {
	j, err := sqlite.Open(l.journal, sqlite.Options{})
	if err != nil {
		return due, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	cfg := onceward.Config{
		Journal:   j,
		Providers: []providers.Provider{l.provider},
		Backoff:   backoff.Policy{Initial: 100 * time.Millisecond, Max: time.Second},
		Trace:     l.trace(),
	}
	if l.deaf {
		cfg.HTTPClient, cfg.Backoff.MaxAttempts = &http.Client{Transport: deaf{}}, 1
	}
	client, err := onceward.New(cfg)
	if err != nil {
		return due, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	// The name makes it one charge, however often it is asked for.
	name := invoice + "/charge"
	intent, err := l.sdk(client.HTTPClient()).V1PaymentIntents.Create(onceward.WithOperation(ctx, name), charge(invoice))
	var e *onceward.Error
	switch {
	case errors.Is(err, onceward.ErrPending) && errors.As(err, &e):
		fmt.Fprintf(l.out, "   no outcome yet, key %s, attempts %d\n", e.Operation.Key, e.Operation.Attempts)
		return e.Operation.DueAt, nil
	case err != nil:
		return due, err // a *stripe.Error, or ours: ErrOutcomeUnknown, …
	}
	// The SDK hides which operation an answer belongs to.
	op, err := client.Operation(ctx, onceward.Ref{ID: name})
	if err != nil {
		return due, err
	}
	fmt.Fprintf(l.out, "   %s %s, key %s, attempts %d\n", intent.ID, intent.Status, op.Key, op.Attempts)
	return due, nil
}

// charge is the same request in every life.
func charge(invoice string) *stripe.PaymentIntentCreateParams {
	return &stripe.PaymentIntentCreateParams{
		Amount:        stripe.Int64(4200),
		Currency:      stripe.String(stripe.CurrencyEUR),
		Confirm:       stripe.Bool(true),
		PaymentMethod: stripe.String("pm_card_visa"),
		AutomaticPaymentMethods: &stripe.PaymentIntentCreateAutomaticPaymentMethodsParams{
			Enabled:        stripe.Bool(true),
			AllowRedirects: stripe.String("never"),
		},
		Metadata: map[string]string{"invoice": invoice},
	}
}

// trace prints what happens below the SDK.
func (l life) trace() *onceward.Trace {
	return &onceward.Trace{
		KeyReplaced: func(_ context.Context, op onceward.Operation) {
			fmt.Fprintln(l.out, "   the key that stripe-go made up gives way to the journal's", op.Key)
		},
		AttemptEnded: func(_ context.Context, _ onceward.Operation, a onceward.Attempt) {
			if a.Err != nil {
				fmt.Fprintln(l.out, "   sent, but no answer came:", a.Err)
				return
			}
			fmt.Fprintln(l.out, "   sent, and answered by", a.Status)
		},
		Asked: func(_ context.Context, op onceward.Operation, _ onceward.CallResult, _ error, _ time.Duration) {
			if op.Replayed {
				fmt.Fprintln(l.out, "   the answer is one that was recorded before")
			}
		},
	}
}

// deaf is a network that takes a request to Stripe and loses the answer.
type deaf struct{}

func (deaf) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return nil, io.ErrUnexpectedEOF
}
