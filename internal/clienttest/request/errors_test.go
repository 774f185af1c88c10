package request_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/providers"
)

func TestErrorHasTheFactsAndNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Backoff: once})
		out := p.Ask(named(t, "invoice-1/charge"), to(http.MethodPost, chargeURL+"?api_key=s3cr3t&page=p4ge"))
		var e *onceward.Error
		require.ErrorAs(t, out.Err, &e)
		assert.Equal(t, onceward.ErrPending, e.Kind)
		require.ErrorIs(t, e, errReset)
		for _, part := range []string{"POST https://api.stripe.com/v1/charges", "invoice-1/charge", "attempts so far: 1", e.Operation.DueAt.Format(time.RFC3339)} {
			assert.Contains(t, e.Error(), part)
		}
		for _, secret := range []string{"s3cr3t", "p4ge", chargeForm, string(e.Operation.Key)} {
			assert.NotContains(t, e.Error(), secret)
		}
		unnamed := (&line{}).Then(loses())
		out = start(t, unnamed, onceward.Config{Backoff: once}).Ask(t.Context())
		require.ErrorAs(t, out.Err, &e)
		assert.NotContains(t, e.Error(), unnamed.Keys()[0], "a key is shortened")
		assert.Contains(t, e.Error(), unnamed.Keys()[0][:8])
		assert.False(t, errors.Is(out.Err, onceward.ErrPending))
	})
}

// The error for an operation that was never recorded names no generation.
func TestErrorOfNotBegunHasNoGeneration(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		p := start(t, &line{}, onceward.Config{Journal: j})
		ctx, cancel := context.WithCancel(named(t, invoice))
		cancel()
		err := p.Ask(ctx).Err
		require.ErrorIs(t, err, onceward.ErrNotSent)
		assert.NotContains(t, err.Error(), "generation")
	})
}

func TestCauseSaysWhyNothingIsResent(t *testing.T) {
	for says, adjust := range map[string]func(*providers.Endpoint){
		"recognises no key":        noKey,
		"remembers successes only": remembers(providers.Successes),
		"retention is not known":   noRetention,
		"no in-flight guard":       noGuard(0),
	} {
		virtual(t, says, func(t *testing.T) {
			p := start(t, (&line{}).Then(loses()), onceward.Config{Providers: []providers.Provider{own(adjust)}})
			out := p.Ask(named(t, invoice), to("POST", ownURL))
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			assert.Contains(t, p.Recorded(onceward.Ref{ID: invoice}).Cause, says)
		})
	}
}

func TestErrorIsATimeout(t *testing.T) {
	for err, timeout := range map[error]bool{nil: false, errReset: false, &net.DNSError{}: false, &net.DNSError{IsTimeout: true}: true, context.DeadlineExceeded: true} {
		assert.Equal(t, timeout, (&onceward.Error{Kind: onceward.ErrPending, Err: err}).Timeout(), err)
	}
}

// An Error wraps its kind and its cause. A NotSent of a single attempt stays ErrNotSent only if that is the kind.
func TestErrorWrapsItsCause(t *testing.T) {
	reset, refused := errors.New("reset"), onceward.NotSent(errors.New("the breaker is open"))
	for name, row := range map[string]struct {
		kind, cause error
		asItCame    bool
	}{
		"another cause":            {onceward.ErrPending, reset, true},
		"another cause, not sent":  {onceward.ErrNotSent, reset, true},
		"not sent":                 {onceward.ErrNotSent, refused, true},
		"not sent, of one attempt": {onceward.ErrPending, refused, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := &onceward.Error{Kind: row.kind, Err: row.cause}
			all := e.Unwrap()
			require.Len(t, all, 2)
			assert.Same(t, row.kind, all[0])
			assert.Equal(t, row.asItCame, all[1] == row.cause)
			assert.Equal(t, row.kind == onceward.ErrNotSent, errors.Is(e, onceward.ErrNotSent))
		})
	}
}

// A transport's error is shown without the query that it repeats, quoted or not.
func TestErrorThatRepeatsTheQuery(t *testing.T) {
	for _, form := range []string{"dial %s: reset", "dial %q: reset"} {
		virtual(t, form, func(t *testing.T) {
			p := start(t, roundTrip(func(r *http.Request) (*http.Response, error) {
				return nil, fmt.Errorf(form, r.URL.String())
			}), onceward.Config{Backoff: once})
			err := p.Ask(named(t, invoice), to(http.MethodPost, ownURL+"?page=p4ge")).Err
			var e *onceward.Error // net/http's own has the URL
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, e, onceward.ErrOutcomeUnknown)
			assert.ErrorContains(t, e, ownURL+"?…")
			assert.NotContains(t, e.Error(), "p4ge")
			assert.NotContains(t, e.Operation.Cause, "p4ge")
		})
	}
}
