package background_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
)

// These tests check how long an operation pauses that is out of attempts, and which callers may go ahead of that.

// A caller who asks by name is served soon after an outage.
func TestPauseAfterAnOutageIsShortForAName(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j})
		time.AfterFunc(5*time.Second, func() { l.Always(says(200, paid)) })
		began := time.Now()
		for p.Ask(named(t, "invoice-1")).Err != nil {
			require.Less(t, time.Since(began), 20*time.Second)
			pass(time.Second)
		}
		assert.Len(t, l.Sent(), 1)
	})
}

// Callers cut our own pause short, once in each policy delay.
func TestPauseIsCutShortOnceInADelay(t *testing.T) {
	t.Parallel()
	const outage, delay = 30 * time.Second, 2 * time.Second
	each(t, "two processes, five callers each", func(t *testing.T, j machine.Store) {
		var tried atomic.Int64
		l := (&line{}).Always(doing(func() { tried.Add(1) }, refuses()))
		var asking sync.WaitGroup
		for range 2 {
			p := start(t, l, onceward.Config{Journal: j, Backoff: backoff.Policy{Initial: delay, MaxAttempts: 1}})
			for range 5 {
				asking.Go(func() {
					for began := time.Now(); time.Since(began) < outage; <-time.After(300 * time.Millisecond) {
						assert.ErrorIs(t, p.Ask(named(t, "invoice-1")).Err, onceward.ErrPending)
					}
				})
			}
		}
		asking.Wait()
		assert.LessOrEqual(t, tried.Load(), int64(outage/delay)+1)
		assert.Greater(t, tried.Load(), int64(outage/delay)/2)
	})
}

// No pause is cut short if the operation may have run.
func TestPauseIsNotCutShortIfItMayHaveRun(t *testing.T) {
	t.Parallel()
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(loses())
		p := start(t, l, onceward.Config{Journal: j})
		out := p.Ask(named(t, "invoice-1"))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		before := len(l.Sent())
		for time.Until(out.Op.DueAt) > time.Second {
			pass(time.Second)
			require.ErrorIs(t, p.Ask(named(t, "invoice-1")).Err, onceward.ErrPending)
		}
		assert.Len(t, l.Sent(), before)
	})
}

// A provider's Retry-After is never cut short.
func TestPauseOfTheProvidersIsNotCutShort(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		asked string
		wait  time.Duration // of a caller that asks by name
	}{
		{"60", time.Minute},
		{"3600", time.Hour},
		{"1", 8 * time.Second}, // the policy's own delay after five attempts
	} {
		each(t, row.asked+" s", func(t *testing.T, j machine.Store) {
			const attempts = 5
			l := (&line{}).Always(says(429, `{}`, "Retry-After", row.asked))
			p := start(t, l, onceward.Config{Journal: j, MaxWait: 24 * time.Hour})
			ctx, cancel := context.WithTimeout(named(t, "invoice-1"), 24*time.Hour)
			defer cancel()
			out := p.Ask(ctx)
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			require.Len(t, l.Sent(), attempts)
			parked := time.Now()
			assert.WithinDuration(t, parked.Add(row.wait), out.Op.DueAt, time.Millisecond)
			l.Always(says(200, paid))
			step := max(row.wait/100, 500*time.Millisecond)
			for len(l.Sent()) == attempts {
				pass(step)
				p.Ask(named(t, "invoice-1"))
			}
			assert.WithinRange(t, time.Now(), parked.Add(row.wait), parked.Add(row.wait+2*step))
		})
	}
	each(t, "Run leaves it alone for as long as it would without", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(says(429, `{}`, "Retry-After", "1"))
		p := start(t, l, onceward.Config{Journal: j})
		require.ErrorIs(t, p.Ask(named(t, "invoice-1")).Err, onceward.ErrPending)
		op := p.Recorded(onceward.Ref{ID: "invoice-1"})
		assert.Greater(t, time.Until(op.WakeAt), 29*time.Second)
		attempts := len(l.Sent())
		require.ErrorIs(t, p.Ask(named(t, "invoice-1")).Err, onceward.ErrPending, "too early, and no reason for Run to come sooner")
		ctx, stop := context.WithTimeout(t.Context(), 25*time.Second)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Len(t, l.Sent(), attempts)
	})
}

