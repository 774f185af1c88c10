package rowstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

const (
	// reapPage is how many operations one commit reaps at most.
	reapPage = 100
	// reapBytes is the size of their bodies, unless one operation has more. A database may overwrite all of them.
	reapBytes = 1 << 20
	// forgetAtOnce is how many heard events a Reap forgets at most.
	forgetAtOnce = 1000
)

// Reap implements journal.Journal. Each commit is a page of operations, which were archived before it. After an error in
// the middle, the number counts the operations before it.
func (s *Store) Reap(ctx context.Context, ev journal.Event, limit int) (reaped int, err error) {
	if err := s.writable(ctx); err != nil {
		return 0, err
	}
	if err := store.CheckReap(ev); err != nil {
		return 0, err
	}
	r := &reap{s: s, p: s.prepare(ev)}
	if err := s.alone(ctx, &request{run: r.begin}); err != nil {
		return 0, err
	}
	for more := true; more && reaped < limit; {
		var page []Position
		if page, more, err = r.page(ctx); err != nil {
			return reaped, err
		}
		n, err := r.take(ctx, page, limit-reaped)
		if reaped += n; err != nil {
			return reaped, err
		}
	}
	if reaped < limit {
		return reaped, r.damaged
	}
	return reaped, nil
}

// reap is one Reap.
type reap struct {
	s       *Store
	p       *prepared
	settled int64 // by when those were settled that may be reaped
	after   Position
	damaged error // of the first that was passed over
}

// begin notes the caller's clock, and forgets events that were heard.
func (r *reap) begin(b *batch) error {
	if err := b.head.trusted(); err != nil {
		return err
	}
	if err := b.see(r.p.At); err != nil {
		return err
	}
	passed := b.clock.passed(r.p.At)
	r.settled, b.keep = passed.Add(-r.p.Keep).UnixMilli(), true
	return b.fail(b.tx.Forget(b.ctx, store.HeardBefore(r.p.Keep, passed).UnixMilli(), forgetAtOnce))
}

// page returns the next operations that may be reaped, and reports whether there may be more.
func (r *reap) page(ctx context.Context) (page []Position, more bool, err error) {
	err = r.s.source.Read(ctx, func(rd Reader) error {
		page, err = rd.Scan(ctx, Scan{Index: Settled, By: r.settled, After: r.after, Limit: reapPage})
		return err
	})
	more = len(page) == reapPage
	bytes := int64(0)
	for i := range page {
		if bytes += page[i].Bytes; i > 0 && bytes > reapBytes {
			page, more = page[:i], true
			break
		}
	}
	if len(page) > 0 {
		r.after = page[len(page)-1]
	}
	return page, more, err
}

// take archives and reaps at most limit operations of a page.
func (r *reap) take(ctx context.Context, page []Position, limit int) (reaped int, err error) {
	if len(page) == 0 {
		return 0, nil
	}
	archived, err := r.archive(ctx, page, limit)
	if err != nil {
		return 0, err
	}
	err = r.s.alone(ctx, &request{run: func(b *batch) error {
		reaped = 0
		if err := b.head.trusted(); err != nil {
			return err
		}
		keys := Keys{Lock: TryLock}
		for _, at := range page {
			keys.Handles = append(keys.Handles, at.Handle)
		}
		found, err := b.tx.Find(b.ctx, keys)
		if err != nil {
			return b.fail(err)
		}
		b.take(keys, found)
		for _, at := range page {
			is, err := r.one(b, at.Handle, archived)
			if err != nil {
				return err
			}
			if is {
				reaped++
			}
			if reaped == limit {
				break
			}
		}
		return nil
	}})
	if err != nil {
		return 0, err
	}
	return reaped, nil
}

// one reports whether it has reaped an operation. It passes over one that another transaction holds, and a damaged one.
func (r *reap) one(b *batch, handle int64, archived store.Archived) (bool, error) {
	e, err := b.entries[handle].usable()
	if errors.Is(err, errHeld) || err == nil && (e == nil || !archived.Has(&e.now.op)) {
		return false, nil
	}
	var out *outcome
	if err == nil {
		out, err = b.decide(e, r.p)
	}
	if errors.Is(err, format.ErrDamaged) && b.broken == nil {
		r.damaged = cmp.Or(r.damaged, passedOver(err))
		return false, nil
	}
	return err == nil && out.decision == journal.Recorded, err
}

// archive writes at most limit operations of a page to the archive, if there is one.
func (r *reap) archive(ctx context.Context, page []Position, limit int) (store.Archived, error) {
	if r.s.archive == nil {
		return nil, nil
	}
	var rows map[int64]*Row
	err := r.s.source.Read(ctx, func(rd Reader) (err error) {
		rows, err = load(ctx, rd, page, Keys{Whole: true})
		return err
	})
	if err != nil {
		return nil, err
	}
	times := r.s.clock.outcome(r.p.At)
	ev := r.p.Event
	ev.Last, ev.Unconfirmed = times.last, times.unconfirmed
	var ops []journal.Operation
	for _, at := range page {
		row := rows[at.Handle]
		if row == nil {
			continue // it was removed meanwhile
		}
		op, err := row.operation()
		if errors.Is(err, format.ErrDamaged) {
			r.damaged = cmp.Or(r.damaged, passedOver(err))
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, decision, _ := journal.Next(op, false, ev); decision != journal.Recorded {
			continue
		}
		if ops = append(ops, op); len(ops) == limit {
			break
		}
	}
	return r.s.archive.Write(ops)
}

func passedOver(err error) error { return fmt.Errorf("%w: it is passed over", err) }
