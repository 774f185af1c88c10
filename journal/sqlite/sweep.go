package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// observeClock takes note of an asker's clock. One that stands behind the journal's last time
// closes the window of every operation without an answer that was stamped later than
// it; and what was written by one that has come back from a jump is set right.
func (b *batch) observeClock(at time.Time) error {
	if !b.clock.See(at) {
		return nil
	}
	return b.giveUp(b.sweep()) // else the clock would be taken for one that all were swept by
}

// ResetClock has now be the latest time that the journal has seen, in one commit. Other
// processes that have the file open go by it with their next commit.
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

// sweep gives every operation without an answer the event that the clock asks for.
func (b *batch) sweep() error {
	ev := b.clock.Sweep()
	handles, err := b.unanswered()
	if err != nil {
		return err
	}
	for _, handle := range handles { // one at a time: there may be very many
		r, err := b.byHandle(handle)
		if errors.Is(err, format.ErrDamaged) && b.broken == nil {
			continue // it is believed by nobody, and the others are swept once
		}
		if err != nil {
			return err
		}
		// EventClock has no error.
		if next, _, _ := journal.Next(r.Op, false, ev); store.Changes(r.Op, next, journal.Ignored) {
			r.Op = next
			if err := b.put(&r, &change{row: r}); err != nil {
				return err
			}
		}
	}
	return b.sweepFlows(ev)
}

// unanswered are the handles of all operations without an answer.
func (b *batch) unanswered() ([]int64, error) {
	handles, err := b.handles(b.sql.unanswered)
	for k := range b.recently {
		if k.Op.State != journal.StateCompleted {
			handles = append(handles, k.Op.Handle)
		}
	}
	return handles, err
}

// unansweredAfter are the handles of the first of them after that one, at most so many, in order.
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
