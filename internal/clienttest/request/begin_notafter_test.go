package request_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// An operation that could not be sent in time is cancelled for the next caller, and sent for the one after that.
func TestCallAfterNotAfterHasPassed(t *testing.T) {
	each(t, "named", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		by := time.Now().Add(time.Minute)
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), by)).Err, onceward.ErrPending)
		sent := len(l.Sent())
		pass(2 * time.Minute)
		var e *onceward.Error
		require.ErrorAs(t, p.Ask(named(t, invoice)).Err, &e)
		require.ErrorIs(t, e, onceward.ErrNotSent)
		assert.ErrorContains(t, e, "it was not to be sent after")
		assert.Equal(t, onceward.StateCancelled, e.Operation.State)
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), by)).Err, onceward.ErrNotSent)
		require.Len(t, l.Sent(), sent)
		require.NoError(t, p.Ask(named(t, invoice)).Err)
	})
}

// No attempt is made after NotAfter, by the caller or by Run, however many there were before.
func TestFurtherAttemptsAfterNotAfter(t *testing.T) {
	patient := backoff.Policy{Initial: 10 * time.Second, Max: 20 * time.Second, MaxAttempts: 8}
	each(t, "by its caller, who gets the error at once", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: patient})
		by := time.Now().Add(5 * time.Second)
		out := p.Ask(onceward.WithNotAfter(named(t, invoice), by))
		require.ErrorIs(t, out.Err, onceward.ErrNotSent)
		assert.ErrorContains(t, out.Err, "it was not to be sent after")
		assert.False(t, time.Now().After(by))
		assert.Equal(t, journal.StateCancelled, p.Recorded(onceward.Ref{ID: invoice}).State)
	})
	each(t, "in the background", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(refuses())
		by := time.Now().Add(24 * time.Hour)
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), by)).Err, onceward.ErrPending)
		pass(time.Until(by) - 2*time.Second)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		require.ErrorIs(t, start(t, l, onceward.Config{Journal: j, Backoff: patient}).Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, journal.StateCancelled, p.Recorded(onceward.Ref{ID: invoice}).State)
		assert.Empty(t, l.Sent())
	})
	each(t, "but an operation that may have run is resent", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: patient})
		require.NoError(t, p.Ask(onceward.WithNotAfter(named(t, invoice), time.Now().Add(5*time.Second))).Err)
		assert.Len(t, l.Sent(), 2)
	})
}

// A call whose Authorize lasts beyond NotAfter is not sent.
func TestAuthorizeOutlastsItsTime(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: memory.New(), Authorize: func(*http.Request) error {
			pass(time.Minute)
			return nil
		}})
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), time.Now().Add(10*time.Second))).Err, onceward.ErrNotSent)
		assert.Empty(t, l.Sent())
	})
}

// A call that gets its connection after NotAfter is not sent. The connection may be new and slow, or an idle one that a
// slow hook kept waiting.
func TestConnectionOutlastsItsTime(t *testing.T) {
	const ready = "one that lay ready"
	for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
		t.Run(version, func(t *testing.T) {
			srv, contract, requests := secured(t, version)
			transport := srv.Client().Transport.(*http.Transport).Clone()
			t.Cleanup(transport.CloseIdleConnections)
			var slow atomic.Bool
			var passed atomic.Int64 // beyond the machine's clock
			outlasts := func() {
				if slow.Load() {
					passed.Store(int64(2 * time.Minute))
				}
			}
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				outlasts()
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			client, err := onceward.New(onceward.Config{
				Journal: memory.New(), Providers: []providers.Provider{contract}, HTTPClient: &http.Client{Transport: transport},
				Backoff: oncetest.Once,
				Trace: &onceward.Trace{AttemptStarted: func(ctx context.Context, op onceward.Operation, _ int) context.Context {
					if op.ID == ready {
						outlasts()
					}
					return ctx
				}},
			})
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Shutdown(context.Background()) })
			now := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
			setClock(client, now)
			send := func(name string, notAfter time.Time) error {
				ctx := onceward.WithNotAfter(onceward.WithOperation(t.Context(), name), notAfter)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/v1/charges", strings.NewReader("amount=1"))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				resp, err := client.HTTPClient().Do(req)
				if err == nil {
					_ = resp.Body.Close()
				}
				return err
			}
			for sent, connection := range []string{"a new one", ready} {
				slow.Store(true)
				err := send(connection, now().Add(time.Minute))
				require.ErrorIs(t, err, onceward.ErrNotSent, connection)
				require.ErrorContains(t, err, "it was not to be sent after")
				assert.EqualValues(t, sent, requests.Load(), connection)
				op, err := client.Operation(t.Context(), onceward.Ref{ID: connection})
				require.NoError(t, err)
				assert.Equal(t, onceward.StateCancelled, op.State)

				slow.Store(false)
				passed.Store(0)
				require.NoError(t, send("in its time, beside "+connection, now().Add(time.Hour)))
				assert.EqualValues(t, sent+1, requests.Load())
			}
		})
	}
}

