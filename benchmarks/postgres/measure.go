package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/timing"
)

// figures are one run's results, or the medians from several.
type figures struct {
	OpsPerSecond float64
	P50, P99     time.Duration
	DatabaseCPU  time.Duration // an operation
	WAL          float64       // bytes an operation
	CPU          time.Duration // an operation, in our processes
	Shares       float64       // the busiest process to the idlest
}

// childCommand makes a program process do the work.
const childCommand = "child"

// report is what a child tells.
type report struct {
	Times []time.Duration
	Took  time.Duration
	CPU   time.Duration
}

// measure makes callers in so many processes do operations for a time, each starting the next after the last.
func measure(ctx context.Context, d *database, name string, callers, processes int, runs time.Duration) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*runs+2*time.Minute)
	defer cancel()
	if err := d.checkpoint(ctx); err != nil {
		return f, err
	}
	children := make([]*worker, processes)
	for i := range children {
		// The remaining callers go to the first workers.
		n := callers/processes + min(1, max(0, callers%processes-i))
		if children[i], err = startWorker(ctx, d.through, name, n, max(1, poolSize/processes), runs); err != nil {
			return f, errors.Join(err, stopAll(children[:i]))
		}
	}
	for _, w := range children {
		if err := w.ready(); err != nil {
			return f, errors.Join(err, stopAll(children))
		}
	}
	before, err := d.used(ctx)
	if err != nil {
		return f, errors.Join(err, stopAll(children))
	}
	reports := make([]report, processes)
	told := make([]error, processes)
	var group sync.WaitGroup
	for i, w := range children {
		group.Go(func() { reports[i], told[i] = w.work() })
	}
	group.Wait()
	after, err := d.used(ctx)
	if err := errors.Join(append(told, err, stopAll(children))...); err != nil {
		return f, err
	}
	return figuresOf(reports, used{cpu: after.cpu - before.cpu, wal: after.wal - before.wal})
}

func figuresOf(reports []report, server used) (f figures, err error) {
	var all []time.Duration
	var cpu time.Duration
	least, most := 0, 0
	for i, r := range reports {
		all = append(all, r.Times...)
		cpu += r.CPU
		f.OpsPerSecond += float64(len(r.Times)) / r.Took.Seconds()
		if i == 0 || len(r.Times) < least {
			least = len(r.Times)
		}
		most = max(most, len(r.Times))
	}
	if least == 0 {
		return f, errors.New("a process did nothing in all the time")
	}
	slices.Sort(all)
	n := float64(len(all))
	f.P50, f.P99 = timing.Percentile(all, 50), timing.Percentile(all, 99)
	f.DatabaseCPU, f.WAL = time.Duration(float64(server.cpu)/n), float64(server.wal)/n
	f.CPU, f.Shares = time.Duration(float64(cpu)/n), float64(most)/float64(least)
	return f, nil
}

// worker is a child, as the parent sees the child.
type worker struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	told *bufio.Reader
}

func startWorker(ctx context.Context, url, name string, callers, connections int, runs time.Duration) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.CommandContext(ctx, self, childCommand, "-store", name, "-callers", strconv.Itoa(callers),
		"-connections", strconv.Itoa(connections), "-duration", runs.String())}
	w.cmd.Env = append(os.Environ(), urlVariable+"="+url) // not in the command line: it has a password
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	w.told = bufio.NewReader(out)
	return w, w.cmd.Start()
}

func (w *worker) ready() error {
	_, err := w.told.ReadString('\n')
	return err
}

func (w *worker) work() (r report, err error) {
	if _, err := io.WriteString(w.in, "go\n"); err != nil {
		return r, err
	}
	return r, json.NewDecoder(w.told).Decode(&r)
}

func stopAll(workers []*worker) error {
	var errs []error
	for _, w := range workers {
		_ = w.in.Close()
		errs = append(errs, w.cmd.Wait())
	}
	return errors.Join(errs...)
}

// urlVariable has the database's address in a child's environment.
const urlVariable = "BENCHMARK_DATABASE"

// child is the child's work: get ready, wait, work, report, and end when the parent has heard the report.
func child(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet(childCommand, flag.ContinueOnError)
	name := flags.String("store", "", "")
	callers := flags.Int("callers", 1, "")
	connections := flags.Int("connections", poolSize, "")
	runs := flags.Duration("duration", time.Second, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, ok := contenderOf(*name)
	if !ok {
		return fmt.Errorf("there is no %q", *name)
	}
	s, err := c.open(ctx, os.Getenv(urlVariable), *connections)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	// The first operations make connections and prepare statements.
	if _, err := load(ctx, s, *callers, *runs/10); err != nil {
		return err
	}
	fmt.Println("ready")
	parent := bufio.NewReader(os.Stdin)
	if _, err := parent.ReadString('\n'); err != nil {
		return err
	}
	r, err := load(ctx, s, *callers, *runs)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	_, _ = parent.ReadString('\n')
	return nil
}

// load has callers do operations until the time is over, each at least one.
func load(ctx context.Context, s store, callers int, runs time.Duration) (report, error) {
	used, err := timing.Own()
	if err != nil {
		return report{}, err
	}
	began := time.Now()
	times, err := timing.Load(ctx, callers, runs, func(ctx context.Context, _ int) error { return s.operation(ctx) })
	if err != nil {
		return report{}, err
	}
	if later, ok := s.(settler); ok {
		if err := later.settle(ctx); err != nil {
			return report{}, err
		}
	}
	took := time.Since(began)
	now, err := timing.Own()
	return report{Times: times, Took: took, CPU: now - used}, err
}

// medians takes each figure's own median.
func medians(runs []figures) figures {
	return figures{
		OpsPerSecond: timing.Median(runs, func(f figures) float64 { return f.OpsPerSecond }),
		P50:          timing.Median(runs, func(f figures) time.Duration { return f.P50 }),
		P99:          timing.Median(runs, func(f figures) time.Duration { return f.P99 }),
		DatabaseCPU:  timing.Median(runs, func(f figures) time.Duration { return f.DatabaseCPU }),
		WAL:          timing.Median(runs, func(f figures) float64 { return f.WAL }),
		CPU:          timing.Median(runs, func(f figures) time.Duration { return f.CPU }),
		Shares:       timing.Median(runs, func(f figures) float64 { return f.Shares }),
	}
}
