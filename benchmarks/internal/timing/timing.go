// Package timing is what the benchmarks share: callers that work at once, percentiles, medians and processor time.
package timing

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"
)

// Main runs a program until it ends or an interrupt comes. An error ends the process with the status 1.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Load has so many callers work until the time is over, each at least once and each again after the last. It returns how long
// each piece of work took, in ascending order.
func Load(ctx context.Context, callers int, duration time.Duration, work func(ctx context.Context, caller int) error) ([]time.Duration, error) {
	times, failed := make([][]time.Duration, callers), make([]error, callers)
	began := time.Now()
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for now := began; ctx.Err() == nil; {
				if failed[i] = work(ctx, i); failed[i] != nil {
					return
				}
				next := time.Now()
				times[i] = append(times[i], next.Sub(now))
				if now = next; now.Sub(began) >= duration {
					return
				}
			}
		})
	}
	group.Wait()
	return slices.Sorted(slices.Values(slices.Concat(times...))), errors.Join(append(failed, ctx.Err())...)
}

// Percentile returns the least of the sorted times that p percent do not exceed. Without times it returns 0.
func Percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// Median returns the median of a figure. Without runs it returns 0.
func Median[R any, T float64 | time.Duration](runs []R, of func(R) T) T {
	values := make([]T, len(runs))
	for i := range runs {
		values[i] = of(runs[i])
	}
	return MedianOf(values)
}

// MedianOf returns the median, or 0 if there are no values.
func MedianOf[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)/2]
}
