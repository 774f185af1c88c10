package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// journalFile is the journal's name in the payer's directory.
const journalFile = "payments.db"

// payAll has every invoice charged once. Killed at any moment and started again, it
// goes on where it was; started after its end, it finds the recorded answers. It
// writes to told what it has done.
func payAll(ctx context.Context, at *providersAt, dir string, invoices []invoice, asked map[string]bool, told io.Writer) (err error) {
	j, err := sqlite.Open(filepath.Join(dir, journalFile), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()

	stripe, courier := providers.Stripe(), courier()
	stripe.Hosts = []string{at.stripe.Host} // the one in the box, in place of api.stripe.com
	courier.Hosts = []string{at.courier.Host}

	var resuming atomic.Bool
	client, err := onceward.New(onceward.Config{
		Journal:   j,
		Providers: []providers.Provider{stripe, courier},
		Authorize: func(req *http.Request) error {
			req.Header.Set("Authorization", "Bearer sk_test_in_a_box")
			return nil
		},
		Backoff: backoff.Policy{Initial: 50 * time.Millisecond, Max: time.Second},
		Trace: &onceward.Trace{Begun: func(op onceward.Operation) {
			if resuming.Load() {
				fmt.Fprintln(told, "resumed", op.ID)
			}
		}},
	})
	if err != nil {
		return err
	}
	// A deploy ends the client, not its callers: what they wait for is parked then, and
	// goes on in the next process. A caller whose own context ends gives up.
	callers := context.WithoutCancel(ctx)
	shutdown := func() error {
		ending, cancel := context.WithTimeout(callers, 10*time.Second)
		defer cancel()
		return client.Shutdown(ending)
	}
	defer context.AfterFunc(ctx, func() { _ = shutdown() })()
	defer func() { err = errors.Join(err, shutdown()) }()

	// What the last process left unfinished comes first.
	resuming.Store(true)
	if _, err := client.Resume(ctx); err != nil {
		return err
	}
	resuming.Store(false)
	go client.Run(ctx)

	return each(invoices, func(inv invoice) error {
		name := inv.ID + "/charge"
		for {
			if !asked[inv.ID] {
				err := charge(onceward.WithOperation(callers, name), client.HTTPClient(), at, inv)
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err != nil && !isOurs(err) {
					return err
				}
			}
			// Whatever a single call was told, this is what became of it.
			op, err := client.Lookup(ctx, onceward.Ref{ID: name})
			switch {
			case err != nil:
				return err
			case op.State == onceward.StateCompleted && op.Answer.Status < 300:
				fmt.Fprintln(told, "paid", inv.ID)
				return nil
			case op.State == onceward.StateCompleted:
				fmt.Fprintln(told, "failed", inv.ID)
				return nil
			case op.State == onceward.StateUnknown:
				fmt.Fprintln(told, "unknown", inv.ID)
				return nil
			}
			select {
			case <-time.After(max(time.Until(op.DueAt), 20*time.Millisecond)):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// isOurs tells errors that say what an operation waits for, or that it can't be told.
func isOurs(err error) bool {
	_, ok := errors.AsType[*onceward.Error](err)
	return ok
}

// charge asks for one invoice to be paid, under the name in ctx.
func charge(ctx context.Context, hc *http.Client, at *providersAt, inv invoice) error {
	req, err := inv.request(ctx, at)
	if err != nil {
		return err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
