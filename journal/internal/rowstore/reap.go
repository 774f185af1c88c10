package rowstore

import (
	"context"
	"errors"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// reapPage is how many operations Reap reads in one transaction.
const reapPage = 100

// forgetAtOnce is how many heard events a Reap forgets at most.
const forgetAtOnce = 1000

// Reap implements journal.Journal. One commit has at most reapPage operations.
func (s *Store) Reap(ctx context.Context, ev journal.Event, limit int) (reaped int, err error) {
	if err := s.writable(ctx); err != nil {
		return 0, err
	}
	if err := store.CheckReap(ev); err != nil {
		return 0, err
	}
	for at, more := (Position{}), true; more; {
		r := &reap{p: prepare(ev), after: at, limit: limit - reaped}
		err := s.alone(ctx, &request{run: func(b *batch) error {
			r.reaped, r.more = 0, false
			return r.page(b)
		}})
		if err != nil {
			return reaped, err
		}
		reaped, at, more = reaped+r.reaped, r.through, r.more
	}
	return reaped, nil
}

// reap is one page of a Reap.
type reap struct {
	p              *prepared
	after, through Position
	limit, reaped  int
	more           bool
}

func (r *reap) page(b *batch) error {
	if err := b.head.trusted(); err != nil {
		return err
	}
	if err := b.see(r.p.At); err != nil {
		return err
	}
	passed := b.clock.passed(r.p.At)
	places, err := b.tx.Scan(b.ctx, Scan{Index: Settled, By: passed.Add(-r.p.Keep).UnixMilli(), After: r.after, Limit: reapPage})
	if err != nil {
		return b.fail(err)
	}
	keys := Keys{Lock: TryLock}
	for _, at := range places {
		keys.Handles = append(keys.Handles, at.Handle)
	}
	found, err := b.tx.Find(b.ctx, keys)
	if err != nil {
		return b.fail(err)
	}
	b.take(keys, found)
	for _, at := range places {
		if r.reaped == r.limit {
			break
		}
		if err := r.one(b, at.Handle); err != nil {
			return err
		}
		r.through = at
	}
	if r.more = len(places) == reapPage && r.reaped < r.limit; r.more {
		return nil
	}
	b.keep = true
	return b.fail(b.tx.Forget(b.ctx, store.HeardBefore(r.p.Keep, passed).UnixMilli(), forgetAtOnce))
}

func (r *reap) one(b *batch, handle int64) error {
	e, err := b.entries[handle].usable()
	if err != nil || e == nil {
		return nil // it is damaged, or another transaction holds it
	}
	out, err := b.decide(e, r.p)
	switch {
	case errors.Is(err, format.ErrDamaged) && b.broken == nil:
	case err != nil:
		return err
	case out.decision == journal.Recorded:
		r.reaped++
	}
	return nil
}
