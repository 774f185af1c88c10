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
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/timing"
)

func main() { timing.Main("consume", run) }

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
		fmt.Fprintf(table, "| %s\t| %.0f\t| %.2f\t| %v\t| %v\t|\n", one.name, timing.Median(all, rate), timing.Median(all, rate)/timing.Median(measured[0], rate),
			timing.Median(all, func(f figures) time.Duration { return f.own }).Round(time.Microsecond), timing.Median(all, func(f figures) time.Duration { return f.database }).Round(time.Microsecond))
	}
	return table.Flush()
}

type figures struct {
	rate          float64       // messages a second
	own, database time.Duration // a message's processor time, in this process and the server's processes
}

// measure has the workers do messages for so long. Each message has a row, or measure fails.
func (s *setup) measure(ctx context.Context, one contender, o options) (figures, error) {
	before, err := s.rows(ctx)
	if err != nil {
		return figures{}, err
	}
	idle, err := timing.UsedBy(s.postmaster)
	if err != nil {
		return figures{}, err
	}
	began := time.Now()
	times, err := timing.Load(ctx, o.workers, o.duration, func(ctx context.Context, _ int) error {
		ids := make([]string, one.batch)
		for k := range ids {
			ids[k] = fmt.Sprintf("message-%012d", s.ids.Add(1))
		}
		return one.do(ctx, ids)
	})
	if err != nil {
		return figures{}, err
	}
	took := time.Since(began)
	used, broken := timing.UsedBy(s.postmaster)
	after, err := s.rows(ctx)
	if err := errors.Join(broken, err); err != nil {
		return figures{}, err
	}
	n := int64(len(times) * one.batch)
	if after-before != n {
		return figures{}, fmt.Errorf("%d messages have %d rows", n, after-before)
	}
	return figures{
		rate: float64(n) / took.Seconds(), own: (used.Own - idle.Own) / time.Duration(n), database: (used.Database - idle.Database) / time.Duration(n),
	}, nil
}