// Outcomes.Handle does not get an operation's expiry if a caller has got it.
func TestCallerGetsTheExpiryInsteadOfHandle(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var offered []onceward.State
		p := start(t, (&line{}).Then(refuses()), onceward.Config{
			Journal: memory.New(), Backoff: once,
			Outcomes: &onceward.Outcomes{Handle: func(_ context.Context, op onceward.Operation) error {
				offered = append(offered, op.State)
				return nil
			}},
		})
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), time.Now().Add(time.Minute))).Err, onceward.ErrPending)
		pass(2 * time.Minute)
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrNotSent)
		assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Empty(t, offered)
	})
}

// A call that names an earlier NotAfter than the pending operation has does not send it after that. The operation stays
// pending for others.
func TestNotAfterOfARepeatedCall(t *testing.T) {
	t.Parallel()
	each(t, "passed", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		by := time.Now().Add(time.Minute)
		pass(10 * time.Minute)
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), by)).Err, onceward.ErrPending)
		assert.Empty(t, l.Sent())
		pass(time.Hour)
		assert.NoError(t, p.Ask(named(t, invoice)).Err)
		assert.Len(t, l.Sent(), 1)
	})
	each(t, "passes", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(refuses())
		policy := backoff.Policy{Initial: 10 * time.Second, Max: 20 * time.Second, MaxAttempts: 1}
		p := start(t, l, onceward.Config{Journal: j, Backoff: policy})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		pass(10 * time.Minute)
		policy.MaxAttempts = 8
		p = start(t, l, onceward.Config{Journal: j, Backoff: policy})
		by := time.Now().Add(5 * time.Second)
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), by)).Err, onceward.ErrPending)
		assert.Empty(t, l.Sent())
		pass(time.Hour)
		l.Always(says(200, paid))
		assert.NoError(t, p.Ask(named(t, invoice)).Err)
	})
	each(t, "not said, though it has one", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(refuses())
		policy := backoff.Policy{Initial: 10 * time.Second, Max: 20 * time.Second, MaxAttempts: 1}
		p := start(t, l, onceward.Config{Journal: j, Backoff: policy})
		by := time.Now().Add(10*time.Minute + 5*time.Second)
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), by)).Err, onceward.ErrPending)
		pass(10 * time.Minute)
		policy.MaxAttempts = 8
		p = start(t, l, onceward.Config{Journal: j, Backoff: policy})
		err := p.Ask(named(t, invoice)).Err
		require.ErrorIs(t, err, onceward.ErrPending)
		assert.ErrorContains(t, err, "it was not to be sent after")
		assert.NotContains(t, err.Error(), "sent by Run or Resume")
		assert.False(t, time.Now().After(by))
	})
}

// A pending operation's error says whether the operation will be sent. One that is due after its NotAfter will
// not.
func TestPendingAfterItsNotAfter(t *testing.T) {
	t.Parallel()
	busy := says(429, `{"error":{"type":"rate_limit"}}`, "Retry-After", "600")
	for name, row := range map[string]struct {
		second reply
		by     time.Duration
		sent   bool
	}{
		"it has no such time":       {busy, 0, true},
		"it is due after its time":  {busy, 5 * time.Minute, false},
		"it is due before its time": {busy, 20 * time.Minute, true},
		"it may have run":           {loses(), time.Minute + time.Second, true},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(refuses(), row.second)
			p := start(t, l, onceward.Config{Journal: j, Backoff: once})
			ctx := named(t, invoice)
			if row.by > 0 {
				ctx = onceward.WithNotAfter(ctx, time.Now().Add(row.by))
			}
			require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
			pass(time.Minute)
			var e *onceward.Error
			require.ErrorAs(t, p.Ask(named(t, invoice)).Err, &e)
			require.ErrorIs(t, e, onceward.ErrPending)
			assert.Equal(t, row.sent, e.InBackground)
			pass(15 * time.Minute)
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, row.sent, p.Recorded(onceward.Ref{ID: invoice}).State == journal.StateCompleted)
		})
	}
}

// A caller whose clock is behind can't be sure that NotAfter has passed. It gets ErrPending, with the time at which the
// provider may be asked.
func TestNotAfterByAClockBehind(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(says(429, "{}", "Retry-After", "600"))
		cfg := onceward.Config{Journal: onDisk(t), Backoff: once}
		p, behind := start(t, l, cfg), start(t, l, cfg)
		setClock(behind.Client, func() time.Time { return time.Now().Add(-3 * time.Hour) })
		asked := time.Now().Add(10 * time.Minute)
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), time.Now().Add(20*time.Minute))).Err, onceward.ErrPending)
		pass(30 * time.Minute)
		require.NoError(t, p.Ask(named(t, "another")).Err)
		out := behind.Ask(named(t, invoice))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		assert.WithinDuration(t, asked, out.Op.DueAt, time.Second)
		assert.Len(t, l.Sent(), 2)
	})
}
