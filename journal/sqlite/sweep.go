package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// sweep is an event of the clock for every operation without an answer. A sweep of many operations goes on in pages, each a
// commit of its own. An operation that is read before its page has come is given the event first. So
// each decision is as if the commit that began the sweep had given the event to all operations.
type sweep struct {
	seq               int64
	ev                journal.Event
	through, position int64 // it is for the handles after position, up to through
}

func (s *sweep) covers(handle int64) bool { return handle > s.position && handle <= s.through }

// sum is that of its row.
func (s *sweep) sum() int64 {
	var row []byte
	for _, n := range [...]int64{s.seq, s.ev.At.UnixMilli(), s.ev.Last.UnixMilli(), s.ev.Since.UnixMilli(), s.through, s.position} {
		row = binary.LittleEndian.AppendUint64(row, uint64(n))
	}
	return int64(format.Sum(row))
}

const sweepColumns = "seq, at, last_at, since, through, position, sum"

func readSweep(v []driver.Value) (s sweep, err error) {
	s = sweep{seq: v[0].(int64), ev: journal.Event{Kind: journal.EventClock, At: format.ToTime(v[1]), Last: format.ToTime(v[2]), Since: format.ToTime(v[3])},
		through: v[4].(int64), position: v[5].(int64)}
	if s.sum() != v[6] {
		err = format.ErrDamaged
	}
	return s, err
}

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
func (j *Journal) ResetClock(ctx context.Context, now time.Time) error {
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
	s := sweep{ev: b.clock.Sweep(), through: b.folded}
	for k := range b.recently {
		if k.Op.State == journal.StateCompleted {
			continue
		}
		// EventClock has no error.
		if next, _, _ := journal.Next(k.Op, false, s.ev); store.Changes(k.Op, next, journal.Ignored) {
			r := rowOf(k, false)
			c := change{row: r}
			c.Op = next
			if err := b.put(&r, &c); err != nil {
				return err
			}
		}
	}
	s.seq = 1
	if n := len(b.sweeps); n > 0 {
		s.seq = b.sweeps[n-1].seq + 1
	}
	b.sweeps = append(b.sweeps, s)
	if err := b.write(b.sql.addSweep, s.seq, s.ev.At.UnixMilli(), format.FromTime(s.ev.Last), format.FromTime(s.ev.Since), s.through, s.position, s.sum()); err != nil {
		return err
	}
	for next := true; next; next = len(b.sweeps) > mostSweeps {
		if err := b.sweepPage(); err != nil {
			return err
		}
	}
	return b.sweepFlows(s.ev)
}

// mostSweeps is how many sweeps may be under way. Before more begin, the first goes on to its end.
const mostSweeps = 8

// sweepPage gives a page of operations the event of the first sweep that is under way.
func (b *batch) sweepPage() error {
	s := &b.sweeps[0]
	handles, err := b.handles(b.sql.unansweredAfter, s.position, sweepAtOnce)
	if err != nil {
		return err
	}
	for _, handle := range handles {
		if handle > s.through {
			break
		}
		r, err := b.byHandle(handle)
		s.position = handle
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
	if len(handles) == sweepAtOnce && handles[len(handles)-1] < s.through {
		return b.write(b.sql.moveSweep, s.position, s.sum(), s.seq)
	}
	if err := b.write(b.sql.endSweep, s.seq); err != nil {
		return err
	}
	b.sweeps = slices.Clone(b.sweeps[1:])
	return b.write(b.sql.forgetSwept, s.seq)
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
	return w.sql.readSweeps.Each(func(v []driver.Value) error {
		s, err := readSweep(v)
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
		if next, _, _ := journal.Next(r.Op, false, b.sweeps[i].ev); store.Changes(r.Op, next, journal.Ignored) {
			r.Op, r.swept = next, true
		}
	}
	return r, nil
}

// awaits reports whether an operation has not had the event of a sweep yet.
func (b *batch) awaits(s *sweep, handle int64) (bool, error) {
	if !s.covers(handle) {
		return false, nil
	}
	given, err := b.sql.isSwept.First(func([]driver.Value) error { return nil }, s.seq, handle)
	return !given, b.fail(err)
}

// noteSwept notes that an operation that is written has been given the events of all sweeps.
func (b *batch) noteSwept(handle int64) error {
	for i := range b.sweeps {
		if s := &b.sweeps[i]; s.covers(handle) {
			if err := b.write(b.sql.addSwept, s.seq, handle); err != nil {
				return err
			}
		}
	}
	return nil
}

// unansweredAfter are the handles of the first operations without an answer after that one, at most so many, in order.
func (b *batch) unansweredAfter(after int64, limit int) ([]int64, error) {
	handles, err := b.handles(b.sql.unansweredAfter, after, limit)
	for k := range b.recently {
		if k.Op.State != journal.StateCompleted && k.Op.Handle > after {
			handles = append(handles, k.Op.Handle)
		}
	}
	slices.Sort(handles)
	handles = slices.Compact(handles)
	return handles[:min(limit, len(handles))], err
}

// sweeps looks at the sweeps that are under way.
func (v *verification) sweeps() error {
	return v.Each("SELECT "+sweepColumns+" FROM onceward_sweeps", func(row []driver.Value) error {
		if _, err := readSweep(row); err != nil {
			v.file("a sweep is as it was written: row %v of onceward_sweeps", row[0])
		}
		return nil
	})
}
