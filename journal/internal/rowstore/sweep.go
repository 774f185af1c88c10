package rowstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
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

// see notes the caller's clock. If the clock leaps, see returns a leapDue, and the leap is recorded before the
// request is decided.
func (b *batch) see(at time.Time) error {
	if err := b.s.checkTime(at); err != nil {
		return err
	}
	if b.clock.see(at) && !b.tossed {
		return &leapDue{at}
	}
	return nil
}

// sweepPage is how many operations a sweep reads at once.
const sweepPage = 256

// sweeps has this process's current sweep.
type sweeps struct {
	mu  sync.Mutex
	now *sweep // nil: none
}

// sweep tells operations and flows of leaps, a page in each commit.
type sweep struct {
	s       *Store
	number  uint32        // of the latest leap that it tells, once a channel is closed
	reached chan struct{} // closed when all were told but some that other transactions hold
	over    chan struct{}
	err     error // once over is closed

	rows, flows []int64 // that other transactions held
}

// startSweep returns the current sweep. Nil means that the journal is closed.
func (s *Store) startSweep() *sweep {
	s.sweeps.mu.Lock()
	defer s.sweeps.mu.Unlock()
	if s.sweeps.now != nil {
		return s.sweeps.now
	}
	if !s.aside.enter() {
		return nil
	}
	w := &sweep{s: s, reached: make(chan struct{}), over: make(chan struct{})}
	s.sweeps.now = w
	go func() {
		defer s.aside.running.Done()
		if w.err = w.run(s.life); w.err != nil && s.life.Err() == nil {
			s.log.Warn("operations were not told yet that the clock has leapt", "error", w.err)
		}
		s.sweeps.mu.Lock()
		defer s.sweeps.mu.Unlock()
		s.sweeps.now = nil
		close(w.over)
	}()
	return w
}

