package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/timing"
	"github.com/onceward/onceward/internal/machine"
)

const (
	claimWorkers = 4
	claimAtOnce  = 100
)

// claims measures how fast workers claim due operations, each with its own journal. It checks that each operation
// is claimed once, and measures the foreground's rate before and after.
func claims(ctx context.Context, d *database, o options, out io.Writer) error {
	var foreground, claimed []figures
	measureForeground := func() error {
		f, err := measure(ctx, d, nameOnceward, 64, 1, o.runs)
		foreground = append(foreground, f)
		return err
	}
	workers := make([]*oncewardStore, claimWorkers)
	for i := range workers {
		var err error
		if workers[i], err = openJournal(ctx, d.through); err != nil {
			return err
		}
		defer workers[i].close() // not before the end: what they hold would be due again
	}
	for turn := range o.repetitions {
		fmt.Fprintf(os.Stderr, "\r\x1b[Krun %d of %d", turn+1, o.repetitions)
		if err := measureForeground(); err != nil {
			return err
		}
		f, err := claimAllDue(ctx, d, workers, o.claims)
		if err != nil {
			return err
		}
		claimed = append(claimed, f)
	}
	if err := measureForeground(); err != nil {
		return err
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\ta second\tdatabase CPU\tWAL\tCPU\t÷ foreground\t")
	base := medians(foreground)
	for _, line := range []struct {
		what string
		f    figures
	}{
		{"operations of 64 callers", base},
		{fmt.Sprintf("claims of %d due, each once, by %d workers × %d", o.claims, claimWorkers, claimAtOnce), medians(claimed)},
	} {
		fmt.Fprintf(w, "%s\t%.0f\t%v\t%.2f KB\t%v\t%.1f\t\n", line.what, line.f.OpsPerSecond, line.f.DatabaseCPU.Round(time.Microsecond), line.f.WAL/1e3,
			line.f.CPU.Round(time.Microsecond), line.f.OpsPerSecond/base.OpsPerSecond)
	}
	return w.Flush()
}

// claimAllDue makes so many operations be due and has workers claim them. It is an error if one is not claimed once.
func claimAllDue(ctx context.Context, d *database, workers []*oncewardStore, due int) (f figures, err error) {
	if err := fillDue(ctx, workers[0], due); err != nil {
		return f, err
	}
	if err := d.checkpoint(ctx); err != nil {
		return f, err
	}
	claimed, failed := make([][]int64, len(workers)), make([]error, len(workers))
	before, err := d.used(ctx)
	if err != nil {
		return f, err
	}
	used, err := timing.Own()
	if err != nil {
		return f, err
	}
	began := time.Now()
	var group sync.WaitGroup
	for i, w := range workers {
		group.Go(func() { claimed[i], failed[i] = w.claimAll(ctx) })
	}
	group.Wait()
	took := time.Since(began)
	now, broken := timing.Own()
	after, err := d.used(ctx)
	if err := errors.Join(append(failed, broken, err)...); err != nil {
		return f, err
	}
	all := slices.Concat(claimed...)
	total := len(all)
	slices.Sort(all)
	if once := len(slices.Compact(all)); total != due || once != due {
		return f, fmt.Errorf("%d were due, and %d claims were made of %d", due, total, once)
	}
	each := time.Duration(due)
	return figures{
		OpsPerSecond: float64(due) / took.Seconds(), DatabaseCPU: (after.cpu - before.cpu) / each, CPU: (now - used) / each,
		WAL: float64(after.wal-before.wal) / float64(due),
	}, nil
}

// fillDue records operations that are due.
func fillDue(ctx context.Context, s *oncewardStore, n int) error {
	const callers = 64
	next := make(chan struct{})
	failed := make(chan error, callers)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range next {
				begun, err := s.begin(ctx, newKey())
				if err == nil {
					_, err = s.journal.Apply(ctx, s.of(begun, machine.Event{Kind: machine.EventPark, Unsent: true, Cause: "none: it is to be claimed"}))
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	defer group.Wait()
	defer close(next)
	for range n {
		select {
		case next <- struct{}{}:
		case err := <-failed:
			return err
		}
	}
	return nil
}

// claimAll claims until nothing is due, and returns what it got.
func (s *oncewardStore) claimAll(ctx context.Context) (handles []int64, err error) {
	for {
		got, err := s.journal.Claim(ctx, machine.Event{Kind: machine.EventClaim, At: s.journal.Now(), Session: s.session.ID()}, claimAtOnce)
		if err != nil || len(got) == 0 {
			return handles, err
		}
		for _, r := range got {
			if r.Decision == machine.Execute {
				handles = append(handles, r.Operation.Handle)
			}
		}
	}
}
