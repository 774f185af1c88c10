package promises_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/providers"
)

// An operation is sent again only if that is proven safe.
func TestSentAgainOnlyWhereProvenSafe(t *testing.T) {
	type terms = []func(*providers.Endpoint)
	ambiguous := map[string]reply{"no answer": loses(), "a 503": says(503, "")}
	for _, row := range []struct {
		name    string
		terms   terms
		unnamed bool
		method  string // POST by default
		again   bool
	}{
		{"keyed, inside the window", nil, false, "", true},
		{"keyed, no retention published", terms{noRetention}, false, "", false},
		{"keyed, nothing remembered", terms{noRetention, remembers(providers.Nothing)}, false, "", false},
		{"keyed, successes remembered only", terms{remembers(providers.Successes)}, false, "", false},
		{"keyed, successes, and failures leave nothing behind", terms{remembers(providers.SuccessesCleanFailures)}, false, "", true},
		{"keyed, no guard, a handling time", terms{noGuard(10 * time.Second)}, false, "", true},
		{"keyed, no guard, no handling time", terms{noGuard(0)}, false, "", false},
		{"no key, POST", terms{noKey}, false, "", false},
		{"no key, unnamed POST", terms{noKey}, true, "", false},
		{"no key, named DELETE", terms{noKey}, false, http.MethodDelete, false},
		{"no key, unnamed DELETE in its own call", terms{noKey}, true, http.MethodDelete, true},
		{"no key, unnamed PUT in its own call", terms{noKey}, true, http.MethodPut, true},
		{"no key, unnamed PATCH", terms{noKey}, true, http.MethodPatch, false},
		{"keyed and unnamed DELETE, no retention", terms{noRetention}, true, http.MethodDelete, false},
	} {
		for what, first := range ambiguous {
			virtual(t, row.name+": after "+what, func(t *testing.T) {
				l := (&line{}).Then(first)
				p := start(t, l, onceward.Config{Providers: []providers.Provider{own(row.terms...)}})
				ctx, method := named(t, "order-1"), http.MethodPost
				if row.unnamed {
					ctx = t.Context()
				}
				if row.method != "" {
					method = row.method
				}
				out := p.Ask(ctx, to(method, ownURL))
				if row.again {
					require.NoError(t, out.Err)
					assert.Equal(t, 200, out.Status)
					require.Len(t, l.Sent(), 2)
					assert.Equal(t, l.Keys()[0], l.Keys()[1])
					assert.Equal(t, onceward.StateCompleted, out.Op.State)
					return
				}
				require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
				if what == "a 503" {
					assert.Equal(t, 503, out.Status)
				}
				assert.Equal(t, onceward.StateUnknown, out.Op.State)
				if !row.unnamed {
					require.ErrorIs(t, p.Ask(ctx, to(method, ownURL)).Err, onceward.ErrOutcomeUnknown)
				}
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				assert.Zero(t, report.Claimed)
				assert.Len(t, l.Sent(), 1)
			})
		}
		virtual(t, row.name+": what was never sent may always be", func(t *testing.T) {
			l := (&line{}).Then(refuses())
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(row.terms...)}})
			require.NoError(t, p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// If the provider forgets failures, an operation with a lost answer is sent again.
func TestSentAgainWhereFailuresAreForgotten(t *testing.T) {
	for name, row := range map[string]struct {
		first reply
		table func(*providers.Endpoint)
		err   error
		sent  int
	}{
		"no answer": {loses(), nil, nil, 2},
		"a 503":     {says(503, ""), nil, onceward.ErrOutcomeUnknown, 1},
		"an answer that breaks off, and may be one": {cuts(200, `{"errors":[{"code":"no"}]}`), byField, onceward.ErrOutcomeUnknown, 1},
		"one that breaks off, and says nothing": {cuts(410, paid), func(e *providers.Endpoint) {
			e.Rules = []providers.Rule{{Status: 410, Verdict: providers.Indeterminate, Source: "a test"}}
		}, onceward.ErrOutcomeUnknown, 1},
		"one that would else be the outcome": {cuts(200, `{"errors":[{"code":"no"}]}`), func(e *providers.Endpoint) {
			e.Rules = []providers.Rule{{Status: 200, Field: "errors[].code", Verdict: providers.Rejected, Source: "a test"}}
		}, onceward.ErrOutcomeUnknown, 1},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(row.first)
			if row.table == nil {
				row.table = func(*providers.Endpoint) {}
			}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(remembers(providers.SuccessesLostAnswers), row.table)}})
			require.ErrorIs(t, p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err, row.err)
			assert.Len(t, l.Sent(), row.sent)
		})
	}
}

