// Server books payments over HTTP by a handler of package server, and by three alternatives, in one run. These are the same
// handler without keys, keys by hand in three commits, and Fiber's middleware.
//
//	go run ./server                     on SQLite and on PostgreSQL
//	go run ./server -only postgres
//	go run ./server -rows 1000000       Atomic beside so many receipts, and beside none
//
// SQLite's files are made in a folder of -dir, and a separate PostgreSQL server in the system's temporary folder (TMPDIR).
// Compare only within one run: a disk's speed varies from one to the next.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/timing"
)

func main() { timing.Main("server", run) }

type options struct {
	dir         string
	only        string
	callers     int
	rows        int
	repetitions int
	duration    time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", ".", "a folder on the disk to measure SQLite on")
	flags.StringVar(&o.only, "only", "", "sqlite or postgres; empty: both")
	flags.IntVar(&o.callers, "callers", 16, "how many callers ask at once")
	flags.IntVar(&o.rows, "rows", 0, "measure Atomic beside so many receipts, and beside none")
	flags.IntVar(&o.repetitions, "repetitions", 5, "how often each runs; the medians are printed")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "how long each runs each time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, d := range databases {
		if o.only != "" && o.only != d.name {
			continue
		}
		if err := measureOn(ctx, d, o, out); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return nil
}

// payment is what each caller asks for.
const payment = `{"payee":"ada","amount":12000,"currency":"EUR","reference":"invoice 2026-11-26"}`

// paid is how it is answered.
const paid = `{"id":"pay_1","state":"booked","amount":12000,"currency":"EUR"}`

// contender is one way to serve payments, on its own address.
type contender struct {
	name   string
	url    string
	repeat bool // asks again for a payment that is answered

	postmaster int // the PostgreSQL server's process; 0 for none
}

// measureOn runs the contenders in turn, so the machine's other load falls on all.
func measureOn(ctx context.Context, d database, o options, out io.Writer) error {
	all, describe, end, err := d.open(ctx, o)
	if err != nil {
		return err
	}
	defer end()
	c := newClient(o.callers)
	defer c.http.CloseIdleConnections() // Fiber's server ends only once they are closed: one may never have carried a request
	measured := make([][]figures, len(all))
	for turn := range o.repetitions + 1 {
		for i, one := range all {
			fmt.Fprintf(os.Stderr, "\r\x1b[K%s, run %d of %d: %s", d.name, turn, o.repetitions, one.name)
			f, err := c.measure(ctx, one, o)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			if turn > 0 { // the first is to warm up
				measured[i] = append(measured[i], f)
			}
		}
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	fmt.Fprintf(out, "%s, %s, %d CPUs, %d callers; medians of %d interleaved runs of %v\n\n", describe, runtime.Version(), runtime.NumCPU(), o.callers, o.repetitions, o.duration)
	table := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintf(table, "| \t| requests/s\t| p50\t| p99\t| of %s\t| CPU\t| database's CPU\t|\n|-\t|-\t|-\t|-\t|-\t|-\t|-\t|\n", all[0].name)
	first := medians(measured[0])
	for i, one := range all {
		f := medians(measured[i])
		fmt.Fprintf(table, "| %s\t| %.0f\t| %v\t| %v\t| %.2f\t| %v\t| %v\t|\n", one.name, f.rate, f.p50.Round(10*time.Microsecond), f.p99.Round(10*time.Microsecond), f.rate/first.rate,
			f.cpu.Round(time.Microsecond), f.database.Round(time.Microsecond))
	}
	fmt.Fprintln(table)
	return table.Flush()
}

type figures struct {
	rate     float64 // requests a second
	p50, p99 time.Duration
	cpu      time.Duration // a request, in this process: its callers, and its servers
	database time.Duration // a request, in the PostgreSQL server's processes
}

func medians(all []figures) figures {
	return figures{
		rate: timing.Median(all, func(f figures) float64 { return f.rate }),
		p50:  timing.Median(all, func(f figures) time.Duration { return f.p50 }),
		p99:  timing.Median(all, func(f figures) time.Duration { return f.p99 }),

		cpu:      timing.Median(all, func(f figures) time.Duration { return f.cpu }),
		database: timing.Median(all, func(f figures) time.Duration { return f.database }),
	}
}

// client is the callers.
type client struct {
	http *http.Client
	keys atomic.Int64
}

func newClient(callers int) *client {
	return &client{http: &http.Client{Transport: &http.Transport{MaxIdleConns: 8 * callers, MaxIdleConnsPerHost: callers}}}
}

// measure makes the callers ask for a time, each again after the last answer.
func (c *client) measure(ctx context.Context, one contender, o options) (figures, error) {
	same := make([]string, o.callers) // each caller's payment that is answered
	for i := range same {
		same[i] = c.key()
		if one.repeat {
			if err := c.ask(ctx, one, same[i]); err != nil {
				return figures{}, err
			}
		}
	}
	before, err := timing.UsedBy(one.postmaster)
	if err != nil {
		return figures{}, err
	}
	began := time.Now()
	all, err := timing.Load(ctx, o.callers, o.duration, func(ctx context.Context, caller int) error {
		if one.repeat {
			return c.ask(ctx, one, same[caller])
		}
		return c.ask(ctx, one, c.key())
	})
	if err != nil {
		return figures{}, err
	}
	took := time.Since(began)
	after, err := timing.UsedBy(one.postmaster)
	n := time.Duration(len(all))
	return figures{
		rate: float64(len(all)) / took.Seconds(), p50: timing.Percentile(all, 50), p99: timing.Percentile(all, 99),
		cpu: (after.Own - before.Own) / n, database: (after.Database - before.Database) / n,
	}, err
}

// key is another one each time, also over several program runs. It has 36 characters, which Fiber's middleware wants.
func (c *client) key() string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(os.Getpid()), c.keys.Add(1))
}

func (c *client) ask(ctx context.Context, one contender, key string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, one.url, strings.NewReader(payment))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode != http.StatusCreated || string(body) != paid) {
		err = fmt.Errorf("it was answered by %d: %s", answer.StatusCode, body)
	}
	return err
}
