package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

// sweepAtOnce is how many operations a sweep goes through in one commit.
var sweepAtOnce = 256 // a test has fewer

// observeClock records an asker's clock. If it is behind the journal's latest time, the window of every
// operation without an answer that was stamped later closes. Timestamps of a clock that came back from a jump
// are corrected.
func (b *batch) observeClock(at time.Time) error {
	if !b.clock.See(at) {
		return nil
	}
	return b.giveUp(b.sweep()) // else the clock would be taken for one that all were swept by
}

// ResetClock sets now as the latest time that the journal has seen, in one commit. Other processes with the
// file open follow at their next commit. If very many operations have no answer, Get and List may show some
// of them in their earlier state for a while.
func (j *logJournal) ResetClock(ctx context.Context, now time.Time) error {
	if err := j.writable(ctx); err != nil {
		return err
	}
	return j.file.writer.do(ctx, func(b *batch) error {
		b.clock.Reset(now)
		b.wrote = true
		return b.giveUp(b.sweep())
	})
}

// sweep gives every operation without an answer the event for the clock: those of the log and a page of the
// others now, the rest later.
func (b *batch) sweep() error {
	s := sealed.Sweep{Event: b.clock.Sweep(), Through: b.folded}
	for k := range b.recently {
		if k.Op.State == journal.StateCompleted {
			continue
		}
		// EventClock has no error.
		if next, _, _ := journal.Next(k.Op, false, s.Event); store.Changes(k.Op, next, journal.Ignored) {
			r := rowOf(k, false)
			c := change{row: r}
			c.Op = next
			if err := b.put(&r, &c); err != nil {
				return err
			}
		}
	}
	s.Seq = 1
	if n := len(b.sweeps); n > 0 {
		s.Seq = b.sweeps[n-1].Seq + 1
	}
	b.sweeps = append(b.sweeps, s)
	if err := b.write(b.sql.AddSweep, s.Seq, s.Event.At.UnixMilli(), format.FromTime(s.Event.Last), format.FromTime(s.Event.Since), s.Through, s.Position, s.Sum()); err != nil {
		return err
	}
	for next := true; next; next = len(b.sweeps) > mostSweeps {
		if err := b.sweepPage(); err != nil {
			return err
		}
	}
	return b.sweepFlows(s.Event)
}

// mostSweeps is how many sweeps may be under way. Before more begin, the first goes on to its end.
const mostSweeps = 8

// sweepPage gives a page of operations the event of the first sweep that is under way.
func (b *batch) sweepPage() error {
	s := &b.sweeps[0]
	handles, err := b.handles(b.sql.UnansweredAfter, s.Position, sweepAtOnce)
	if err != nil {
		return err
	}
	for _, handle := range handles {
		if handle > s.Through {
			break
		}
		r, err := b.byHandle(handle)
		s.Position = handle
		if errors.Is(err, format.ErrDamaged) && b.broken == nil {
			continue // a damaged operation is never used, and the others are swept once
		}
		if err != nil {
			return err
		}
		if r.swept {
			if err := b.put(&r, &change{row: r}); err != nil {
				return err
			}
		}
	}
	if len(handles) == sweepAtOnce && handles[len(handles)-1] < s.Through {
		return b.write(b.sql.MoveSweep, s.Position, s.Sum(), s.Seq)
	}
	if err := b.write(b.sql.EndSweep, s.Seq); err != nil {
		return err
	}
	b.sweeps = slices.Clone(b.sweeps[1:])
	return b.write(b.sql.ForgetSwept, s.Seq)
}

// sweepSome commits a page of a sweep, and reports whether it could. Otherwise it is tried again after the
// next batch.
func (w *writer) sweepSome() bool {
	b, err := w.begin()
	if err != nil {
		return false
	}
	if len(b.sweeps) > 0 {
		_ = b.giveUp(b.sweepPage())
	}
	err = w.finish(b)
	if err == nil {
		w.checkpoint.Wrote(w.conn)
	}
	w.giveWay(b.others)
	return err == nil
}

// readSweeps reads those that are under way.
func (w *writer) readSweeps() error {
	w.sweeps = nil
	return w.sql.ReadSweeps.Each(func(v []driver.Value) error {
		s, err := sealed.ReadSweep(v)
		w.sweeps = append(w.sweeps, s)
		return err
	})
}

// afterSweeps is an operation with a row of its own, as it is after the sweeps that have not come to it yet.
func (b *batch) afterSweeps(r row, err error) (row, error) {
	if err != nil || !r.found() {
		return r, err
	}
	for i := range b.sweeps {
		is, err := b.awaits(&b.sweeps[i], r.Op.Handle)
		if err != nil {
			return row{}, err
		}
		if !is {
			continue
		}
		// EventClock has no error.
		if next, _, _ := journal.Next(r.Op, false, b.sweeps[i].Event); store.Changes(r.Op, next, journal.Ignored) {
			r.Op, r.swept = next, true
		}
	}
	return r, nil
}

// awaits reports whether an operation has not had the event of a sweep yet.
func (b *batch) awaits(s *sealed.Sweep, handle int64) (bool, error) {
	if !s.Covers(handle) {
		return false, nil
	}
	given, err := b.sql.IsSwept.First(func([]driver.Value) error { return nil }, s.Seq, handle)
	return !given, b.fail(err)
}

// noteSwept notes that an operation that is written has been given the events of all sweeps.
func (b *batch) noteSwept(handle int64) error {
	for i := range b.sweeps {
		if s := &b.sweeps[i]; s.Covers(handle) {
			if err := b.write(b.sql.AddSwept, s.Seq, handle); err != nil {
				return err
			}
		}
	}
	return nil
}

// unansweredAfter are the handles of the first operations without an answer after that one, at most so many, in order.
func (b *batch) unansweredAfter(after int64, limit int) ([]int64, error) {
	handles, err := b.handles(b.sql.UnansweredAfter, after, limit)
	for k := range b.recently {
		if k.Op.State != journal.StateCompleted && k.Op.Handle > after {
			handles = append(handles, k.Op.Handle)
		}
	}
	slices.Sort(handles)
	handles = slices.Compact(handles)
	return handles[:min(limit, len(handles))], err
}
