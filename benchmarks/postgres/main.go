// Postgres runs the same work through our journal on PostgreSQL and through its alternatives, in one run. The work is
// operations of two durable commits, an intent of 0.9 KB and an answer of 0.75 KB.
//
//	go run ./postgres                        the comparison
//	go run ./postgres -delay 1ms             with a round trip that takes a millisecond longer
//	go run ./postgres -claims 100000         claims of so many due operations, beside a foreground's rate
//	go run ./postgres -rows 1100000          our journal beside many operations, and empty
//	go run ./postgres -outbox                operations that are enqueued in the application's own transaction
//
// It starts a separate PostgreSQL server in the system's temporary folder (TMPDIR), with PostgreSQL's own settings:
// fsync and all. Compare only within one run: a disk's speed varies from one to the next.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/timing"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

func main() { timing.Main("postgres", run) }

// options are what the flags say.
type options struct {
	callers, processes []int
	delay              time.Duration
	runs               time.Duration
	repetitions        int
	chosen             []contender
	claims, rows       int
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == childCommand {
		return child(ctx, args[1:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	server, err := postgrestest.New()
	if err != nil {
		return err
	}
	defer server.Close()
	d, err := newDatabase(ctx, server.URL(), o.delay)
	if err != nil {
		return err
	}
	defer d.close()
	switch {
	case o.claims > 0:
		return claims(ctx, d, o, out)
	case o.rows > 0:
		return beside(ctx, d, o, out)
	}
	if err := d.describe(ctx, out, o); err != nil {
		return err
	}
	all, err := compare(ctx, d, o)
	return errors.Join(err, all.print(out, o)) // what was measured before an error too
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("postgres", flag.ContinueOnError)
	callers := flags.String("callers", "1,8,64,256", "numbers of callers, in all processes together")
	processes := flags.String("processes", "1,4", "numbers of processes that the callers are spread over")
	flags.DurationVar(&o.delay, "delay", 0, "how much longer a round trip to the database takes")
	flags.DurationVar(&o.runs, "duration", 3*time.Second, "how long each runs at a time")
	flags.IntVar(&o.repetitions, "repetitions", 3, "how often each runs; the medians are printed")
	outbox := flags.Bool("outbox", false, "measure transactions of an application's that enqueue: ours, and River's InsertTx")
	only := flags.String("only", "", "names of those to run, with commas between; empty: all")
	flags.IntVar(&o.claims, "claims", 0, "measure claims of this many due operations")
	flags.IntVar(&o.rows, "rows", 0, "measure our journal beside this many completed operations")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.callers, err = timing.Numbers("-callers", *callers); err != nil {
		return o, err
	}
	if o.processes, err = timing.Numbers("-processes", *processes); err != nil {
		return o, err
	}
	from := contenders
	if *outbox {
		from = outboxes
	}
	o.chosen, err = timing.Choose(from, *only, func(c contender) string { return c.name })
	return o, err
}

// compare runs the contenders in turn, so the machine's other load falls on all.
func compare(ctx context.Context, d *database, o options) (results, error) {
	all := results{}
	for _, processes := range o.processes {
		for _, callers := range o.callers {
			if callers < processes {
				continue
			}
			measured := make([][]figures, len(o.chosen))
			for turn := range o.repetitions {
				for i, c := range o.chosen {
					fmt.Fprintf(os.Stderr, "\r\x1b[K%d callers in %d processes, run %d of %d: %s", callers, processes, turn+1, o.repetitions, c.name)
					f, err := measure(ctx, d, c.name, callers, processes, o.runs)
					if err != nil {
						return all, fmt.Errorf("%s, %d callers in %d processes: %w", c.name, callers, processes, err)
					}
					measured[i] = append(measured[i], f)
				}
			}
			for i, c := range o.chosen {
				all[at{c.name, callers, processes}] = medians(measured[i])
			}
		}
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	return all, nil
}
