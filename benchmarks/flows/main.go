// Flows runs the same four-step flow, each a call to a provider on the loopback, through Onceward and through other
// durable workflow engines, in one run. These are River on SQLite and DBOS Transact, with synchronous=FULL for all. Every
// run ends with a look into the provider's ledger: one effect a step.
//
//	go run ./flows                    64 flows at once
//	go run ./flows -guarantees        what each guarantees
//
// Compare only within one run: a disk's speed varies from one to the next.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/timing"
)

func main() { timing.Main("flows", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("flows", flag.ContinueOnError)
	dir := flags.String("dir", ".", "a folder on the disk to measure")
	times := flags.Int("repetitions", 5, "how often each engine runs")
	runs := flags.Duration("duration", 3*time.Second, "how long it runs each time")
	atOnce := flags.Int("flows", 64, "how many flows run at once")
	only := flags.String("only", "", "names of the engines to run, with commas between; empty: all")
	promises := flags.Bool("guarantees", false, "only tell what each engine guarantees")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *promises {
		return printGuarantees(out)
	}
	if *times < 1 || *atOnce < 1 || *runs <= 0 {
		return errors.New("-repetitions, -flows and -duration have to be positive")
	}
	if err := timing.OnDisk(*dir); err != nil {
		return err
	}
	chosen, err := timing.Choose(contenders, *only, func(c contender) string { return c.name })
	if err != nil {
		return err
	}
	busy := loadAverage()
	all, err := compare(ctx, chosen, *dir, *atOnce, *times, *runs)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s/%s, %d CPUs, load average %s before; %d flows at once; medians of %d interleaved runs of %v; synchronous=FULL\n\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), busy, *atOnce, *times, *runs)
	if err := all.printFigures(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return all.printAim(out)
}

// loadAverage tells whether others were at work on the machine: how many wanted a processor, of the last minute.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	minute, _, _ := strings.Cut(string(data), " ")
	return minute
}

// compare runs the engines in turn, so the machine's other load falls on all.
func compare(ctx context.Context, chosen []contender, dir string, atOnce, times int, runs time.Duration) (results, error) {
	measured := map[string][]figures{}
	for turn := range times {
		for _, c := range chosen {
			fmt.Fprintf(os.Stderr, "\r\x1b[Krun %d of %d: %s", turn+1, times, c.name)
			f, err := measure(ctx, c, dir, atOnce, runs)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			measured[c.name] = append(measured[c.name], f)
		}
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	all := results{}
	for name, f := range measured {
		all[name] = medians(f)
	}
	return all, nil
}
