package background_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// A Run without the credential does not keep the caller from sending, because the caller has it.
func TestRunWithoutTheCallersCredential(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name      string
		authorize func(*http.Request) error
	}{
		{"there is no Authorize", nil},
		{"Authorize does not supply it", func(*http.Request) error { return nil }},
		{"Authorize fails", func(*http.Request) error { return assert.AnError }},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			const asks = 36
			credential := with("Authorization", "Bearer s3cr3t")
			l := &line{}
			caller := start(t, l, onceward.Config{Journal: j, Backoff: once})
			background := start(t, l, onceward.Config{Journal: j, Backoff: once, Authorize: row.authorize})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan error, 1)
			go func() { done <- background.Run(ctx) }()
			for i := range asks {
				l.Then(says(429, `{}`, "Retry-After", "60"))
				name := fmt.Sprint("invoice-", i)
				out := caller.Ask(named(t, name), credential)
				require.ErrorIs(t, out.Err, onceward.ErrPending)
				due := out.Op.DueAt
				pass(2 * time.Minute)
				assert.Equal(t, due.UTC(), later(due, caller.Recorded(onceward.Ref{ID: name}).DueAt.Add(-2*time.Minute)).UTC(), "not moved beyond now")
				require.NoError(t, caller.Ask(named(t, name), credential).Err)
			}
			assert.Len(t, l.Sent(), 2*asks)
			stop()
			<-done
		})
	}
}

// An operation that no process here can sign is not claimed, but reported.
func TestMissingSignerIsReported(t *testing.T) {
	t.Parallel()
	const tenants = 20
	for _, row := range []struct {
		name      string
		url       string
		authorize func(*http.Request) error
	}{
		{"a provider, and there is no Authorize", chargeURL, nil},
		{"a host that no provider serves, which Authorize is not asked for", "https://unlisted.example/hook", func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer fresh")
			return nil
		}},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Always(refuses())
			p := start(t, l, onceward.Config{Journal: j, Backoff: once, Authorize: row.authorize})
			for i := range tenants {
				out := p.Ask(named(t, fmt.Sprint("order-", i)), to("POST", row.url), with("Authorization", "Bearer s3cr3t"))
				require.ErrorIs(t, out.Err, onceward.ErrPending)
				var e *onceward.Error
				require.ErrorAs(t, out.Err, &e)
				assert.False(t, e.InBackground, "it says at once that only its caller can")
			}
			before := p.Everything()
			pass(time.Hour)
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Zero(t, report.Claimed)
			assert.Equal(t, tenants, report.PassedOver)
			require.Len(t, report.Problems, tenants)
			require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialMissing)
			assert.Contains(t, report.Problems[0].Error(), "header Authorization")
			assert.NotContains(t, report.Problems[0].Error(), "s3cr3t")
			assert.Equal(t, before, p.Everything())
		})
	}
}

// If Authorize does not supply a header, the operations that need it are tried one at a time, at growing intervals.
func TestMissingHeaderOfAuthorize(t *testing.T) {
	t.Parallel()
	each(t, "and another tenant's operations go on", func(t *testing.T, j machine.Store) {
		const many = 50
		var asked atomic.Int64
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Concurrency: 4, Authorize: func(r *http.Request) error {
			asked.Add(1)
			r.Header.Set("X-Api-Key", "fresh")
			return nil
		}})
		for i := range many {
			p.Ask(named(t, fmt.Sprint("order-", i)), with("Authorization", "Bearer s3cr3t"))
		}
		p.Ask(onceward.WithScope(named(t, "other"), "tenant-2"), with("X-Api-Key", "s3cr3t"))
		l.Always(says(200, paid))
		asked.Store(0)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Less(t, asked.Load(), int64(20), "one tries, later and later")
		assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{Scope: "tenant-2", ID: "other"}).State)
	})
}

// An operation that lacked a header is sent once Authorize supplies it.
func TestMissingHeaderIsSentOnceSupplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 20
		l := (&line{}).Always(refuses())
		var token atomic.Pointer[string]
		p := start(t, l, onceward.Config{Backoff: once, Authorize: func(r *http.Request) error {
			if supplied := token.Load(); supplied != nil {
				r.Header.Set("Authorization", *supplied)
			}
			return nil
		}})
		for i := range many {
			require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("order-", i)), with("Authorization", "Bearer s3cr3t")).Err, onceward.ErrPending)
		}
		l.Always(says(200, paid))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = p.Run(ctx) }()
		pass(time.Hour) // one tries, later and later
		require.Empty(t, l.Sent())
		renewed := "Bearer new"
		token.Store(&renewed)
		pass(time.Hour)
		sent := l.Sent()
		require.Len(t, sent, many)
		assert.Less(t, sent[many/2].At.Sub(sent[0].At), time.Minute, "but those that have tried lately wait for the time that they were told")
	})
}

// Several operations that lack a header at the same time count as one failure. The header is tried again after the
// first pause.
func TestMissingHeaderCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Backoff: once, Concurrency: 4, Authorize: func(*http.Request) error {
			asked.Add(1)
			<-time.After(time.Second)
			return nil
		}})
		for i := range 20 {
			require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("order-", i)), with("Authorization", "Bearer s3cr3t")).Err, onceward.ErrPending)
		}
		pass(time.Hour)
		asked.Store(0)
		ctx, stop := context.WithTimeout(t.Context(), 45*time.Second)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.EqualValues(t, 5, asked.Load(), "four at once, and one after that")
	})
}

// A missing credential for one tenant does not stop another tenant's operations.
func TestMissingCredentialOfOneTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Backoff: once, Concurrency: 1, Authorize: func(r *http.Request) error {
			if r.Header.Get("X-Api-Key") == "" {
				asked.Add(1)
				r.Header.Set("X-Api-Key", "fresh")
			}
			return nil
		}})
		for i := range 20 {
			p.Ask(named(t, fmt.Sprint("order-", i)), with("Authorization", "Bearer s3cr3t"))
			p.Ask(onceward.WithScope(named(t, fmt.Sprint("other-", i)), "tenant-2"))
		}
		pass(time.Hour)
		l.Always(says(200, paid))
		asked.Store(0)
		ctx, stop := context.WithTimeout(t.Context(), 14*time.Second)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Len(t, l.Sent(), 20)
		assert.EqualValues(t, 21, asked.Load(), "each of tenant-2's, and one of those that lack another")
	})
}
