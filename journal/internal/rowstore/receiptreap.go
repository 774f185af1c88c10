package rowstore

import (
	"cmp"
	"context"
	"errors"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// ReapReceipts implements machine.Receipts. Each commit is a page of receipts.
func (s *Store) ReapReceipts(ctx context.Context, ev machine.ReceiptEvent, limit int) (reaped int, err error) {
	if err := s.writable(ctx); err != nil {
		return 0, err
	}
	if ev.Kind != machine.ReceiptReap || ev.At.IsZero() {
		return 0, &machine.ReceiptEventError{Kind: ev.Kind, Reason: "ReapReceipts needs a reap and the caller's clock"}
	}
	if err := s.trusted(ctx); err != nil {
		return 0, err
	}
	r := &receiptReap{s: s, ev: ev}
	r.ends = s.clock.shows(&r.ev).UnixMilli()
	for more := true; more && reaped < limit; {
		var page []*Receipt
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

// receiptReap is one ReapReceipts.
type receiptReap struct {
	s       *Store
	ev      machine.ReceiptEvent
	ends    int64 // by when those have ended that may be reaped
	after   Position
	damaged error // the first
}

// page returns the next reapable receipts, and reports whether there may be more.
func (r *receiptReap) page(ctx context.Context) (page []*Receipt, more bool, err error) {
	err = r.s.source.Read(ctx, func(rd Reader) error {
		page, err = rd.Receipts(ctx, ReceiptScan{ByEnd: true, By: r.ends, After: r.after, Limit: reapPage})
		return err
	})
	if len(page) > 0 {
		last := page[len(page)-1]
		r.after = Position{Key: last.Ends, Handle: last.Handle}
	}
	return page, len(page) == reapPage, err
}

// take reaps at most limit receipts from a page, and passes over held and damaged receipts.
func (r *receiptReap) take(ctx context.Context, page []*Receipt, limit int) (reaped int, err error) {
	if len(page) == 0 {
		return 0, nil
	}
	err = r.s.alone(ctx, &request{run: func(b *batch) error {
		reaped = 0
		if err := b.head.trusted(); err != nil {
			return err
		}
		for _, row := range page {
			is, err := r.one(b, row.Key)
			if err != nil {
				return err
			}
			if is {
				reaped, b.keep = reaped+1, true
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

// one reports whether one has reaped a receipt.
func (r *receiptReap) one(b *batch, key journal.ReceiptKey) (bool, error) {
	found, is, err := b.receipt(key)
	if errors.Is(err, format.ErrDamaged) && b.broken == nil {
		r.damaged = cmp.Or(r.damaged, passedOver(err))
		return false, nil
	}
	if err != nil || found.Receipt == nil {
		return false, err
	}
	ev := r.ev
	ev.ReceiptKey = key
	result, err := b.receiveOn(found, is, ev)
	return err == nil && result.Decision == machine.Recorded, b.fail(err)
}
