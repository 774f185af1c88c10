package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/timing"
)

// figures are one engine run's results, or the medians from several.
type figures struct {
	FlowsPerSecond float64
	P50, P99       time.Duration
	CPU            time.Duration // a flow, in the whole process, the provider included
	Commits        float64       // a flow
}

// measure has so many callers run flows for so long, in a new database; then it looks into the ledger.
func measure(ctx context.Context, c contender, dir string, atOnce int, runs time.Duration) (figures, error) {
	return with(ctx, c, dir, atOnce, func(l *load) (figures, error) {
		// Each caller's first flow makes connections and prepares statements.
		if _, err := l.run(ctx, 0); err != nil {
			return figures{}, err
		}
		return l.measure(ctx, runs)
	})
}

// with opens an engine for work, and checks the ledger after it.
func with(ctx context.Context, c contender, dir string, atOnce int, work func(*load) (figures, error)) (f figures, err error) {
	folder, err := os.MkdirTemp(dir, "flows-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(folder)
	ledger := newProvider()
	server := httptest.NewServer(ledger)
	defer server.Close()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 2*atOnce
	defer transport.CloseIdleConnections()
	e, err := c.open(ctx, place{folder: folder, provider: server.URL, client: &http.Client{Transport: transport}, atOnce: atOnce})
	if err != nil {
		return f, fmt.Errorf("open: %w", err)
	}
	commits, err := countCommits(folder)
	if err != nil {
		return f, errors.Join(err, e.close())
	}
	l := &load{engine: e, commits: commits, atOnce: atOnce}
	f, err = work(l)
	if err := errors.Join(err, e.close(), commits.close()); err != nil {
		return f, err
	}
	return f, ledger.check(int(l.begun.Load()))
}

// load is one engine's work.
type load struct {
	engine  engine
	commits commitCounter
	atOnce  int
	begun   atomic.Int64 // flows
}

// run makes callers run flows, each at least one and the next after the last has ended, until the time is over. It
// returns how long each flow took.
func (l *load) run(ctx context.Context, runs time.Duration) ([]time.Duration, error) {
	return timing.Load(ctx, l.atOnce, runs, func(ctx context.Context, _ int) error {
		return l.engine.run(ctx, "order-"+strconv.FormatInt(l.begun.Add(1), 10))
	})
}

func (l *load) measure(ctx context.Context, runs time.Duration) (figures, error) {
	runtime.GC()
	before, err := l.commits.count()
	if err != nil {
		return figures{}, err
	}
	used, err := timing.Own()
	if err != nil {
		return figures{}, err
	}
	began := time.Now()
	times, err := l.run(ctx, runs)
	if err != nil {
		return figures{}, err
	}
	took := time.Since(began)
	now, err := timing.Own()
	if err != nil {
		return figures{}, err
	}
	after, err := l.commits.count()
	n := float64(len(times))
	return figures{
		FlowsPerSecond: n / took.Seconds(),
		P50:            timing.Percentile(times, 50),
		P99:            timing.Percentile(times, 99),
		CPU:            time.Duration(float64(now-used) / n),
		Commits:        float64(after-before) / n,
	}, err
}

// medians takes each figure's own median.
func medians(runs []figures) figures {
	return figures{
		FlowsPerSecond: timing.Median(runs, func(f figures) float64 { return f.FlowsPerSecond }),
		P50:            timing.Median(runs, func(f figures) time.Duration { return f.P50 }),
		P99:            timing.Median(runs, func(f figures) time.Duration { return f.P99 }),
		CPU:            timing.Median(runs, func(f figures) time.Duration { return f.CPU }),
		Commits:        timing.Median(runs, func(f figures) float64 { return f.Commits }),
	}
}