// Without a guard the handling time passes before the next request.
func TestHandlingTimePassesWithoutAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(takes(time.Second, loses()))
		p := start(t, l, onceward.Config{Providers: []providers.Provider{own(noGuard(10 * time.Second))}})
		require.NoError(t, p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err)
		require.Len(t, l.Sent(), 2)
		assert.GreaterOrEqual(t, l.Sent()[1].At.Sub(l.Sent()[0].At), 11*time.Second, "from the end of the attempt")
	})
}

// Without a guard a takeover waits for the handling time too, and no longer.
func TestHandlingTimePassesBeforeATakeover(t *testing.T) {
	virtual(t, "by a call", func(t *testing.T) {
		cfg := onceward.Config{Providers: []providers.Provider{own(noGuard(10 * time.Second))}}
		l := &line{}
		dead := start(t, l, cfg)
		l.Then(doing(dead.Crash, loses()))
		dead.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
		cfg.Journal = dead.Journal.Store
		next := start(t, l, cfg)
		require.ErrorIs(t, next.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err, onceward.ErrPending)
		pass(10 * time.Second)
		require.NoError(t, next.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err)
	})
	virtual(t, "by Resume", func(t *testing.T) {
		cfg := onceward.Config{Providers: []providers.Provider{own(noGuard(10 * time.Second))}}
		l := &line{}
		dead := start(t, l, cfg)
		l.Then(doing(dead.Crash, loses()))
		dead.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
		pass(time.Minute)

		cfg.Journal = dead.Journal.Store
		next := start(t, l, cfg)
		taken := time.Now()
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Parked)
		require.Len(t, l.Sent(), 1)
		pass(10 * time.Second)
		report, err = next.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		assert.GreaterOrEqual(t, l.Sent()[1].At.Sub(taken), 10*time.Second)
	})
}

// Stripe keeps keys for 24 hours. The margin is an hour.
func TestTheWindow(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		after time.Duration // since the first send
		kind  error         // nil: it is sent
	}{
		{"asked again long before its end", time.Hour, nil},
		{"asked again just before its end", 23*time.Hour - time.Second, nil},
		{"asked again at its end", 23 * time.Hour, onceward.ErrOutcomeUnknown},
		{"asked again after it", 30 * 24 * time.Hour, onceward.ErrOutcomeUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(loses())
			p := start(t, l, onceward.Config{Backoff: once})
			ctx := named(t, "invoice-1/charge")
			require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
			p.PassInUse(row.after)
			out := p.Ask(ctx)
			if row.kind == nil {
				require.NoError(t, out.Err)
				require.Len(t, l.Sent(), 2)
				assert.Equal(t, l.Keys()[0], l.Keys()[1])
				return
			}
			require.ErrorIs(t, out.Err, row.kind)
			assert.Len(t, l.Sent(), 1)
		})
	}

	virtual(t, "a delay beyond it is unknown at once", func(t *testing.T) {
		l := (&line{}).Then(loses(), says(503, "", "Retry-After", "86000"))
		p := start(t, l, onceward.Config{})
		out := p.Ask(named(t, "invoice-1/charge"))
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, 503, out.Status)
	})

	for name, table := range map[string]providers.Provider{"registers no key": providers.Stripe(), "says nothing of that": own(func(e *providers.Endpoint) { e.RefusalsRegisterNoKey = false })} {
		virtual(t, "a refusal for now, by a provider that "+name, func(t *testing.T) {
			l := (&line{}).Then(says(429, `{"error":{"type":"rate_limit_error"}}`), loses())
			p := start(t, l, onceward.Config{Backoff: once, Providers: []providers.Provider{table}})
			where := chargeURL
			window := 23 * time.Hour
			if table.Name == "raw" {
				where, window = ownURL, 7*24*time.Hour-time.Hour
			}
			ask := func() outcome { return p.Ask(named(t, "invoice-1/charge"), to(http.MethodPost, where)) }
			require.ErrorIs(t, ask().Err, onceward.ErrPending)
			p.PassInUse(window / 2)
			require.ErrorIs(t, ask().Err, onceward.ErrPending)
			p.PassInUse(window/2 + time.Minute)
			err := ask().Err
			if table.Name == "raw" {
				require.ErrorIs(t, err, onceward.ErrOutcomeUnknown, "the window began with the request that was refused")
				return
			}
			require.NoError(t, err, "the window began with the request that was lost")
			assert.Equal(t, l.Keys()[1], l.Keys()[2])
		})
	}

	virtual(t, "it does not begin with an attempt that never left", func(t *testing.T) {
		l := (&line{}).Then(refuses(), loses())
		p := start(t, l, onceward.Config{Backoff: once})
		ctx := named(t, "invoice-1/charge")
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
		pass(48 * time.Hour)
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
		pass(22 * time.Hour)
		require.NoError(t, p.Ask(ctx).Err)
	})

	virtual(t, "it passes while attempts go on, and there is no more of them", func(t *testing.T) {
		l := (&line{}).Always(loses())
		p := start(t, l, onceward.Config{})
		ctx := named(t, "invoice-1/charge")
		done := make(chan error, 1)
		running, stop := context.WithCancel(seam.Seldom(t.Context(), time.Minute))
		go func() { done <- p.Run(running) }()
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
		pass(26 * time.Hour)
		stop()
		<-done
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrOutcomeUnknown)
		sent := l.Sent()
		require.Greater(t, len(sent), 10)
		for _, s := range sent {
			assert.Less(t, s.At.Sub(sent[0].At), 23*time.Hour)
			assert.Equal(t, sent[0].Key, s.Key)
		}
	})
}

