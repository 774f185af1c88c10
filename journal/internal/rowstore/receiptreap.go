package rowstore

import (
	"cmp"
	"context"
	"errors"
	"reflect"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// ReapReceipts implements journal.Receipts. Each commit is a page of receipts, which were archived before it.
func (s *Store) ReapReceipts(ctx context.Context, ev journal.ReceiptEvent, limit int) (reaped int, err error) {
	if err := s.writable(ctx); err != nil {
		return 0, err
	}
	if ev.Kind != journal.ReceiptReap || ev.At.IsZero() {
		return 0, &journal.ReceiptEventError{Kind: ev.Kind, Reason: "ReapReceipts needs a reap and the caller's clock"}
	}
	if err := s.trusted(ctx); err != nil {
		return 0, err
	}
	r := &receiptReap{s: s, ev: ev}
	r.ends = s.clock.shows(&r.ev).UnixMilli()
	for more := true; more && reaped < limit; {
		var page []journal.Receipt
		if page, more, err = r.page(ctx, limit-reaped); err != nil {
			return reaped, err
		}
		n, err := r.take(ctx, page)
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
	ev      journal.ReceiptEvent
	ends    int64 // by when those have ended that may be reaped
	after   Position
	damaged error // the first
}

// page returns at most limit receipts that can be reaped, and reports whether there may be more.
func (r *receiptReap) page(ctx context.Context, limit int) (page []journal.Receipt, more bool, err error) {
	from := r.after
	err = r.s.source.Read(ctx, func(rd Reader) error {
		page, r.after = nil, from
		rows, err := rd.Receipts(ctx, ReceiptScan{ByEnd: true, By: r.ends, After: r.after, Limit: reapPage})
		more = len(rows) == reapPage
		for _, row := range rows {
			if err != nil || len(page) == limit {
				return err
			}
			r.after = Position{Key: row.Ends, Handle: row.Handle}
			var is *journal.Receipt
			if is, err = r.reapable(ctx, rd, row.Key); is != nil {
				page = append(page, *is)
			}
		}
		return err
	})
	return page, more, err
}

// reapable returns the receipt of a key if it can be reaped.
func (r *receiptReap) reapable(ctx context.Context, rd Reader, key journal.ReceiptKey) (*journal.Receipt, error) {
	found, err := rd.Receipt(ctx, key)
	if err != nil || found.Receipt == nil {
		return nil, err
	}
	is, err := decodeReceipt(found.Receipt)
	if errors.Is(err, format.ErrDamaged) {
		r.damaged = cmp.Or(r.damaged, passedOver(err))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.ev.ReceiptKey = key
	result, err := journal.NextReceipt(is, r.ev)
	if err != nil || result.Decision != journal.Recorded {
		return nil, err
	}
	return &is, nil
}

// take archives and reaps receipts, but for those that another transaction has changed or holds.
func (r *receiptReap) take(ctx context.Context, page []journal.Receipt) (reaped int, err error) {
	if len(page) == 0 {
		return 0, nil
	}
	var lines store.ReceiptLines
	for i := range page {
		lines.Add(r.s.archive, &page[i])
	}
	if err := r.s.archive.WriteReceipts(lines); err != nil {
		return 0, err
	}
	err = r.s.alone(ctx, &request{run: func(b *batch) error {
		reaped = 0
		if err := b.head.trusted(); err != nil {
			return err
		}
		for i := range page {
			ev := r.ev
			ev.ReceiptKey = page[i].ReceiptKey
			found, is, err := b.receipt(ev.ReceiptKey)
			if b.broken != nil {
				return err
			}
			if err != nil || !reflect.DeepEqual(is, page[i]) {
				continue
			}
			result, err := b.receiveOn(found, is, ev)
			if err != nil {
				return b.fail(err)
			}
			if result.Decision == journal.Recorded {
				reaped++
				b.keep = true
			}
		}
		return nil
	}})
	if err != nil {
		return 0, err
	}
	return reaped, nil
}
