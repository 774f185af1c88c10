package retry_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/retry"
)

// never is a Refill or a PerSuccess that adds up to nothing, since 0 means the default.
const never = math.SmallestNonzeroFloat64

// drain takes all available tokens at one time.
func drain(bucket *retry.Bucket, at time.Time) (taken int) {
	for {
		if ok, _ := bucket.Take(at); !ok {
			return taken
		}
		taken++
	}
}

func TestRetriesAreRefusedUntilATokenOrAProbe(t *testing.T) {
	type step struct {
		at      time.Duration // since the start
		success bool          // else a retry is asked for
		next    time.Duration // 0: it may be made
	}
	ask := func(at, next time.Duration) step { return step{at: at, next: next} }
	success := func(at time.Duration) step { return step{at: at, success: true} }
	const s = time.Second
	for _, tc := range []struct {
		name   string
		budget backoff.Budget
		steps  []step
	}{
		{"tokens come back with time", backoff.Budget{Capacity: 2, Refill: 0.5, ProbeEvery: time.Hour}, []step{
			ask(0, 0), ask(0, 0), ask(0, 2*s), ask(1*s, 2*s), ask(2*s, 0), ask(2*s, 4*s), ask(5*s, 0), ask(5*s, 6*s), ask(6*s, 0),
		}},
		{"and no more than Capacity of them", backoff.Budget{Capacity: 2, Refill: 1, ProbeEvery: time.Hour}, []step{
			ask(time.Minute, 0), ask(time.Minute, 0), ask(time.Minute, 61*s),
		}},
		{"a success puts some back", backoff.Budget{Capacity: 1, Refill: never, PerSuccess: 0.5, ProbeEvery: 9 * s}, []step{
			ask(0, 0), success(0), ask(0, 9*s), success(1 * s), ask(1*s, 0), ask(1*s, 10*s),
		}},
		{"and brings the next closer", backoff.Budget{Capacity: 9, Refill: 0.5, PerSuccess: 0.75, ProbeEvery: time.Hour}, []step{
			ask(0, 0), ask(0, 0), ask(0, 0), ask(0, 0), ask(0, 0), ask(0, 0), ask(0, 0), ask(0, 0), ask(0, 0),
			ask(0, 2*s), success(0), ask(0, s/2),
		}},
		{"a success in a full bucket adds nothing", backoff.Budget{Capacity: 1, Refill: never, PerSuccess: 5, ProbeEvery: 9 * s}, []step{
			success(0), success(0), ask(0, 0), ask(0, 9*s),
		}},
		{"a probe every ProbeEvery", backoff.Budget{Capacity: 1, Refill: never, ProbeEvery: 2 * s}, []step{
			ask(0, 0), ask(1*s, 2*s), ask(2*s, 0), ask(2*s, 4*s), ask(3*s, 4*s), ask(9*s, 0), ask(9*s, 11*s),
		}},
		{"a token's retry puts the probe off", backoff.Budget{Capacity: 1, Refill: never, PerSuccess: 1, ProbeEvery: 2 * s}, []step{
			ask(0, 0), success(1 * s), ask(1*s, 0), ask(2*s, 3*s), ask(3*s, 0),
		}},
		{"a probe leaves the rest of a token", backoff.Budget{Capacity: 1, Refill: 0.25, ProbeEvery: 3 * s}, []step{
			ask(0, 0), ask(3*s, 0), ask(3*s, 4*s), ask(4*s, 0),
		}},
		{"a success makes no probe come earlier", backoff.Budget{Capacity: 1, Refill: never, PerSuccess: never, ProbeEvery: 2 * s}, []step{
			ask(0, 0), success(1 * s), ask(1*s, 2*s),
		}},
		{"a clock that is set back goes on from there", backoff.Budget{Capacity: 1, Refill: 0.5, ProbeEvery: time.Minute}, []step{
			ask(48*time.Hour, 0), ask(48*time.Hour+s, 48*time.Hour+2*s), ask(0, 1*s), ask(1*s, 0),
		}},
		{"and a probe with it", backoff.Budget{Capacity: 1, Refill: never, ProbeEvery: 5 * s}, []step{
			ask(48*time.Hour, 0), ask(48*time.Hour+3*s, 48*time.Hour+5*s), ask(0, 2*s), ask(2*s, 0), ask(2*s, 7*s),
		}},
		{"a caller whose time is a little old changes nothing", backoff.Budget{Capacity: 1, Refill: 0.5, ProbeEvery: time.Minute}, []step{
			ask(1*s, 0), ask(2*s, 3*s), ask(1*s, 3*s), ask(2*s, 3*s), ask(1*s, 3*s), ask(3*s, 0),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.NoError(t, tc.budget.Validate())
			bucket := retry.NewBucket(tc.budget, now)
			for i, step := range tc.steps {
				at := now.Add(step.at)
				if step.success {
					bucket.Success(at)
					continue
				}
				ok, next := bucket.Take(at)
				assert.Equal(t, step.next == 0, ok, "step %d", i)
				if step.next == 0 {
					assert.Zero(t, next, "step %d", i)
				} else {
					assert.Equal(t, now.Add(step.next), next, "step %d", i)
				}
			}
		})
	}
}