// A process whose clock is behind the journal proves nothing by it.
func TestAClockThatStandsBehindTheJournal(t *testing.T) {
	for _, row := range []struct {
		name string
		back time.Duration // from three hours after the first send
		on   time.Duration // for which it stays there
		kind error         // nil: it is sent
		then error         // once the clock is right again
	}{
		{"by less than the margin is believed", 30 * time.Minute, 0, nil, nil},
		{"sends nothing until it is set right", 2 * time.Hour, machine.Confirmation - time.Minute, onceward.ErrPending, nil},
		{"and keeps on there, closes the window for good", 2 * time.Hour, machine.Confirmation, onceward.ErrPending, onceward.ErrOutcomeUnknown},
		{"and behind the first send, and keeps on there, closes the window for good", 48 * time.Hour, machine.Confirmation, onceward.ErrPending, onceward.ErrOutcomeUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(loses())
			first := start(t, l, onceward.Config{Backoff: once})
			ctx := named(t, "invoice-1/charge")
			require.ErrorIs(t, first.Ask(ctx).Err, onceward.ErrPending)
			pass(3 * time.Hour)
			require.NoError(t, first.Ask(named(t, "invoice-2/charge")).Err)
			before := len(l.Sent())

			late := start(t, l, onceward.Config{Journal: first.Journal.Store})
			back := row.back
			setClock(late.Client, func() time.Time { return time.Now().Add(-back) })
			out := late.Ask(ctx)
			if row.kind == nil {
				require.NoError(t, out.Err)
				return
			}
			require.ErrorIs(t, out.Err, row.kind)
			assert.Len(t, l.Sent(), before)
			pass(row.on)
			if row.then != nil {
				require.ErrorIs(t, late.Ask(ctx).Err, row.then)
			}
			back = 0
			if row.then == nil {
				require.NoError(t, late.Ask(ctx).Err)
				return
			}
			require.ErrorIs(t, late.Ask(ctx).Err, row.then)
			require.ErrorIs(t, first.Ask(ctx).Err, row.then)
			assert.Len(t, l.Sent(), before)
		})
	}
}

// The former holder of a claim that was taken over sends nothing more.
func TestClaimTakenOverSendsNothingMore(t *testing.T) {
	virtual(t, "while the other is at it", func(t *testing.T) {
		l := (&line{}).Then(says(429, "", "Retry-After", "60"), takes(5*time.Minute, says(200, paid)))
		slow := start(t, l, onceward.Config{})
		caller := make(chan outcome, 1)
		go func() { caller <- slow.Ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()
		require.NoError(t, slow.Journal.Sessions()[0].End(t.Context())) // it is taken for dead
		other := start(t, l, onceward.Config{Journal: slow.Journal.Store, MaxWait: time.Hour, AttemptTimeout: time.Hour})
		resumed := make(chan onceward.Report, 1)
		go func() {
			report, err := other.Resume(context.Background())
			assert.NoError(t, err)
			resumed <- report
		}()
		require.ErrorIs(t, (<-caller).Err, onceward.ErrInFlight)
		assert.Equal(t, 1, (<-resumed).Completed)
		assert.Len(t, l.Sent(), 2)
	})
	virtual(t, "when the other is done", takenOverAndDone)
}

func takenOverAndDone(t *testing.T) {
	l := (&line{}).Then(says(429, "", "Retry-After", "60"))
	slow := start(t, l, onceward.Config{})
	caller := make(chan outcome, 1)
	go func() { caller <- slow.Ask(named(t, "invoice-1/charge")) }()
	synctest.Wait()
	require.NoError(t, slow.Journal.Sessions()[0].End(t.Context())) // it is taken for dead
	report, err := start(t, l, onceward.Config{Journal: slow.Journal.Store}).Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, report.Completed)
	out := <-caller
	require.NoError(t, out.Err)
	assert.Equal(t, 200, out.Status)
	assert.True(t, out.Op.Replayed)
	assert.Len(t, l.Sent(), 2)
}

