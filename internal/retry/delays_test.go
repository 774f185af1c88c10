package retry_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/retry"
)

const floor = 10 * time.Millisecond

// Delays are spread evenly up to growing ceilings.
func TestDelaysAreSpreadUpToCeilings(t *testing.T) {
	ms := time.Millisecond
	for _, tc := range []struct {
		name     string
		policy   backoff.Policy
		ceilings []time.Duration
	}{
		{"the defaults", backoff.Policy{}, []time.Duration{
			500 * ms, 1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms, 16000 * ms, 30000 * ms, 30000 * ms,
		}},
		{"another multiplier", backoff.Policy{Initial: 100 * ms, Max: time.Second, Multiplier: 3}, []time.Duration{
			100 * ms, 300 * ms, 900 * ms, 1000 * ms, 1000 * ms,
		}},
		{"no growth", backoff.Policy{Initial: time.Second, Multiplier: 1}, []time.Duration{1000 * ms, 1000 * ms}},
		{"the longest durations", backoff.Policy{Initial: math.MaxInt64 / 2, Max: math.MaxInt64}, []time.Duration{
			math.MaxInt64 / 2, math.MaxInt64, math.MaxInt64,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const draws = 4000
			sums := make([]float64, len(tc.ceilings))
			longest := make([]time.Duration, len(tc.ceilings))
			for range draws {
				delays := retry.NewDelays(tc.policy)
				for i, ceiling := range tc.ceilings {
					d := delays.Next()
					if d < floor || d > ceiling {
						t.Fatalf("delay %d is %v, not between %v and %v", i+1, d, floor, ceiling)
					}
					sums[i] += float64(d) / draws
					longest[i] = max(longest[i], d)
				}
			}
			for i, ceiling := range tc.ceilings {
				// Ten standard errors of the mean either side.
				assert.InEpsilon(t, (float64(floor)+float64(ceiling))/2, sums[i], 0.1, "mean of delay %d", i+1)
				assert.Greater(t, float64(longest[i]), 0.95*float64(ceiling), "longest of delay %d", i+1)
			}
		})
	}
}

func TestACeilingBelowTheFloorIsTheDelay(t *testing.T) {
	delays := retry.NewDelays(backoff.Policy{Initial: time.Microsecond, Max: 3 * time.Microsecond})
	assert.Equal(t, 1*time.Microsecond, delays.Next())
	assert.Equal(t, 2*time.Microsecond, delays.Next())
	assert.Equal(t, 3*time.Microsecond, delays.Next())
	assert.Equal(t, 3*time.Microsecond, delays.Next())
}

func TestDelaysNeverEnd(t *testing.T) {
	delays := retry.NewDelays(backoff.Policy{Initial: time.Hour, Max: time.Hour})
	for range 1000 {
		d := delays.Next()
		if d < floor || d > time.Hour {
			t.Fatalf("%v is no delay", d)
		}
	}
}

func ExampleNewDelays() {
	policy := backoff.Policy{Initial: 200 * time.Millisecond, Max: 5 * time.Second, MaxAttempts: 3}
	delays := retry.NewDelays(policy) // one for each operation
	for attempt := 2; attempt <= policy.MaxAttempts; attempt++ {
		d := delays.Next()
		fmt.Println(attempt, d > 0, d <= policy.Max)
	}
	// Output:
	// 2 true true
	// 3 true true
}
