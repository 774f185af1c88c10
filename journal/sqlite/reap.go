package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/onceward/onceward/journal"
)

// reapBatch is how many operations are reaped in one commit, between those of
// others.
const reapBatch = 100

// Reap applies ev, of kind EventReap, to at most limit operations and says how many
// were shrunk or removed. It looks for them on a connection of its own and takes
// 100 a commit. Where an error comes in the middle, the number is of those before.
func (j *Journal) Reap(ctx context.Context, ev journal.Event, limit int) (int, error) {
	if err := j.open(ctx); err != nil {
		return 0, err
	}
	if ev.Kind != journal.EventReap || ev.At.IsZero() {
		return 0, &journal.EventError{Kind: ev.Kind, Reason: "Reap needs a reap and the asker's clock"}
	}
	var newest int64
	// Deliveries that ride are recorded with this.
	err := j.file.writer.do(ctx, func(b *batch) error {
		if err := b.refuses(ev.Kind); err != nil {
			return err
		}
		newest = b.newest
		ev.Last = b.clock.Last
		return b.see(ev.At)
	})
	if err != nil {
		return 0, err
	}
	reaped := 0
	firsts, err := j.segmentsBefore(ctx, ev.At.Add(-ev.Keep))
	if err != nil {
		return 0, err
	}
	// What is not in a segment yet comes last: it is the youngest.
	for _, first := range append(firsts, segmentOf(newest+1)) {
		if reaped >= limit {
			break
		}
		n, err := j.reapSegment(ctx, ev, first, limit-reaped)
		reaped += n
		if err != nil {
			return reaped, err
		}
	}
	return reaped, nil
}

// segmentsBefore lists the segments in which something may be reaped: those whose
// first operation was begun by then. (One that a clock which was set back settled
// before that is reaped later than it might be.)
func (j *Journal) segmentsBefore(ctx context.Context, begun time.Time) (firsts []int64, err error) {
	err = j.file.readers.read(ctx, func(r *reader) error {
		return r.each("SELECT first FROM segments WHERE spent = 0 AND began_at <= ? ORDER BY first", func(v []driver.Value) error {
			firsts = append(firsts, v[0].(int64))
			return nil
		}, begun.UnixMilli())
	})
	return firsts, err
}

// reapSegment reaps at most limit operations of one segment, or of what is not in a
// segment yet.
func (j *Journal) reapSegment(ctx context.Context, ev journal.Event, first int64, limit int) (int, error) {
	var ripe []int64
	left := 0 // that may be reaped at some time
	err := j.file.readers.read(ctx, func(r *reader) error {
		return r.each("SELECT "+columns+" FROM operations WHERE handle >= ? AND handle < ? AND tombstone = 0", func(v []driver.Value) error {
			row, err := readRow(v)
			if err != nil {
				return err
			}
			left++
			if _, decision, _ := journal.Next(row.op, false, ev); decision == journal.Recorded {
				ripe = append(ripe, row.op.Handle)
			}
			return nil
		}, first, first+segmentSize)
	})
	if err != nil {
		return 0, err
	}
	ripe = ripe[:min(limit, len(ripe))]
	reaped := 0
	for begin := 0; begin < len(ripe); begin += reapBatch {
		some := ripe[begin:min(begin+reapBatch, len(ripe))]
		n := 0
		err := j.file.writer.do(ctx, func(b *batch) (err error) {
			n, err = b.reap(ev, some)
			return err
		})
		if err != nil {
			return reaped, err
		}
		reaped += n
	}
	if left > reaped {
		return reaped, nil
	}
	// Only tombstones are left, or nothing.
	return reaped, j.file.writer.do(ctx, func(b *batch) error {
		if segmentOf(b.newest+1) == first {
			return nil
		}
		if err := b.write(b.sql.dropSegment, first, segmentSize-1); err != nil {
			return err
		}
		return b.write(b.sql.spendSegment, first)
	})
}

// reap takes those that still can be: others may have come first.
func (b *batch) reap(ev journal.Event, handles []int64) (reaped int, err error) {
	for _, handle := range handles {
		r, err := b.byHandle(handle)
		if err != nil {
			return 0, err
		}
		if !r.found() {
			continue
		}
		out, err := b.next(r, prepared{Event: ev})
		if err != nil {
			return 0, err
		}
		if out.decision == journal.Recorded {
			reaped++
		}
	}
	return reaped, nil
}
