package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/timing"
)

// figures are one store run's results, or the medians from several.
type figures struct {
	OpsPerSecond float64
	P50, P99     time.Duration
	CPU          time.Duration // an operation, in the whole process
	Allocations  float64       // an operation
}

// measure makes callers do operations for a time, each starting the next after the last, in a new store.
func measure(ctx context.Context, c contender, dir string, callers int, runs time.Duration) (f figures, err error) {
	folder, err := os.MkdirTemp(dir, "journals-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(folder)
	s, err := c.open(folder)
	if err != nil {
		return f, fmt.Errorf("open %s: %w", c.name, err)
	}
	defer func() {
		if closeErr := s.close(); err == nil {
			err = closeErr
		}
	}()
	return load(ctx, s, callers, runs)
}

func load(ctx context.Context, s store, callers int, runs time.Duration) (figures, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used, err := timing.Own()
	if err != nil {
		return figures{}, err
	}
	began := time.Now()
	all, err := timing.Load(ctx, callers, runs, func(ctx context.Context, _ int) error { return s.operation(ctx, newKey()) })
	if err != nil {
		return figures{}, err
	}
	took := time.Since(began)
	now, err := timing.Own()
	runtime.ReadMemStats(&after)
	n := float64(len(all))
	return figures{
		OpsPerSecond: n / took.Seconds(),
		P50:          timing.Percentile(all, 50),
		P99:          timing.Percentile(all, 99),
		CPU:          time.Duration(float64(now-used) / n),
		Allocations:  float64(after.Mallocs-before.Mallocs) / n,
	}, err
}

// medians takes each figure's own median.
func medians(runs []figures) figures {
	return figures{
		OpsPerSecond: timing.Median(runs, func(f figures) float64 { return f.OpsPerSecond }),
		P50:          timing.Median(runs, func(f figures) time.Duration { return f.P50 }),
		P99:          timing.Median(runs, func(f figures) time.Duration { return f.P99 }),
		CPU:          timing.Median(runs, func(f figures) time.Duration { return f.CPU }),
		Allocations:  timing.Median(runs, func(f figures) float64 { return f.Allocations }),
	}
}
