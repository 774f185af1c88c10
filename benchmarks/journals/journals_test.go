package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every store keeps its operations across a close.
func TestStoresKeepOperationsAcrossAClose(t *testing.T) {
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			s, err := c.open(folder)
			require.NoError(t, err)
			keys := make([]string, 50)
			for i := range keys {
				keys[i] = newKey()
				require.NoError(t, s.operation(t.Context(), keys[i]))
			}
			require.NoError(t, s.close())

			if s, err = c.open(folder); err != nil {
				require.NoError(t, err)
			}
			t.Cleanup(func() { assert.NoError(t, s.close()) })
			for _, key := range keys {
				there, err := s.has(t.Context(), key)
				if c.name == nameFloor {
					require.ErrorIs(t, err, errors.ErrUnsupported)
					continue
				}
				require.NoError(t, err)
				assert.True(t, there)
			}
		})
	}
}

func TestALoadIsCountedAndTimed(t *testing.T) {
	f, err := measure(t.Context(), contenders[0], t.TempDir(), 4, 50*time.Millisecond)
	require.NoError(t, err)
	assert.Positive(t, f.OpsPerSecond)
	assert.Positive(t, f.P50)
	assert.GreaterOrEqual(t, f.P99, f.P50)
	assert.Positive(t, f.CPU)
	assert.Positive(t, f.Allocations)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = measure(ctx, contenders[0], t.TempDir(), 1, time.Minute)
	require.ErrorIs(t, err, context.Canceled)
}

func TestMediansAreTakenOfEachFigureByItself(t *testing.T) {
	m := medians([]figures{{OpsPerSecond: 3, P99: 1}, {OpsPerSecond: 1, P99: 5}, {OpsPerSecond: 2, P99: 3}})
	assert.Equal(t, figures{OpsPerSecond: 2, P99: 3}, m)
}

func TestAnAimIsReachedOrMissed(t *testing.T) {
	r := results{}
	r.set(nameOnceward, 64, figures{OpsPerSecond: 1800, P99: 36})
	r.set(nameNaive, 64, figures{OpsPerSecond: 100, P99: 100})
	var out bytes.Buffer
	require.NoError(t, r.printAims(&out))
	assert.Regexp(t, `64 +18 +≥ 3 +reached +ops/s ÷ naive\n`, out.String())
	assert.Regexp(t, `64 +0.36 +≤ 0.35 +missed +p99 ÷ naive's\n`, out.String())
	assert.NotContains(t, out.String(), "pebble", "what was not measured is left out")
}

func TestUnknownNamesAreRefused(t *testing.T) {
	for name, args := range map[string][]string{
		"a store":             {"-only", "mongodb"},
		"a number of callers": {"-callers", "1,zero"},
		"a folder":            {"-dir", "no/such/folder"},
	} {
		t.Run(name, func(t *testing.T) { require.Error(t, run(t.Context(), args, io.Discard)) })
	}
}
