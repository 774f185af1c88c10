// Consume does messages once on PostgreSQL: by package consume, and by a table by hand, in one run.
//
//	go run ./consume
//
// The program makes a PostgreSQL server in the system's temporary folder (TMPDIR). Compare only within one run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/cpu"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "consume:", err)
		os.Exit(1)
	}
}

type options struct {
	workers     int
	together    int
	repetitions int
	duration    time.Duration
}

// contender is a way to do messages once.
type contender struct {
	name  string
	batch int // messages that a worker gets at once
	do    func(ctx context.Context, ids []string) error
}

// run runs the contenders in turn, so the machine's other load falls on all.
func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("consume", flag.ContinueOnError)
	flags.IntVar(&o.workers, "workers", 16, "how many workers consume at once")
	flags.IntVar(&o.together, "together", 100, "how many messages share a transaction, where several do")
	flags.IntVar(&o.repetitions, "repetitions", 5, "how often each runs; the medians are printed")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "how long each runs each time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer s.end()
	measured := make([][]figures, len(s.contenders))
	for turn := range o.repetitions + 1 {
		for i, one := range s.contenders {
			fmt.Fprintf(os.Stderr, "\r\x1b[Krun %d of %d: %s", turn, o.repetitions, one.name)
			f, err := s.measure(ctx, one, o)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			if turn > 0 { // the first is to warm up
				measured[i] = append(measured[i], f)
			}
		}
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	fmt.Fprintf(out, "%s, %s, %d CPUs, %d workers; medians of %d interleaved runs of %v\n\n", s.describe, runtime.Version(), runtime.NumCPU(), o.workers, o.repetitions, o.duration)
	table := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintf(table, "| \t| messages/s\t| of %s\t| CPU\t| database's CPU\t|\n|-\t|-\t|-\t|-\t|-\t|\n", s.contenders[0].name)
	rate := func(f figures) float64 { return f.rate }
	for i, one := range s.contenders {
		all := measured[i]
		fmt.Fprintf(table, "| %s\t| %.0f\t| %.2f\t| %v\t| %v\t|\n", one.name, median(all, rate), median(all, rate)/median(measured[0], rate),
			median(all, func(f figures) time.Duration { return f.own }).Round(time.Microsecond), median(all, func(f figures) time.Duration { return f.database }).Round(time.Microsecond))
	}
	return table.Flush()
}

type figures struct {
	rate          float64       // messages a second
	own, database time.Duration // a message's processor time, in this process and the server's processes
}

func median[T float64 | time.Duration](all []figures, of func(figures) T) T {
	var each []T
	for _, f := range all {
		each = append(each, of(f))
	}
	slices.Sort(each)
	return each[len(each)/2]
}

// measure has the workers do messages for so long. Each message has a row, or measure fails.
func (s *setup) measure(ctx context.Context, one contender, o options) (figures, error) {
	before, err := s.rows(ctx)
	if err != nil {
		return figures{}, err
	}
	idle, err := cpu.UsedBy(s.postmaster)
	if err != nil {
		return figures{}, err
	}
	var done atomic.Int64
	var workers sync.WaitGroup
	failed := make([]error, o.workers)
	began := time.Now()
	for i := range o.workers {
		workers.Go(func() {
			for first := true; failed[i] == nil && (first || time.Since(began) < o.duration); first = false {
				ids := make([]string, one.batch)
				for k := range ids {
					ids[k] = fmt.Sprintf("message-%012d", s.ids.Add(1))
				}
				failed[i] = one.do(ctx, ids)
				done.Add(int64(len(ids)))
			}
		})
	}
	workers.Wait()
	took := time.Since(began)
	used, broken := cpu.UsedBy(s.postmaster)
	after, err := s.rows(ctx)
	if err := errors.Join(append(failed, broken, err)...); err != nil {
		return figures{}, err
	}
	n := done.Load()
	if after-before != n {
		return figures{}, fmt.Errorf("%d messages have %d rows", n, after-before)
	}
	return figures{
		rate: float64(n) / took.Seconds(), own: (used.Own - idle.Own) / time.Duration(n), database: (used.Database - idle.Database) / time.Duration(n),
	}, nil
}
