package timing_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/benchmarks/internal/timing"
)

func TestPercentiles(t *testing.T) {
	times := make([]time.Duration, 200)
	for i := range times {
		times[i] = time.Duration(i + 1)
	}
	assert.Equal(t, time.Duration(100), timing.Percentile(times, 50))
	assert.Equal(t, time.Duration(198), timing.Percentile(times, 99))
	assert.Equal(t, time.Duration(1), timing.Percentile(times[:1], 99))
	assert.Zero(t, timing.Percentile(nil, 50))
}

func TestMedians(t *testing.T) {
	assert.InDelta(t, 2, timing.MedianOf([]float64{3, 1, 2}), 0)
	assert.Zero(t, timing.MedianOf[time.Duration](nil))
	assert.Equal(t, 2*time.Second, timing.Median([]int{3, 1, 2}, func(n int) time.Duration { return time.Duration(n) * time.Second }))
}

func TestEachCallerWorksAtLeastOnce(t *testing.T) {
	var calls [4]atomic.Int64
	times, err := timing.Load(t.Context(), len(calls), 0, func(_ context.Context, caller int) error {
		calls[caller].Add(1)
		return nil
	})
	require.NoError(t, err)
	assert.Len(t, times, len(calls))
	for i := range calls {
		assert.EqualValues(t, 1, calls[i].Load())
	}

	broken := errors.New("broken")
	_, err = timing.Load(t.Context(), 2, time.Hour, func(_ context.Context, caller int) error { return broken })
	require.ErrorIs(t, err, broken)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = timing.Load(ended, 1, time.Hour, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAFolderInMemoryIsRefused(t *testing.T) {
	require.NoError(t, timing.OnDisk("."))
	if _, err := os.Stat("/dev/shm"); err != nil {
		t.Skip("this machine has no /dev/shm")
	}
	require.ErrorContains(t, timing.OnDisk("/dev/shm"), "in memory")
}
