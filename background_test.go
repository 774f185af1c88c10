package onceward_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

func TestNoEndOfRunOrResumeCancelsWhatACallerWasToldIsPending(t *testing.T) {
	const callers = 8
	run := func(t *testing.T, p *process, ends func(stop context.CancelFunc)) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		synctest.Wait()
		ends(stop)
		<-done
		stop()
	}
	for _, end := range []struct {
		name string
		end  func(t *testing.T, p *process)
	}{
		{"Run's context is cancelled", func(t *testing.T, p *process) {
			run(t, p, func(stop context.CancelFunc) { pass(time.Second); stop() })
		}},
		{"Resume's time is up", func(t *testing.T, p *process) {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			_, _ = p.Resume(ctx)
		}},
		{"Resume is given no time at all", func(t *testing.T, p *process) {
			_, err := p.Resume(cancelled())
			require.ErrorIs(t, err, context.Canceled)
		}},
		{"the client is shut down", func(t *testing.T, p *process) {
			run(t, p, func(context.CancelFunc) { pass(time.Second); require.NoError(t, p.Shutdown(t.Context())) })
		}},
		{"the client is shut down, and waits for nothing", func(t *testing.T, p *process) {
			run(t, p, func(context.CancelFunc) { pass(time.Second); _ = p.Shutdown(cancelled()) })
		}},
	} {
		for _, outage := range []struct {
			name  string
			reply reply
		}{
			{"they wait for their next attempt", refuses()},
			{"they are connecting", takes(time.Hour, refuses())},
			{"they are told to come back", says(429, `{}`, "Retry-After", "90")},
		} {
			each(t, end.name+" while "+outage.name, func(t *testing.T, j journal.Journal) {
				l := (&line{}).always(refuses())
				p := start(t, l, onceward.Config{Journal: j})
				for i := range callers {
					require.ErrorIs(t, p.ask(named(t, fmt.Sprint("invoice-", i))).err, onceward.ErrPending)
				}
				pass(time.Hour)
				l.always(outage.reply)
				end.end(t, p)
				for _, op := range p.everything() {
					assert.Equal(t, journal.Pending, op.State, op.Cause)
				}

				l.always(says(200, paid))
				before := len(l.sent())
				next := start(t, l, onceward.Config{Journal: p.journal.Journal})
				pass(2 * time.Hour)
				report, err := next.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, callers, report.Completed)
				assert.Len(t, distinct(l.keys()[before:]), callers)
				assert.Len(t, l.sent(), before+callers, "each of them once")
			})
		}
	}
}

func TestWhoGoesAwayCancelsOnlyWhatWasNotPendingBefore(t *testing.T) {
	errToken := errors.New("no token")
	for _, way := range []struct {
		name string
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		auth error
		told bool // a call whose time is up leaves it pending whatever it found
	}{
		{"its context ends while it connects", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, nil, false},
		{"its deadline passes while it connects", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, nil, true},
		{"its credential can't be had", func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }, errToken, false},
	} {
		for _, found := range []journal.State{journal.Absent, journal.Cancelled, journal.Pending} {
			each(t, way.name+", found "+found.String(), func(t *testing.T, j journal.Journal) {
				l := &line{}
				var auth error
				p := start(t, l, onceward.Config{Journal: j, Backoff: once, Authorize: func(*http.Request) error { return auth }})
				switch found {
				case journal.Cancelled:
					l.then(invalid)
					require.Equal(t, onceward.Cancelled, p.ask(named(t, invoice)).op.State)
				case journal.Pending:
					l.then(refuses())
					require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrPending)
				}
				pass(time.Hour)
				before := len(l.sent())
				l.then(takes(time.Hour, refuses()))
				auth = way.auth
				ctx, cancel := way.ctx(named(t, invoice))
				defer cancel()
				out := p.ask(ctx)
				require.Error(t, out.err)
				assert.Len(t, l.sent(), before)
				state := p.recorded(onceward.Ref{ID: invoice}).State
				stays := found == journal.Pending || way.told
				if stays {
					assert.Equal(t, journal.Pending, state)
					require.ErrorIs(t, out.err, onceward.ErrPending)
				} else {
					assert.Equal(t, journal.Cancelled, state)
					require.ErrorIs(t, out.err, onceward.ErrNotSent)
				}
				if way.auth != nil {
					require.ErrorIs(t, out.err, errToken)
				}

				auth, l.script = nil, nil
				pass(2 * time.Hour)
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, stays, report.Completed == 1)
			})
		}
	}
}

func TestARefusedCredentialInTheForeground(t *testing.T) {
	for _, refusal := range []reply{wrongKey, says(407, "")} {
		each(t, "cancels what was asked for first, and the refusal is handed over", func(t *testing.T, j journal.Journal) {
			p := start(t, (&line{}).then(refusal), onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
			out := p.ask(named(t, invoice), to(http.MethodPost, ownURL))
			require.NoError(t, out.err)
			assert.Equal(t, onceward.Cancelled, out.op.State)
		})
		each(t, "leaves pending what was, and the refusal is in the error", func(t *testing.T, j journal.Journal) {
			p := start(t, (&line{}).then(refuses(), refusal), onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
			require.ErrorIs(t, p.ask(named(t, invoice), to(http.MethodPost, ownURL)).err, onceward.ErrPending)
			pass(time.Hour)
			out := p.ask(named(t, invoice), to(http.MethodPost, ownURL))
			require.ErrorIs(t, out.err, onceward.ErrPending)
			require.ErrorIs(t, out.err, onceward.ErrCredentialRefused)
			assert.Contains(t, []int{401, 407}, out.status)
			assert.Equal(t, journal.Pending, p.recorded(out.op.Ref).State)
		})
	}
}

func TestARefusedRequestIsCancelledWhoeverFoundIt(t *testing.T) {
	for name, background := range map[string]bool{"in the foreground": false, "in the background": true} {
		each(t, name, func(t *testing.T, j journal.Journal) {
			p := start(t, (&line{}).then(refuses(), invalid), onceward.Config{Journal: j, Backoff: once})
			require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrPending)
			pass(time.Hour)
			if background {
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 1, report.Cancelled)
			} else {
				out := p.ask(named(t, invoice))
				require.NoError(t, out.err)
				assert.Equal(t, 400, out.status)
			}
			assert.Equal(t, journal.Cancelled, p.recorded(onceward.Ref{ID: invoice}).State)
		})
	}
}

