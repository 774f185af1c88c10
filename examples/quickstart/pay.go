package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/webhook"
)

// journalFile is the journal's name in the payer's directory.
const journalFile = "payments.db"

// payAll has every invoice charged once. If the process is killed at any moment and started again, payAll goes on from
// there. If payAll is started after its end, it finds the recorded answers. It writes its progress to told.
func payAll(ctx context.Context, at *providersAt, dir string, invoices []invoice, asked map[string]bool, told io.Writer) (err error) {
	j, err := sqlite.Open(filepath.Join(dir, journalFile), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()

	stripe, courier, square, gocardless := providers.Stripe(), courier(), square(), gocardless()
	stripe.Hosts = []string{at.stripe.Host} // the one in the box, in place of api.stripe.com
	courier.Hosts = []string{at.courier.Host}
	square.Hosts = []string{at.square.Host}
	gocardless.Hosts = []string{at.gocardless.Host}

	var resuming atomic.Bool
	var client *onceward.Client
	client, err = onceward.New(onceward.Config{
		Journal:   j,
		Providers: []providers.Provider{stripe, courier, square, gocardless},
		Authorize: func(req *http.Request) error {
			req.Header.Set("Authorization", "Bearer sk_test_in_a_box")
			return nil
		},
		Backoff: backoff.Policy{Initial: 50 * time.Millisecond, Max: time.Second},
		Reconcile: &onceward.Reconcile{
			Schedule: []time.Duration{time.Second}, // the storm is over in a few
			Lookup: func(ctx context.Context, op onceward.Operation) (onceward.Finding, error) {
				return onceward.Finding{}, notThere(ctx, client, op)
			},
			FillReferences: true,
		},
		Trace: &onceward.Trace{Started: func(ctx context.Context, op onceward.Operation, _ onceward.Why) context.Context {
			if resuming.Load() {
				fmt.Fprintln(told, "resumed", op.ID)
			}
			return ctx
		}},
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	defer func() { err = errors.Join(err, client.Close()) }()

	// The last process's unknown operations come first. It was the only process, so no other one looks for them.
	for op, err := range j.List(ctx, journal.Filter{States: []journal.State{journal.StateUnknown}}) {
		if err != nil {
			return err
		}
		if _, err := client.Reconcile(ctx, op.Ref); err != nil && ctx.Err() != nil {
			return err // any other error: the operation is still unknown
		}
	}
	resuming.Store(true)
	if _, err := client.Resume(ctx); err != nil {
		return err
	}
	resuming.Store(false)
	go client.Run(ctx)
	listener, err := hear(client, at.hooks)
	if err != nil {
		return err
	}
	defer listener.Close()

	var mu sync.Mutex
	var unknown []invoice
	settle := func(waits bool) func(invoice) error {
		return func(inv invoice) error {
			known, err := settle(ctx, client, at, inv, asked[inv.ID], waits, told)
			if mu.Lock(); !known {
				unknown = append(unknown, inv)
			}
			mu.Unlock()
			return err
		}
	}
	if err := each(invoices, settle(false)); err != nil {
		return err
	}
	return each(unknown, settle(true)) // Run is finding out
}

// settle charges an invoice, unless the customer has gone away, writes the outcome to told, and reports whether there
// is one. It waits for an unknown operation only if waits is set.
func settle(ctx context.Context, client *onceward.Client, at *providersAt, inv invoice, gone, waits bool, told io.Writer) (known bool, err error) {
	ref := onceward.Ref{ID: inv.ID + "/charge"}
	for {
		if !gone {
			// A deploy ends the client, not its callers: their operations are parked then, and go on in the next
			// process. A caller whose own context ends gives up.
			err := charge(onceward.WithOperation(context.WithoutCancel(ctx), ref.ID), client.HTTPClient(), at, inv)
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			if err != nil && !isOurs(err) {
				return false, err
			}
		}
		// The journal has the outcome, even if a single call returned an error.
		op, err := client.Operation(ctx, ref)
		switch {
		case err != nil:
			return false, err
		case op.Effect == onceward.EffectExecuted: // also a 409 that names what was made
			fmt.Fprintln(told, "paid", inv.ID)
			return true, nil
		case op.Effect == onceward.EffectRefused:
			fmt.Fprintln(told, "failed", inv.ID)
			return true, nil
		case op.State == onceward.StateUnknown && op.Attention != "":
			fmt.Fprintln(told, "unknown", inv.ID)
			return true, nil
		case op.State == onceward.StateUnknown && !waits:
			return false, nil
		}
		select {
		case <-time.After(max(time.Until(op.DueAt), 20*time.Millisecond)):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// notThere resolves an operation as not executed if the table's look-up found no object and none can come any more. An
// absence by Reconcile.Lookup would count a quarter of an hour after the last attempt, so this program decides as an
// operator would. No provider publishes how long it works on a request. These simulated providers take less than a
// second, and list each effect at once.
func notThere(ctx context.Context, client *onceward.Client, op onceward.Operation) error {
	n := len(op.Evidence)
	if n == 0 || op.Evidence[n-1].Finding != journal.FindingAbsent || time.Since(op.SettledAt) <= 3*time.Second {
		return nil
	}
	_, err := client.Resolve(ctx, op.Seen, onceward.NotExecuted, onceward.ResolveOptions{
		By: "quickstart", Why: "the provider is done within a second, and lists what it made",
	})
	return err
}

// hookSecret is what the providers sign their webhooks with.
const hookSecret = "signed-for-a-box-in-a-storm"

// hear receives the webhooks from the two providers that send any.
func hear(client *onceward.Client, at *url.URL) (net.Listener, error) {
	square, err := webhook.Square(at.JoinPath("square").String(), hookSecret)
	if err != nil {
		return nil, err
	}
	gocardless, err := webhook.GoCardless(hookSecret)
	if err != nil {
		return nil, err
	}
	hooks := http.NewServeMux()
	hooks.Handle("/square", client.WebhookHandler("square", square, nil))
	hooks.Handle("/gocardless", client.WebhookHandler("gocardless", gocardless, nil))
	listener, err := net.Listen("tcp", at.Host)
	if err != nil {
		return nil, err
	}
	go http.Serve(listener, hooks) // until the listener is closed
	return listener, nil
}

// isOurs reports whether an error is Onceward's: the operation waits for something, or is unknown.
func isOurs(err error) bool {
	_, ok := errors.AsType[*onceward.Error](err)
	return ok
}

// charge asks for one invoice to be paid, under the name in ctx.
func charge(ctx context.Context, hc *http.Client, at *providersAt, inv invoice) error {
	req, err := inv.request(ctx, at, "")
	if err != nil {
		return err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
