package onceward_test

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
	"github.com/onceward/onceward/journal"
)

// How long an operation rests that is out of attempts, and who may go ahead of that.

func TestWhoAsksByNameIsServedSoonAfterAnOutage(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).always(refuses())
		p := start(t, l, onceward.Config{Journal: j})
		time.AfterFunc(5*time.Second, func() { l.always(says(200, paid)) })
		began := time.Now()
		for p.ask(named(t, "invoice-1")).err != nil {
			require.Less(t, time.Since(began), 20*time.Second)
			pass(time.Second)
		}
		assert.Len(t, l.sent(), 1)
	})
}

func TestAPauseOfOursIsCutShortOnceInAPolicysDelayByWhoeverAsks(t *testing.T) {
	const outage, delay = 10 * time.Minute, 2 * time.Second
	each(t, "two processes, five callers each", func(t *testing.T, j journal.Journal) {
		var tried atomic.Int64
		l := (&line{}).always(doing(func() { tried.Add(1) }, refuses()))
		var asking sync.WaitGroup
		for range 2 {
			p := start(t, l, onceward.Config{Journal: j, Backoff: backoff.Policy{Initial: delay, MaxAttempts: 1}})
			for range 5 {
				asking.Go(func() {
					for began := time.Now(); time.Since(began) < outage; <-time.After(300 * time.Millisecond) {
						assert.ErrorIs(t, p.ask(named(t, "invoice-1")).err, onceward.ErrPending)
					}
				})
			}
		}
		asking.Wait()
		assert.LessOrEqual(t, tried.Load(), int64(outage/delay)+1)
		assert.Greater(t, tried.Load(), int64(outage/delay)/2)
	})
}

func TestNoPauseIsCutShortWhereSomethingMayHaveRun(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).always(loses())
		p := start(t, l, onceward.Config{Journal: j})
		out := p.ask(named(t, "invoice-1"))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		before := len(l.sent())
		for time.Until(out.op.DueAt) > time.Second {
			pass(time.Second)
			require.ErrorIs(t, p.ask(named(t, "invoice-1")).err, onceward.ErrPending)
		}
		assert.Len(t, l.sent(), before)
	})
}

func TestWhatTheProviderAskedForIsNeverCutShort(t *testing.T) {
	for _, row := range []struct {
		asked string
		wait  time.Duration // for who asks by name
	}{
		{"60", time.Minute},
		{"3600", time.Hour},
		{"1", 8 * time.Second}, // the policy's own delay after five attempts
	} {
		each(t, row.asked+" s", func(t *testing.T, j journal.Journal) {
			const attempts = 5
			l := (&line{}).always(says(429, `{}`, "Retry-After", row.asked))
			p := start(t, l, onceward.Config{Journal: j, MaxWait: 24 * time.Hour})
			ctx, cancel := context.WithTimeout(named(t, "invoice-1"), 24*time.Hour)
			defer cancel()
			out := p.ask(ctx)
			require.ErrorIs(t, out.err, onceward.ErrPending)
			require.Len(t, l.sent(), attempts)
			parked := time.Now()
			assert.WithinDuration(t, parked.Add(row.wait), out.op.DueAt, time.Millisecond)
			l.always(says(200, paid))
			for len(l.sent()) == attempts {
				pass(500 * time.Millisecond)
				p.ask(named(t, "invoice-1"))
			}
			assert.WithinRange(t, time.Now(), parked.Add(row.wait), parked.Add(row.wait+time.Second))
		})
	}
	each(t, "Run leaves it alone for as long as it would without", func(t *testing.T, j journal.Journal) {
		l := (&line{}).always(says(429, `{}`, "Retry-After", "1"))
		p := start(t, l, onceward.Config{Journal: j})
		require.ErrorIs(t, p.ask(named(t, "invoice-1")).err, onceward.ErrPending)
		op := p.recorded(onceward.Ref{ID: "invoice-1"})
		assert.Greater(t, time.Until(op.WakeAt), 29*time.Second)
	})
}

// README: retries of the layers above don't multiply.
func TestTheRetriesOfAnSDKAboveDoNotMultiply(t *testing.T) {
	for name, answer := range map[string]reply{
		"nothing gets through": refuses(), "no answer": loses(), "unavailable": unavailable,
		"rate-limited": says(429, `{}`, "Retry-After", "0"), "rate-limited, come back in a second": says(429, `{}`, "Retry-After", "1"),
	} {
		for how, sdk := range map[string]int{"one": 1, "ten at once": 10} {
			each(t, name+", "+how, func(t *testing.T, j journal.Journal) {
				var tried atomic.Int64
				l := (&line{}).always(doing(func() { tried.Add(1) }, answer))
				p := start(t, l, onceward.Config{Journal: j})
				var calls sync.WaitGroup
				for range sdk {
					calls.Go(func() {
						for try := range 4 { // 0.5, 1 and 2 s apart, and with half of that as jitter
							if try > 0 {
								<-time.After(3 * 250 * time.Millisecond << (try - 1))
							}
							assert.Error(t, p.ask(named(t, "invoice-1")).err)
						}
					})
				}
				calls.Wait()
				assert.Equal(t, int64(backoff.DefaultMaxAttempts), tried.Load())
			})
		}
	}
}

func TestOperationsThatFailTogetherDoNotComeBackTogether(t *testing.T) {
	const many = 200
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: backoff.Policy{MaxAttempts: 1}})
		buckets := map[time.Duration]int{}
		for i := range many {
			out := p.ask(named(t, fmt.Sprint("invoice-", i)))
			buckets[time.Until(out.op.DueAt).Truncate(time.Second)]++
		}
		assert.Greater(t, len(buckets), 20, "over half a minute")
		for at, n := range buckets {
			assert.Less(t, n, many/5, "%v from now", at)
		}
	})
}
