package onceward_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// transfer is Wise's, which may ask for a second factor.
var transfer = []option{
	to(http.MethodPost, "https://api.wise.com/v1/transfers"),
	with("Content-Type", "application/json"), body(`{"targetAccount":1,"details":{"reference":"rent"}}`),
}

// wantsApproval is Wise's answer to who has not approved it.
var wantsApproval = says(403, "", "X-2fa-Approval-Result", "REJECTED", "X-2fa-Approval", "challenge-1")

func TestASecondFactorIsTakenFromWhoAsksAndNeverKept(t *testing.T) {
	wise := []providers.Provider{providers.Wise(24 * time.Hour)}
	for name, asked := range map[string]func(t *testing.T) context.Context{
		"named":            func(t *testing.T) context.Context { return named(t, "transfer-1") },
		"with its own key": func(t *testing.T) context.Context { return t.Context() },
	} {
		each(t, name+": asked again with it, it goes through", func(t *testing.T, j journal.Journal) {
			l := (&line{}).then(wantsApproval)
			p := start(t, l, onceward.Config{Journal: j, Providers: wise, Backoff: once})
			options := transfer
			if name != "named" {
				options = append(options[:2:2], body(`{"targetAccount":1,"details":{"reference":"rent"},"customerTransactionId":"5b0a3c1e-6c1f-4d0e-9a43-6f4f3f3a2f10"}`))
			}
			out := p.ask(asked(t), options...)
			challenge := out.header.Get("X-2fa-Approval")
			if e := (*onceward.Error)(nil); errors.As(out.err, &e) {
				challenge = e.Response.Header.Get("X-2fa-Approval")
			}
			require.Equal(t, "challenge-1", challenge, "the caller learns what to approve")

			out = p.ask(asked(t), append(options, with("X-2fa-Approval", challenge))...)
			require.NoError(t, out.err)
			require.Len(t, l.sent(), 2)
			assert.Equal(t, "challenge-1", l.sent()[1].Header.Get("X-2fa-Approval"))
			op := p.recorded(out.op.Ref)
			assert.Contains(t, op.Request.WithheldHeaders, "X-2fa-Approval")
			assert.NotContains(t, op.Request.Header, "X-2fa-Approval")
		})
	}

	each(t, "the background never sends without it, and who asks again with a new one does", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(refuses())
		p := start(t, l, onceward.Config{Journal: j, Providers: wise, Backoff: once, Authorize: func(*http.Request) error { return nil }})
		out := p.ask(named(t, "transfer-1"), append(transfer, with("X-2fa-Approval", "approved-1"))...)
		require.Error(t, out.err)
		pass(3 * time.Hour)
		for range 3 {
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			pass(3 * time.Hour)
		}
		require.Empty(t, l.sent())
		require.NoError(t, p.ask(named(t, "transfer-1"), append(transfer, with("X-2fa-Approval", "approved-2"))...).err)
		require.Len(t, l.sent(), 1)
		assert.Equal(t, "approved-2", l.sent()[0].Header.Get("X-2fa-Approval"))
	})

	each(t, "where keys are the credential's, another approval is no other credential", func(t *testing.T, j journal.Journal) {
		scoped := own(func(e *providers.Endpoint) { e.InFlightGuard = true })
		scoped.CredentialScoped = true
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{scoped}, Backoff: once})
		ask := func(approval string) outcome {
			return p.ask(named(t, "order-1"), to(http.MethodPost, ownURL), bearer("t0k3n"), with("X-2fa-Approval", approval))
		}
		out := ask("approved-1")
		require.ErrorIs(t, out.err, onceward.ErrPending)
		pass(time.Until(out.op.DueAt))
		require.NoError(t, ask("approved-2").err)
		assert.Len(t, l.sent(), 2)
	})
}

func TestADateGoesWithTheSignatureOfWhoAsks(t *testing.T) {
	signed := func(day string) []option {
		return []option{to(http.MethodPost, ownURL), with("Date", day), with("X-Trace", day), with("Signature", "over "+day)}
	}
	guarded := []providers.Provider{own(func(e *providers.Endpoint) { e.InFlightGuard = true })}
	each(t, "it is sent again with the new ones, and in the background not at all", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: j, Providers: guarded, Backoff: once})
		out := p.ask(named(t, "order-1"), signed("Monday")...)
		require.ErrorIs(t, out.err, onceward.ErrPending)
		var e *onceward.Error
		require.True(t, errors.As(out.err, &e))
		assert.False(t, e.InBackground)
		pass(time.Until(out.op.DueAt))
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, l.sent(), 1)
		op := p.recorded(onceward.Ref{ID: "order-1"})
		assert.Equal(t, []string{"Date", "Signature"}, op.Request.WithheldHeaders)

		pass(max(0, time.Until(op.DueAt)))
		require.NoError(t, p.ask(named(t, "order-1"), signed("Tuesday")...).err)
		require.Len(t, l.sent(), 2)
		again := l.sent()[1].Header
		assert.Equal(t, "Tuesday", again.Get("Date"))
		assert.Equal(t, "over Tuesday", again.Get("Signature"))
		assert.Equal(t, "Monday", again.Get("X-Trace"), "it may have run: what else was frozen stays")
	})
	each(t, "what has not run is sent as it is asked for now", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(refuses())
		p := start(t, l, onceward.Config{Journal: j, Providers: guarded, Backoff: once})
		first := append(signed("Monday"), to(http.MethodPost, ownURL+"?a=1&b=2"))
		require.Error(t, p.ask(named(t, "order-1"), first...).err)
		pass(time.Hour)
		second := append(signed("Tuesday"), to(http.MethodPost, ownURL+"?b=2&a=1&api_key=k2"))
		require.NoError(t, p.ask(named(t, "order-1"), second...).err)
		require.Len(t, l.sent(), 1)
		assert.Equal(t, "Tuesday", l.sent()[0].Header.Get("X-Trace"))
		assert.Equal(t, ownURL+"?b=2&a=1&api_key=k2", l.sent()[0].URL)
	})
}
