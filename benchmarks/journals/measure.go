package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
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
	times, failed := make([][]time.Duration, callers), make([]error, callers)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := processorTime()
	began := time.Now()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for now := began; now.Sub(began) < runs && ctx.Err() == nil; {
				if failed[i] = s.operation(ctx, newKey()); failed[i] != nil {
					return
				}
				next := time.Now()
				times[i] = append(times[i], next.Sub(now))
				now = next
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	cpu = processorTime() - cpu
	runtime.ReadMemStats(&after)
	for _, err := range failed {
		if err != nil {
			return figures{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return figures{}, err
	}
	all := slices.Concat(times...)
	slices.Sort(all)
	n := float64(len(all))
	return figures{
		OpsPerSecond: n / took.Seconds(),
		P50:          percentile(all, 50),
		P99:          percentile(all, 99),
		CPU:          time.Duration(float64(cpu) / n),
		Allocations:  float64(after.Mallocs-before.Mallocs) / n,
	}, nil
}

// percentile returns the least of the sorted times that p percent do not exceed; 0 if there are none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// processorTime is what this process has used, in user and system mode.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// medians takes each figure's own median.
func medians(runs []figures) figures {
	return figures{
		OpsPerSecond: median(runs, func(f figures) float64 { return f.OpsPerSecond }),
		P50:          median(runs, func(f figures) time.Duration { return f.P50 }),
		P99:          median(runs, func(f figures) time.Duration { return f.P99 }),
		CPU:          median(runs, func(f figures) time.Duration { return f.CPU }),
		Allocations:  median(runs, func(f figures) float64 { return f.Allocations }),
	}
}

func median[T float64 | time.Duration](runs []figures, of func(figures) T) T {
	values := make([]T, len(runs))
	for i := range runs {
		values[i] = of(runs[i])
	}
	slices.Sort(values)
	if len(values) == 0 {
		return 0
	}
	return values[(len(values)-1)/2]
}
