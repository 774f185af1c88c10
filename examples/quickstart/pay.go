package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// journalFile is the journal's name in the payer's directory.
const journalFile = "payments.db"

// payAll charges every invoice once. Killed at any moment and started again, it
// goes on where it was; started after its end, it finds the recorded answers. It
// writes to told what it has done.
func payAll(ctx context.Context, provider *url.URL, dir string, invoices []invoice, told io.Writer) (err error) {
	j, err := sqlite.Open(filepath.Join(dir, journalFile), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()

	stripe := providers.Stripe()
	stripe.Hosts = []string{provider.Host} // the one in the box, in place of api.stripe.com

	var resuming atomic.Bool
	client, err := onceward.New(onceward.Config{
		Journal:   j,
		Providers: []providers.Provider{stripe},
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
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, client.Shutdown(ending))
	}()

	// What the last process left unfinished comes first.
	resuming.Store(true)
	if _, err := client.Resume(ctx); err != nil {
		return err
	}
	resuming.Store(false)
	go client.Run(ctx)

	return each(invoices, func(inv invoice) error {
		if err := pay(ctx, client.HTTPClient(), provider, inv); err != nil {
			return err
		}
		fmt.Fprintln(told, "paid", inv.ID)
		return nil
	})
}

// pay charges one invoice under its own name, and waits as long as the outcome is
// pending. An error means that the invoice is not paid, or not known to be.
func pay(ctx context.Context, hc *http.Client, provider *url.URL, inv invoice) error {
	ctx = onceward.WithOperation(ctx, inv.ID+"/charge")
	for {
		op, status, err := charge(ctx, hc, provider, inv)
		switch {
		case err != nil:
			return err
		case op.State == onceward.Completed && status < 300:
			return nil
		case op.State != onceward.Pending:
			return fmt.Errorf("%s: status %d", op.State, status)
		}
		select {
		case <-time.After(time.Until(op.DueAt)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// charge asks for the charge and returns what became of it: a pending operation
// is no error here, whether the provider refused for now or did not answer.
func charge(ctx context.Context, hc *http.Client, provider *url.URL, inv invoice) (onceward.Operation, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		provider.JoinPath("v1/charges").String(), strings.NewReader(inv.form().Encode()))
	if err != nil {
		return onceward.Operation{}, 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := hc.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*onceward.Error](err); ok && e.Kind == onceward.ErrPending {
			return e.Operation, 0, nil
		}
		return onceward.Operation{}, 0, err
	}
	defer resp.Body.Close()
	op, _ := onceward.OperationOf(resp)
	return op, resp.StatusCode, nil
}
