// Journals runs the same work through our SQLite journal and through its alternatives, in one run. The work is operations
// of two durable writes, an intent and an answer.
//
//	go run ./journals                     the comparison
//	go run ./journals -rows 1100000       our journal beside many operations
//
// Compare only within one run: a disk's speed varies from one to the next.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/timing"
)

func main() { timing.Main("journals", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("journals", flag.ContinueOnError)
	dir := flags.String("dir", ".", "a folder on the disk to measure")
	times := flags.Int("repetitions", 5, "how often each store runs with each number of callers")
	runs := flags.Duration("duration", 2*time.Second, "how long it runs each time")
	at := flags.String("callers", "1,8,64,256", "numbers of callers")
	only := flags.String("only", "", "names of the stores to run, with commas between; empty: all")
	body := flags.Int("body", 0, "bytes of each request's body, and of each answer's; 0: about 400 of each")
	rows := flags.Int("rows", 0, "measure our journal alone beside this many completed operations")
	left := flags.String("leave", "", "for -rows: begin operations in this journal until killed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *body > 0 {
		setBodies(*body)
	}
	if *left != "" {
		return leave(ctx, *left)
	}
	if err := timing.OnDisk(*dir); err != nil {
		return err
	}
	if *rows > 0 {
		return beside(ctx, out, *dir, *rows, *runs, *times)
	}
	callers, err := timing.Numbers("-callers", *at)
	if err != nil {
		return err
	}
	chosen, err := timing.Choose(contenders, *only, func(c contender) string { return c.name })
	if err != nil {
		return err
	}
	all, err := compare(ctx, chosen, *dir, callers, *times, *runs)
	if err != nil {
		return err
	}
	if err := all.printFigures(out, callers); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return all.printAims(out)
}

// compare runs the stores in turn, so the machine's other load falls on all.
func compare(ctx context.Context, chosen []contender, dir string, callers []int, times int, runs time.Duration) (results, error) {
	all := results{}
	for _, n := range callers {
		measured := make([][]figures, len(chosen))
		for turn := range times {
			for i, c := range chosen {
				fmt.Fprintf(os.Stderr, "\r\x1b[K%d callers, run %d of %d: %s", n, turn+1, times, c.name)
				f, err := measure(ctx, c, dir, n, runs)
				if err != nil {
					return nil, fmt.Errorf("%s, %d callers: %w", c.name, n, err)
				}
				measured[i] = append(measured[i], f)
			}
		}
		for i, c := range chosen {
			all.set(c.name, n, medians(measured[i]))
		}
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	return all, nil
}