// An SDK's retries above do not multiply ours, as the README says.
func TestPausesUnderTheRetriesOfAnSDK(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]reply{
		"nothing gets through": refuses(), "no answer": loses(), "unavailable": unavailable,
		"rate-limited": says(429, `{}`, "Retry-After", "0"), "rate-limited, come back in a second": says(429, `{}`, "Retry-After", "1"),
	} {
		for how, sdk := range map[string]int{"one": 1, "ten at once": 10} {
			each(t, name+", "+how, func(t *testing.T, j machine.Store) {
				var tried atomic.Int64
				l := (&line{}).Always(doing(func() { tried.Add(1) }, answer))
				p := start(t, l, onceward.Config{Journal: j})
				var calls sync.WaitGroup
				for range sdk {
					calls.Go(func() {
						for try := range 4 { // 0.5, 1 and 2 s apart, and with half of that as jitter
							if try > 0 {
								<-time.After(3 * 250 * time.Millisecond << (try - 1))
							}
							assert.Error(t, p.Ask(named(t, "invoice-1")).Err)
						}
					})
				}
				calls.Wait()
				assert.Equal(t, int64(backoff.DefaultMaxAttempts), tried.Load())
			})
		}
	}
}

// Operations that fail at the same time are not retried at the same time.
func TestPausesOfSimultaneousFailuresAreSpread(t *testing.T) {
	t.Parallel()
	const many = 200
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: backoff.Policy{MaxAttempts: 1}})
		buckets := map[time.Duration]int{}
		for i := range many {
			out := p.Ask(named(t, fmt.Sprint("invoice-", i)))
			buckets[time.Until(out.Op.DueAt).Truncate(time.Second)]++
		}
		assert.Greater(t, len(buckets), 20, "over half a minute")
		for at, n := range buckets {
			assert.Less(t, n, many/5, "%v from now", at)
		}
	})
}

// A busy provider is never asked sooner than the policy allows.
func TestPauseOfABusyProvider(t *testing.T) {
	for name, header := range map[string][]string{
		"no time at all":        {"Retry-After", "0"},
		"a time that is past":   {"Retry-After", "Sat, 01 Jan 1994 00:00:00 GMT"},
		"a fraction of nothing": {"Retry-After-Ms", "0"},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Always(says(409, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`, header...))
			p := start(t, l, onceward.Config{MaxWait: time.Minute, RetryBudget: backoff.Budget{Capacity: 1000}})
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			assert.Less(t, len(l.Sent()), 30)
		})
		virtual(t, name+", and the budget counts it", func(t *testing.T) {
			l := (&line{}).Always(says(409, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`, header...))
			p := start(t, l, onceward.Config{RetryBudget: backoff.Budget{Capacity: 2, Refill: 1e-9, PerSuccess: 1e-9, ProbeEvery: time.Hour}})
			out := p.Ask(named(t, invoice))
			require.ErrorIs(t, out.Err, onceward.ErrRetryBudget)
			assert.Len(t, l.Sent(), 3)
			assert.False(t, p.Recorded(out.Op.Ref).BusySince.IsZero(), "it is bounded as busy all the same")
		})
	}
}

// The polls of a busy provider don't cause a long pause, neither when they have used up the retry budget nor at the
// next failure.
func TestPauseAfterABusyProvider(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Always(says(409, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`))
		p := start(t, l, onceward.Config{Backoff: backoff.Policy{Initial: 100 * time.Millisecond, Max: time.Second}})
		out := p.Ask(named(t, invoice))
		require.ErrorIs(t, out.Err, onceward.ErrRetryBudget)
		assert.Greater(t, len(l.Sent()), 100)
		assert.LessOrEqual(t, time.Until(out.Op.DueAt), time.Second)
		pass(time.Until(out.Op.DueAt))
		l.Always(loses())
		out = p.Ask(named(t, invoice))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		assert.LessOrEqual(t, time.Until(out.Op.DueAt), 2*time.Minute)
	})
}

// A policy's shortest delay causes a pause, too.
func TestPauseByTheShortestDelay(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := start(t, (&line{}).Then(refuses()), onceward.Config{Backoff: backoff.Policy{Initial: 1, Max: 1, MaxAttempts: 1}})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		assert.WithinRange(t, p.Recorded(onceward.Ref{ID: invoice}).WakeAt, time.Now(), time.Now().Add(time.Microsecond))
	})
}