// A key that expired during an outage: what is pending waits for the next one.
func TestARefusedCredentialInTheBackgroundRestsAndCancelsNothing(t *testing.T) {
	const waiting = 50
	for _, row := range []struct {
		name    string
		changes func(n int64) string // of the credential with each request
		most    int                  // requests in half an hour
	}{
		{"a bearer token", func(int64) string { return "Bearer old" }, 16},
		{"a signature, another one with each request", func(n int64) string { return fmt.Sprint("AWS4-HMAC-SHA256 Signature=", n) }, 24},
	} {
		for _, end := range []string{"it is taken again", "there is another one"} {
			virtual(t, row.name+", and then "+end, func(t *testing.T) {
				l := (&line{}).always(refuses())
				var n atomic.Int64
				var other atomic.Bool
				p := start(t, l, onceward.Config{Backoff: once, Authorize: func(r *http.Request) error {
					credential := row.changes(n.Add(1))
					if other.Load() {
						credential = "Bearer new"
					}
					r.Header.Set("Authorization", credential)
					return nil
				}})
				for i := range waiting {
					require.ErrorIs(t, p.ask(named(t, fmt.Sprint("invoice-", i))).err, onceward.ErrPending)
				}
				l.always(wrongKey)
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go func() { _ = p.Run(ctx) }()
				pass(30 * time.Minute)
				assert.LessOrEqual(t, len(l.sent()), row.most)
				for _, op := range p.everything() {
					require.Equal(t, journal.Pending, op.State, op.Cause)
				}
				if report.Claimed > 0 {
					require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialRefused)
					require.ErrorIs(t, report.Problems[0], onceward.ErrPending)
				}

				other.Store(end == "there is another one")
				l.always(says(200, paid))
				pass(time.Hour)
				for _, op := range p.everything() {
					assert.Equal(t, journal.Completed, op.State)
				}
			})
		}
	}
}

func TestOneTenantsRefusedCredentialDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).always(refuses())
		p := start(t, l, onceward.Config{Backoff: once, Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+r.Header.Get("X-Tenant"))
			return nil
		}})
		for i := range 20 {
			tenant := fmt.Sprint("tenant-", i%2)
			require.ErrorIs(t, p.ask(onceward.WithScope(named(t, fmt.Sprint("invoice-", i)), tenant), with("X-Tenant", tenant)).err, onceward.ErrPending)
		}
		l.always(reply{answer: func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("X-Tenant") == "tenant-0" {
				return wrongKey.answer(r)
			}
			return says(200, paid).answer(r)
		}})
		pass(time.Hour)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		for _, op := range p.everything() {
			if op.Scope == "tenant-0" {
				assert.Equal(t, journal.Pending, op.State)
			} else {
				assert.Equal(t, journal.Completed, op.State)
			}
		}
	})
}

func TestAnIntentThatIsTakenBackLeavesPendingWhatWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failing{Journal: onDisk(t)}
		l := (&line{}).then(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrPending)
		pass(time.Hour)
		j.fails(true, journal.EventBegin)
		require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrJournal)
		j.fails(false)
		pass(time.Minute)
		assert.Equal(t, journal.Pending, p.recorded(onceward.Ref{ID: invoice}).State)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		assert.Len(t, l.sent(), 1)
	})
}

func TestAProviderThatIsBusyIsNeverAskedSoonerThanThePolicySays(t *testing.T) {
	for name, header := range map[string][]string{
		"no time at all":        {"Retry-After", "0"},
		"a time that is past":   {"Retry-After", "Sat, 01 Jan 1994 00:00:00 GMT"},
		"a fraction of nothing": {"Retry-After-Ms", "0"},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).always(says(409, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`, header...))
			p := start(t, l, onceward.Config{MaxWait: time.Minute, RetryBudget: backoff.Budget{Capacity: 1000}})
			require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrPending)
			assert.Less(t, len(l.sent()), 30)
		})
		virtual(t, name+", and the budget counts it", func(t *testing.T) {
			l := (&line{}).always(says(409, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`, header...))
			p := start(t, l, onceward.Config{RetryBudget: backoff.Budget{Capacity: 2, Refill: 1e-9, PerSuccess: 1e-9, ProbeEvery: time.Hour}})
			out := p.ask(named(t, invoice))
			require.ErrorIs(t, out.err, onceward.ErrRetryBudget)
			assert.Len(t, l.sent(), 3)
			assert.False(t, p.recorded(out.op.Ref).BusySince.IsZero(), "it is bounded as busy all the same")
		})
	}
}
