package rowstore

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// aheadOf is how far a caller's clock may be ahead of the database's.
const aheadOf = time.Minute

// checkTime rejects a time ahead of the database's, which would become the latest time for all processes.
func (s *Store) checkTime(at time.Time) error {
	if s.driver == nil {
		return nil
	}
	if now := s.driver.Now(); !now.IsZero() && at.Sub(now) > aheadOf {
		return fmt.Errorf("%w by %s: stamp events by Now, or set the clock right", ErrClockAhead, at.Sub(now).Round(time.Second))
	}
	return nil
}

// see notes the caller's clock, and gives each operation without an answer the event that is due.
func (b *batch) see(at time.Time) error {
	if err := b.s.checkTime(at); err != nil {
		return err
	}
	if sweep, due := b.clock.see(at); due && !b.theirs {
		return b.sweep(sweep)
	}
	return nil
}

// sweepPage is how many operations a sweep reads at once.
const sweepPage = 256

// sweep gives each operation without an answer the event. If the transaction fails, the next one does.
func (b *batch) sweep(ev machine.Event) error {
	b.swept = append(b.swept, ev)
	return b.sweepAll(ev)
}

// sweepAll waits for rows that other transactions hold, since a window that stays open by mistake is resent.
func (b *batch) sweepAll(ev machine.Event) error {
	b.keep = true
	for after := int64(0); ; {
		if err := b.flush(); err != nil {
			return err
		}
		page, err := b.tx.Scan(b.ctx, Scan{Index: Unanswered, After: Position{Handle: after}, Limit: sweepPage})
		if err != nil {
			return b.fail(err)
		}
		if err := b.sweepOver(page, ev); err != nil {
			return err
		}
		if len(page) < sweepPage {
			return b.sweepFlows(ev)
		}
		after = page[len(page)-1].Handle
	}
}

func (b *batch) sweepOver(page []Position, ev machine.Event) error {
	known := len(b.order)
	if err := b.read(page); err != nil {
		return err
	}
	for _, at := range page {
		e, err := b.entries[at.Handle].usable()
		if err != nil || e == nil {
			continue // it is damaged, and refused to everyone
		}
		// EventClock has no error.
		if next, _, _ := machine.Next(e.now.op, false, ev); store.Changes(e.now.op, next, machine.Ignored) {
			b.replace(e, e.now.after(&next))
		}
	}
	if err := b.flush(); err != nil {
		return err
	}
	for _, e := range b.order[known:] {
		delete(b.entries, e.handle) // the rows of a long sweep don't stay in memory
	}
	b.order = b.order[:known]
	return nil
}

// read reads the rows of a page. It waits for those that other transactions hold.
func (b *batch) read(page []Position) error {
	keys := Keys{Lock: WaitLock}
	for _, at := range page {
		if e := b.entries[at.Handle]; e == nil || e.locked {
			keys.Handles = append(keys.Handles, at.Handle)
		}
	}
	found, err := b.tx.Find(b.ctx, keys)
	if err != nil {
		return b.fail(err)
	}
	b.take(keys, found)
	return nil
}

// sweepFlows gives each waiting flow the event of the clock. It waits for rows that others hold, if they change.
func (b *batch) sweepFlows(ev machine.Event) error {
	clock := machine.FlowEvent{Kind: machine.FlowEventClock, At: ev.At, Last: ev.Last}
	for scan := (FlowScan{Index: FlowsByDue, By: math.MaxInt64, After: Position{Key: math.MinInt64}, Limit: sweepPage}); ; {
		rows, err := b.tx.Flows(b.ctx, scan)
		if err != nil {
			return b.fail(err)
		}
		for _, row := range rows {
			scan.After = Position{Key: row.Due, Handle: row.Handle}
			f, err := decodeFlow(row)
			if err == nil {
				if _, decision, _ := machine.NextFlow(f, false, clock); decision == machine.Ignored {
					continue
				}
				clock.Handle = row.Handle
				_, err = b.applyFlow(clock, WaitLock)
			}
			if err != nil && !errors.Is(err, format.ErrDamaged) {
				return b.fail(err)
			}
		}
		if len(rows) < scan.Limit {
			return nil
		}
	}
}
