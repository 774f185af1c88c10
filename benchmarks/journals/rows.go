package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/timing"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// beside measures our journal with so many completed operations inside.
func beside(ctx context.Context, out io.Writer, dir string, rows int, runs time.Duration, times int) error {
	folder, err := os.MkdirTemp(dir, "journals-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()

	full := filepath.Join(folder, "full")
	if err := os.Mkdir(full, 0o700); err != nil {
		return err
	}
	s, err := openJournal(full, generated, nil)
	if err != nil {
		return err
	}
	names, err := fill(ctx, s, rows)
	if err != nil {
		return errors.Join(err, s.close())
	}
	if err := s.close(); err != nil {
		return err
	}
	bytes, err := size(full)
	if err != nil {
		return err
	}
	line(w, "bytes on disk ÷ payload", float64(bytes)/float64(rows)/float64(payload()), "≤ 1.2", "")

	var inFull, inEmpty []figures
	for turn := range times {
		fmt.Fprintf(os.Stderr, "\r\x1b[Kfull and empty, run %d of %d", turn+1, times)
		if s, err = openJournal(full, generated, nil); err != nil {
			return err
		}
		f, err := load(ctx, s, 64, runs)
		if err := errors.Join(err, s.close()); err != nil {
			return err
		}
		inFull = append(inFull, f)
		if f, err = measure(ctx, contenders[0], dir, 64, runs); err != nil {
			return err
		}
		inEmpty = append(inEmpty, f)
	}
	line(w, fmt.Sprintf("ops/s at %d rows ÷ empty, 64 callers", rows), medians(inFull).OpsPerSecond/medians(inEmpty).OpsPerSecond, "≥ 0.9", "")

	opened, err := timed(times, func() (func() error, error) {
		j, err := sqlite.Open(filepath.Join(full, "journal.db"), sqlite.Options{})
		return func() error { return j.Close() }, err
	})
	if err != nil {
		return err
	}
	line(w, "open", ms(opened), "≤ 2", "ms")
	recovered, err := recovery(ctx, full, times)
	if err != nil {
		return err
	}
	line(w, "open after a kill", ms(recovered), "≤ 20", "ms")

	if s, err = openJournal(full, generated, nil); err != nil {
		return err
	}
	defer func() { _ = s.close() }()
	var looked []time.Duration
	for i := range 20_000 {
		began := time.Now()
		if _, err := s.journal.Get(ctx, journal.Ref{ID: names[i*7919%len(names)]}); err != nil {
			return err
		}
		looked = append(looked, time.Since(began))
	}
	slices.Sort(looked)
	line(w, "look-up by ID, p50", us(timing.Percentile(looked, 50)), "≤ 20", "µs")
	line(w, "look-up by ID, p99", us(timing.Percentile(looked, 99)), "≤ 60", "µs")
	return due(ctx, w, s)
}

func line(w *tabwriter.Writer, what string, measured float64, aim, unit string) {
	fmt.Fprintf(w, "%s\t%.3g %s\t(aim %s)\n", what, measured, unit, aim)
	_ = w.Flush()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// fill completes so many operations, one in ten of them named, and returns the names.
func fill(ctx context.Context, s *oncewardStore, rows int) (names []string, err error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	const callers = 256
	failed := make([]error, callers)
	for c := range callers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(rows) && failed[c] == nil && ctx.Err() == nil; n = next.Add(1) {
				if n%10 == 0 {
					named := &oncewardStore{journal: s.journal, session: s.session, keys: carried}
					failed[c] = named.operation(ctx, nameOf(n))
				} else {
					failed[c] = s.operation(ctx, newKey())
				}
				if n%10_000 == 0 {
					fmt.Fprintf(os.Stderr, "\r\x1b[K%d of %d operations", n, rows)
				}
			}
		})
	}
	wg.Wait()
	for n := int64(10); n <= int64(rows); n += 10 {
		names = append(names, nameOf(n))
	}
	return names, errors.Join(append(failed, ctx.Err())...)
}

func nameOf(n int64) string { return "invoice-" + strconv.FormatInt(n, 10) + "/charge" }

// timed opens so often and returns the median time.
func timed(times int, open func() (func() error, error)) (time.Duration, error) {
	var took []time.Duration
	for range max(times, 5) {
		began := time.Now()
		closeIt, err := open()
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
		if err := closeIt(); err != nil {
			return 0, err
		}
	}
	return middle(took), nil
}

func middle(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}

// recovery is how long it takes to open the journal after a process with work in hand was killed.
func recovery(ctx context.Context, folder string, times int) (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	var took []time.Duration
	for range max(times, 5) {
		child := exec.CommandContext(ctx, self, "-leave", folder)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			return 0, err
		}
		if err := child.Start(); err != nil {
			return 0, err
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // it is at work
			return 0, fmt.Errorf("the process to be killed: %w", err)
		}
		time.Sleep(200 * time.Millisecond)
		_ = child.Process.Kill()
		_ = child.Wait()
		began := time.Now()
		j, err := sqlite.Open(filepath.Join(folder, "journal.db"), sqlite.Options{})
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
		if err := j.Close(); err != nil {
			return 0, err
		}
	}
	return middle(took), nil
}

// leave begins operations until it is killed.
func leave(ctx context.Context, folder string) error {
	s, err := openJournal(folder, generated, nil)
	if err != nil {
		return err
	}
	fmt.Println("at work")
	_, err = load(ctx, s, 64, time.Minute)
	return err
}

// due measures the claim of the first 100 due of 100,000 pending operations.
func due(ctx context.Context, w *tabwriter.Writer, s *oncewardStore) error {
	const pending, first = 100_000, 100
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make([]error, 256)
	for c := range failed {
		wg.Go(func() {
			for failed[c] == nil && ctx.Err() == nil && next.Add(1) <= pending {
				failed[c] = s.park(ctx)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(failed, ctx.Err())...); err != nil {
		return err
	}
	var listed []time.Duration
	for range 100 {
		began, seen := time.Now(), 0
		for _, err := range s.journal.List(ctx, journal.Filter{ByWake: true, WakeBefore: began, Limit: first}) {
			if err != nil {
				return err
			}
			seen++
		}
		listed = append(listed, time.Since(began))
		if seen != first {
			return fmt.Errorf("%d of %d are due", seen, first)
		}
	}
	line(w, fmt.Sprintf("first %d due of %d, listed, p50", first, pending), ms(middle(listed)), "≤ 0.5", "ms")
	began := time.Now()
	claimed, err := s.journal.Claim(ctx, machine.Event{Kind: machine.EventClaim, At: time.Now(), Session: s.session.ID()}, first)
	if err != nil {
		return err
	}
	if len(claimed) != first {
		return fmt.Errorf("%d of %d were claimed", len(claimed), first)
	}
	line(w, "the same claimed, bodies and durable commit included", ms(time.Since(began)), "–", "ms")
	return nil
}

// park begins an operation and leaves it pending, due at once.
func (s *oncewardStore) park(ctx context.Context) error {
	parked := oncewardStore{journal: s.journal, session: s.session, keys: carried}
	begun, err := parked.begin(ctx, newKey())
	if err != nil {
		return err
	}
	_, err = s.journal.Apply(ctx, machine.Event{
		Kind: machine.EventPark, Ref: begun.Operation.Ref, Handle: begun.Operation.Handle, At: time.Now(), Session: s.session.ID(),
		Claim: begun.Operation.Claim, Attempts: 1, Open: true, Cause: "status 503",
	})
	return err
}