// swept waits until operations and flows know about a leap. swept waits for rows that other transactions hold only if
// all is true.
func (s *Store) swept(ctx context.Context, leap uint32, all bool) error {
	for range 2 { // one that goes on may be past the place that the leap concerns
		w := s.startSweep()
		if w == nil {
			return journal.ErrClosed
		}
		if !all {
			select {
			case <-w.reached:
				if w.number >= leap {
					return nil
				}
			case <-w.over:
			case <-ctx.Done():
			}
		}
		select {
		case <-w.over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if w.err != nil || w.number >= leap {
			return w.err
		}
	}
	return nil
}

// run tells operations and flows about all leaps, and then forgets the leaps.
func (w *sweep) run(ctx context.Context) error {
	told, err := w.leaps(ctx)
	for err == nil {
		w.rows, w.flows = nil, nil
		if err = w.tellRows(ctx, &told); err != nil {
			return err
		}
		if err = w.tellFlows(ctx, &told); err != nil {
			return err
		}
		number := told.Number
		if told, err = w.leaps(ctx); err == nil && told.Number == number {
			break
		}
	}
	if err != nil {
		return err
	}
	w.number = told.Number
	if len(w.rows)+len(w.flows) > 0 {
		close(w.reached)
	}
	for _, handle := range w.rows {
		if err := w.wait(ctx, func(b *batch) error { return w.rowsIn(b, []int64{handle}, WaitLock) }); err != nil {
			return err
		}
	}
	for _, handle := range w.flows {
		if err := w.wait(ctx, func(b *batch) error { return w.flowsIn(b, []int64{handle}, WaitLock) }); err != nil {
			return err
		}
	}
	return w.forget(ctx)
}

func (w *sweep) leaps(ctx context.Context) (l leaps, err error) {
	err = w.s.source.Read(ctx, func(r Reader) error {
		head, err := r.Head(ctx)
		if err == nil {
			l, err = decodeLeaps(head.Leaps)
		}
		return err
	})
	return l, err
}

// forget leaves only later leaps in the head.
func (w *sweep) forget(ctx context.Context) error {
	return w.page(ctx, func(b *batch) error {
		b.leaps.Untold = b.leaps.after(w.number)
		b.keep, b.head.Leaps = true, b.leaps.encode()
		return nil
	})
}

// page is a transaction that waits for none.
func (w *sweep) page(ctx context.Context, run func(*batch) error) error {
	return w.s.transactAlone(ctx, newRequest(ctx, &request{run: run}), w.s.aside.scans)
}

// wait runs a transaction that waits for held rows.
func (w *sweep) wait(ctx context.Context, run func(*batch) error) error {
	return w.s.transactAlone(ctx, newRequest(ctx, &request{run: run}), w.s.aside.slots)
}

// tellRows reads all operations without an answer, and locks the operations that leaps change.
func (w *sweep) tellRows(ctx context.Context, l *leaps) error {
	for after := int64(0); ; {
		var page []Position
		var untold []int64
		err := w.s.source.Read(ctx, func(r Reader) (err error) {
			if page, err = r.Scan(ctx, Scan{Index: Unanswered, After: Position{Handle: after}, Limit: sweepPage}); err == nil {
				untold, err = untoldOf(ctx, w.s.codec, r, page, l)
			}
			return err
		})
		if err == nil && len(untold) > 0 {
			held := w.rows
			err = w.page(ctx, func(b *batch) error {
				w.rows = held
				return w.rowsIn(b, untold, TryLock)
			})
		}
		if err != nil || len(page) < sweepPage {
			return err
		}
		after = page[len(page)-1].Handle
	}
}

// untoldOf returns a page's operations that leaps change. Every caller gets an error for a damaged operation.
func untoldOf(ctx context.Context, c format.Codec, r Reader, page []Position, l *leaps) (untold []int64, err error) {
	var keys Keys
	for _, at := range page {
		keys.Handles = append(keys.Handles, at.Handle)
	}
	found, err := r.Find(ctx, keys)
	for _, row := range found.Rows {
		if it, err := decode(c, row); err == nil && l.told(it) != it {
			untold = append(untold, row.Handle)
		}
	}
	return untold, err
}

// rowsIn tells some operations, and notes the operations that other transactions hold.
func (w *sweep) rowsIn(b *batch, handles []int64, lock Lock) error {
	keys := Keys{Handles: handles, Lock: lock}
	found, err := b.tx.Find(b.ctx, keys)
	if err != nil {
		return b.fail(err)
	}
	b.take(keys, found)
	for _, handle := range handles {
		switch e, err := b.entries[handle].usable(); {
		case errors.Is(err, errHeld):
			w.rows = append(w.rows, handle)
		case err == nil:
			b.tell(e)
		}
	}
	return nil
}

// tellFlows is tellRows for flows that wait.
func (w *sweep) tellFlows(ctx context.Context, l *leaps) error {
	for scan := (FlowScan{Index: FlowsByDue, By: math.MaxInt64, After: Position{Key: math.MinInt64}, Limit: sweepPage}); ; {
		var rows []*Flow
		err := w.s.source.Read(ctx, func(r Reader) (err error) {
			rows, err = r.Flows(ctx, scan)
			return err
		})
		var untold []int64
		for _, row := range rows {
			scan.After = Position{Key: row.Due, Handle: row.Handle}
			if f, err := decodeFlow(w.s.codec, row); err == nil && l.changesFlow(&f) {
				untold = append(untold, row.Handle)
			}
		}
		if err == nil && len(untold) > 0 {
			held := w.flows
			err = w.page(ctx, func(b *batch) error {
				w.flows = held
				return w.flowsIn(b, untold, TryLock)
			})
		}
		if err != nil || len(rows) < scan.Limit {
			return err
		}
	}
}

func (l leap) flowEvent() machine.FlowEvent {
	return machine.FlowEvent{Kind: machine.FlowEventClock, At: time.UnixMilli(l.At), Last: time.UnixMilli(l.Last)}
}

// changesFlow reports whether a leap changes a flow. One that was told before is not changed again.
func (l *leaps) changesFlow(f *journal.Flow) bool {
	return slices.ContainsFunc(l.Untold, func(leap leap) bool {
		_, decision, _ := machine.NextFlow(*f, false, leap.flowEvent())
		return decision != machine.Ignored
	})
}

// flowsIn is rowsIn for flows.
func (w *sweep) flowsIn(b *batch, handles []int64, lock Lock) error {
	for _, handle := range handles {
		for _, leap := range b.leaps.Untold {
			ev := leap.flowEvent()
			ev.Handle = handle
			_, err := b.applyFlow(ev, lock)
			switch {
			case errors.Is(err, errHeld):
				w.flows = append(w.flows, handle)
			case err != nil && !errors.Is(err, format.ErrDamaged):
				return b.fail(err)
			}
			if err != nil {
				break
			}
		}
	}
	return nil
}
