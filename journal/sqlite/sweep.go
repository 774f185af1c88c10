package sqlite

import (
	"database/sql/driver"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// see takes note of an asker's clock. One that stands behind the journal's last
// time closes the window of every operation without an answer that was stamped
// later than it.
func (b *batch) see(at time.Time) error {
	if !b.clock.See(at) {
		return nil
	}
	ev := b.clock.Sweep()
	var closed []row
	err := b.read(b.sql.unanswered, func(v []driver.Value) error {
		r, err := readRow(v)
		if err != nil {
			return err
		}
		// EventClock has no error, and changes nothing but the window.
		if next, _, _ := journal.Next(r.op, false, ev); store.Changes(r.op, next, journal.Ignored) {
			r.op = next
			closed = append(closed, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for k := range b.recently {
		r := k.at(false)
		if next, _, _ := journal.Next(r.op, false, ev); r.op.State != journal.Completed && store.Changes(r.op, next, journal.Ignored) {
			r.op = next
			closed = append(closed, r)
		}
	}
	for _, r := range closed {
		if err := b.put(&r, &change{row: r}); err != nil {
			return err
		}
	}
	return nil
}
