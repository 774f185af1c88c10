package background_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/soak"
)

// outage parks operations while the provider is down. Run goes on for the given time until the provider is back, and
// for as long again. It returns the requests' times, relative to the start of Run and to the provider's return.
func outage(t *testing.T, operations int, lasts time.Duration, budget backoff.Budget, down reply) (during, after []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var came []time.Time
	note := func() { mu.Lock(); came = append(came, time.Now()); mu.Unlock() }
	l := (&line{}).Always(doing(note, down))
	p := start(t, l, onceward.Config{RetryBudget: budget})
	var callers sync.WaitGroup
	for i := range operations {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(named(t, fmt.Sprint("invoice-", i)), 10*time.Second)
			defer cancel()
			assert.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
		})
	}
	callers.Wait()
	mu.Lock()
	came = nil
	mu.Unlock()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(seam.Seldom(ctx, time.Minute)) }()
	began := time.Now()
	pass(lasts)
	back := time.Now()
	l.Always(doing(note, says(200, paid)))
	pass(lasts)
	stop()
	<-done
	for _, at := range came {
		if at.Before(back) {
			during = append(during, at.Sub(began))
		} else {
			after = append(after, at.Sub(back))
		}
	}
	return during, after
}

func perBucket(came []time.Duration, bucket, whole time.Duration) []int {
	counts := make([]int, int(math.Ceil(float64(whole)/float64(bucket))))
	for _, at := range came {
		counts[min(int(at/bucket), len(counts)-1)]++
	}
	return counts
}

// A provider that is down gets fewer and fewer requests from a Run whose operations are all parked. After two minutes
// the provider gets one request in the policy's longest delay, as docs/outages.md says.
func TestOutageGetsLessAndLess(t *testing.T) {
	t.Parallel()
	const lasts, bucket = 10 * time.Minute, 2 * time.Minute
	floor := int(bucket / backoff.DefaultMax) // one request in the policy's longest delay
	for name, down := range map[string]reply{"nothing gets through": refuses(), "no answer": loses(), "unavailable": unavailable} {
		for _, operations := range []int{10, 100, 1000} {
			if operations == 1000 && (!soak.On() || name != "nothing gets through") {
				continue
			}
			virtual(t, fmt.Sprintf("%s, %d operations", name, operations), func(t *testing.T) {
				with, after := outage(t, operations, lasts, backoff.Budget{}, down)
				without, _ := outage(t, operations, lasts, backoff.Budget{Capacity: math.MaxInt}, down)
				assert.LessOrEqual(t, len(with), len(without)+floor, "no more than without the budget")
				for what, came := range map[string][]time.Duration{"with the budget": with, "without": without} {
					counts := perBucket(came, bucket, lasts)
					t.Log(what, counts)
					for i := 1; i < len(counts); i++ {
						assert.LessOrEqual(t, counts[i], counts[i-1], "%s: requests in two minutes never rise", what)
						assert.LessOrEqual(t, counts[i], floor, what)
					}
					assert.Positive(t, counts[len(counts)-1], what)
				}
				require.Len(t, after, operations, "each of them once")
				seconds := perBucket(after, time.Second, lasts)
				for i, n := range seconds {
					assert.LessOrEqual(t, n, i+2, "second %d of the recovery, which begins with a probe", i)
				}
			})
		}
	}
}

// Several processes that pause at the same time do not probe at the same time.
func TestOutageProbesAreSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		at := map[time.Time]int{}
		l := (&line{}).Always(hangs())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var asking, running sync.WaitGroup
		const processes = 10
		var all []*process
		for range processes {
			p := start(t, l, onceward.Config{Backoff: once})
			all = append(all, p)
			for i := range 60 { // more than are tried, so that one is always due
				asking.Go(func() {
					// A caller that leaves makes its operation due at once, so all pauses begin at the same time.
					leaving, leave := context.WithCancel(named(t, fmt.Sprint("invoice-", i)))
					time.AfterFunc(time.Second, leave)
					p.Ask(leaving)
				})
			}
		}
		asking.Wait()
		l.Always(doing(func() { mu.Lock(); at[time.Now()]++; mu.Unlock() }, refuses()))
		for _, p := range all {
			running.Go(func() { _ = p.Run(ctx) })
		}
		pass(time.Minute)
		mu.Lock()
		clear(at)
		mu.Unlock()
		pass(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for when, n := range at {
			assert.Less(t, n, processes/2, when)
		}
		stop()
		running.Wait()
	})
}