// Capacity, time, successes and probes bound the retries. In no history are there more retries, probes included, than
// tokens.
func TestBudgetBoundsRetries(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		budget := backoff.Budget{
			Capacity:   1 + r.IntN(20),
			Refill:     math.Exp(r.Float64()*16 - 10),
			PerSuccess: r.Float64() * 2,
			ProbeEvery: time.Duration(1 + r.Int64N(int64(10*time.Second))),
		}.WithDefaults()
		bucket := retry.NewBucket(budget, now)
		var (
			clock   = now
			highest = now           // that the bucket counts from
			passed  time.Duration   // forward, for the bucket
			taken   int             // without those below
			probes  []time.Duration // let through while a whole token can't have been there
			tokens  = float64(budget.Capacity)
			last    time.Duration // when the last retry was let through
		)
		for range 400 {
			step := time.Duration(r.ExpFloat64() * float64(time.Second))
			if r.IntN(10) == 0 {
				step = -time.Duration(r.ExpFloat64() * float64(20*time.Second))
			}
			clock = clock.Add(step)
			if elapsed := clock.Sub(highest); elapsed > 0 {
				passed += elapsed
				tokens = min(tokens+elapsed.Seconds()*budget.Refill, float64(budget.Capacity))
				highest = clock
			} else if elapsed < -budget.ProbeEvery {
				highest = clock
			}
			if r.IntN(3) == 0 {
				bucket.Success(clock)
				tokens = min(tokens+budget.PerSuccess, float64(budget.Capacity))
				continue
			}
			ok, next := bucket.Take(clock)
			switch {
			case ok && tokens > 1-1e-6:
				tokens = max(tokens-1, 0)
				taken++
				last = passed
			case ok:
				require.GreaterOrEqual(t, passed-last, budget.ProbeEvery, "seed %d: a probe came early", seed)
				probes = append(probes, passed)
				last = passed
			default:
				require.Less(t, tokens, 1+1e-6, "seed %d: refused in spite of a token", seed)
				require.Less(t, passed-last, budget.ProbeEvery, "seed %d: refused in spite of a probe", seed)
				require.True(t, next.After(clock), "seed %d: %v is no later than %v", seed, next, clock)
				require.LessOrEqual(t, next.Sub(highest), budget.ProbeEvery, "seed %d: later than the probe", seed)
			}
		}
		require.Positive(t, taken, "seed %d", seed)
		require.LessOrEqual(t, float64(len(probes)), 1+passed.Seconds()/budget.ProbeEvery.Seconds(), "seed %d", seed)
		require.LessOrEqual(t, drain(bucket, highest), budget.Capacity+1, "seed %d: more tokens than fit, and a probe", seed)
	}
}

// A retry may be made at the time that was given and not before.
func TestBudgetRetryAtTheTimeThatWasGiven(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		bucket := retry.NewBucket(backoff.Budget{
			Capacity:   1 + r.IntN(5),
			Refill:     math.Exp(r.Float64()*15 - 6),
			PerSuccess: r.Float64(),
			ProbeEvery: time.Duration(1 + r.Int64N(int64(time.Hour))),
		}, now)
		clock := now
		for range 20 {
			drain(bucket, clock)
			if r.IntN(2) == 0 {
				bucket.Success(clock)
			}
			ok, next := bucket.Take(clock)
			if ok {
				continue
			}
			// A token is a binary fraction of seconds away, so the last nanoseconds are a matter of rounding.
			if early := next.Add(-10); early.After(clock) {
				ok, _ = bucket.Take(early)
				require.False(t, ok, "seed %d: 10 ns before %v", seed, next)
			}
			ok, _ = bucket.Take(next)
			require.True(t, ok, "seed %d: at %v", seed, next)
			clock = next
		}
	}
}

func TestManyCallersTakeNoMoreThanThereIs(t *testing.T) {
	const callers, each = 16, 500
	bucket := retry.NewBucket(backoff.Budget{Capacity: 100, Refill: never, PerSuccess: 0.5, ProbeEvery: time.Hour}, now)
	var taken atomic.Int64
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			for i := range each {
				// They read the clock before they wait for their turn, so times arrive out of order.
				at := now.Add(time.Duration(i) * time.Millisecond)
				if ok, _ := bucket.Take(at); ok {
					taken.Add(1)
				}
				if i%10 == 0 {
					bucket.Success(at)
				}
			}
		})
	}
	done.Wait()
	const successes = callers * each / 10
	assert.LessOrEqual(t, taken.Load(), int64(100+successes/2))
	assert.GreaterOrEqual(t, taken.Load(), int64(100))
}

func TestABudgetWithoutEndNeverRefuses(t *testing.T) {
	bucket := retry.NewBucket(backoff.Budget{Capacity: math.MaxInt}, now)
	for range 10_000 {
		ok, next := bucket.Take(now)
		require.True(t, ok)
		require.Zero(t, next)
	}
}

func ExampleNewBucket() {
	start := time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)
	bucket := retry.NewBucket(backoff.Budget{Capacity: 2, Refill: 0.1, PerSuccess: 0.5, ProbeEvery: 3 * time.Second}, start)

	ask := func(at time.Time) {
		ok, next := bucket.Take(at)
		if ok {
			fmt.Println(at.Format("05"), "retry")
		} else {
			fmt.Println(at.Format("05"), "park until", next.Format("05"))
		}
	}
	ask(start)
	ask(start)
	ask(start)                      // used up
	ask(start.Add(3 * time.Second)) // the probe, which gets an answer
	bucket.Success(start.Add(4 * time.Second))
	ask(start.Add(4 * time.Second))
	ask(start.Add(5 * time.Second))
	// Output:
	// 00 retry
	// 00 retry
	// 00 park until 03
	// 03 retry
	// 04 park until 05
	// 05 retry
}
