package rowstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

const (
	// reapPage is how many operations one commit reaps at most.
	reapPage = 100
	// reapBytes is the limit for the reaped operations' bodies, except that one operation may have more. A database
	// may overwrite all of the bodies.
	reapBytes = 1 << 20
	// forgetAtOnce is how many heard events a Reap forgets at most.
	forgetAtOnce = 1000
)

// Reap implements machine.Store. Each commit is a page of operations. After an error in the middle, the number counts
// the operations before the error. Reap reads only rows, so Reap also removes an operation with a damaged answer.
func (s *Store) Reap(ctx context.Context, ev machine.Event, limit int) (reaped int, err error) {
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

// begin notes the caller's clock, and forgets heard events.
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

// page returns the next reapable operations, and reports whether there may be more.
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

// take reaps at most limit operations from a page.
func (r *reap) take(ctx context.Context, page []Position, limit int) (reaped int, err error) {
	if len(page) == 0 {
		return 0, nil
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
			is, err := r.one(b, at.Handle)
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

// one reports whether one has reaped the operation. one passes over held and damaged operations.
func (r *reap) one(b *batch, handle int64) (bool, error) {
	e, err := b.entries[handle].usable()
	if errors.Is(err, errHeld) || err == nil && e == nil {
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
	return err == nil && out.decision == machine.Recorded, err
}

func passedOver(err error) error { return fmt.Errorf("%w: it is passed over", err) }