// Clocks differ by up to the margin, or are set in between. Without a guard the process that sends again waits for the
// handling time by its own time.
func TestHandlingTimeByClocksThatDiffer(t *testing.T) {
	const handling, ahead = time.Minute, 90 * time.Second
	shifted := func() time.Time { return time.Now().Add(ahead) }
	type asks = func(p *process) (sent bool)
	byName := func(p *process) bool {
		return p.Ask(named(p.T, "order-1"), to(http.MethodPost, ownURL)).Err == nil
	}
	byResume := func(p *process) bool {
		report, err := p.Resume(p.T.Context())
		require.NoError(p.T, err)
		return report.Completed == 1
	}
	for _, row := range []struct {
		name    string
		asks    asks
		another bool // process sends it again, and its clock is ahead; else its own clock is set
	}{
		{"another process's, asked by name", byName, true},
		{"another process's, by Resume", byResume, true},
		{"its own, asked by name", byName, false},
		{"its own, by Resume", byResume, false},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(loses())
			cfg := onceward.Config{Providers: []providers.Provider{own(noGuard(handling))}, Backoff: backoff.Policy{MaxAttempts: 1, Max: time.Second}}
			p := start(t, l, cfg)
			clock := time.Now
			setClock(p.Client, func() time.Time { return clock() })
			require.ErrorIs(t, p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err, onceward.ErrPending)
			ended := time.Now()
			if clock = shifted; row.another {
				require.NoError(t, p.Shutdown(t.Context()))
				cfg.Journal = p.Journal.Store
				p = start(t, l, cfg)
				setClock(p.Client, shifted)
			}
			pass(time.Second)
			for !row.asks(p) {
				require.Less(t, time.Since(ended), 3*handling)
				pass(time.Second)
			}
			require.Len(t, l.Sent(), 2)
			assert.GreaterOrEqual(t, l.Sent()[1].At.Sub(ended), handling)
		})
	}
}

// Of many processes, the one that made the attempt is the first that may send again. The others leave the operation
// alone.
func TestHandlingTimeInAFleet(t *testing.T) {
	for name, begun := range map[string]func(*providers.Endpoint){"by one table": noGuard(time.Minute), "whose table knows of no guard any more": func(*providers.Endpoint) {}} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(loses())
			cfg := onceward.Config{Providers: []providers.Provider{own(begun)}, Backoff: backoff.Policy{MaxAttempts: 1, Max: time.Second}}
			p := start(t, l, cfg)
			cfg.Journal = p.Journal.Store
			cfg.Providers = []providers.Provider{own(noGuard(time.Minute))}
			require.ErrorIs(t, p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err, onceward.ErrPending)
			pass(time.Minute)
			for range 3 {
				report, err := start(t, l, cfg).Resume(t.Context())
				require.NoError(t, err)
				assert.Zero(t, report.Claimed)
				assert.Equal(t, 1, report.PassedOver)
				require.Len(t, report.Problems, 1)
				assert.ErrorIs(t, report.Problems[0], onceward.ErrPending)
			}
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed)
		})
	}
}

// A process knows when its own attempt ended. That says nothing about a later attempt by another process.
func TestHandlingTimeAfterAnotherProcessesAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(loses(), loses())
		cfg := onceward.Config{Providers: []providers.Provider{own(noGuard(time.Minute))}, Backoff: backoff.Policy{MaxAttempts: 1, Max: time.Second}}
		p := start(t, l, cfg)
		cfg.Journal = p.Journal.Store
		ahead := start(t, l, cfg)
		setClock(ahead.Client, func() time.Time { return time.Now().Add(90 * time.Second) })
		asks := func(p *process) error { return p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err }
		require.ErrorIs(t, asks(p), onceward.ErrPending)
		require.ErrorIs(t, asks(ahead), onceward.ErrPending)
		pass(150 * time.Second)
		require.ErrorIs(t, asks(p), onceward.ErrPending)
		require.Len(t, l.Sent(), 2)
		for asks(ahead) != nil {
			pass(time.Second)
		}
		require.Len(t, l.Sent(), 3)
		assert.GreaterOrEqual(t, l.Sent()[2].At.Sub(l.Sent()[1].At), time.Minute)
	})
}

// Each process lives for less than the margin, as all after it. One of them sends the operation once the margin has
// passed, too.
func TestHandlingTimeOfShortLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(loses())
		cfg := onceward.Config{Providers: []providers.Provider{own(noGuard(time.Minute))}, Backoff: once}
		p := start(t, l, cfg)
		require.ErrorIs(t, p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err, onceward.ErrPending)
		ended := time.Now()
		cfg.Journal = p.Journal.Store
		for len(l.Sent()) < 2 {
			require.NoError(t, p.Shutdown(t.Context()))
			pass(5 * time.Minute)
			p = start(t, l, cfg)
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
		}
		assert.InDelta(t, time.Hour+time.Minute, l.Sent()[1].At.Sub(ended), float64(5*time.Minute))
	})
}
