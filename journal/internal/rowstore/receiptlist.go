package rowstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// LookReceipt implements machine.Receipts.
func (s *Store) LookReceipt(ctx context.Context, ev machine.ReceiptEvent) (result machine.ReceiptResult, err error) {
	if err := s.checkTime(ev.At); err != nil {
		return result, err
	}
	err = s.readReceipt(ctx, ev.ReceiptKey, func(rd Reader, r journal.Receipt) error {
		if r.SealedBy != "" {
			return sealedReceipt(&r)
		}
		s.clock.shows(&ev)
		if result, err = machine.NextReceipt(r, ev); err != nil || result.Decision != machine.Execute {
			return err
		}
		return trusted(ctx, rd)
	})
	return result, err
}

// readReceipt calls f with a committed receipt, or the zero receipt.
func (s *Store) readReceipt(ctx context.Context, key journal.ReceiptKey, f func(Reader, journal.Receipt) error) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.source.Read(ctx, func(rd Reader) error {
		found, err := rd.Receipt(ctx, key)
		var r journal.Receipt
		if err == nil && found.Receipt != nil {
			r, err = decodeReceipt(s.codec, found.Receipt)
		}
		if err != nil {
			return err
		}
		return f(rd, r)
	})
}

// GetReceipt implements machine.Receipts.
func (s *Store) GetReceipt(ctx context.Context, key journal.ReceiptKey) (r journal.Receipt, err error) {
	err = s.readReceipt(ctx, key, func(_ Reader, is journal.Receipt) error {
		if r = is; r.State == journal.ReceiptAbsent {
			return fmt.Errorf("%w: receipt", journal.ErrNotFound)
		}
		if r.SealedBy != "" {
			return sealedReceipt(&r)
		}
		return nil
	})
	return r, err
}

// receiptPage is how many receipts are read at once. Nothing is open between two pages.
const receiptPage = 500

// ListReceipts implements machine.Receipts.
func (s *Store) ListReceipts(ctx context.Context, f journal.ReceiptFilter) iter.Seq2[journal.Receipt, error] {
	scan := ReceiptScan{
		After: Position{Handle: f.After}, Before: f.Before, Newest: f.Newest, Limit: receiptPage,
		Reserved: slices.Equal(f.States, []journal.ReceiptState{journal.ReceiptReserved}),
	}
	return func(yield func(journal.Receipt, error) bool) {
		var passed error // of the first damaged one
		for n := 0; ; {
			page, more, err := s.receiptPage(ctx, &scan, &f, &passed)
			if !more {
				err = cmp.Or(err, passed)
			}
			for _, r := range page {
				if n++; !yield(r, nil) || n == f.Limit {
					return
				}
			}
			if err != nil {
				yield(journal.Receipt{}, err)
			}
			if err != nil || !more {
				return
			}
		}
	}
}

// receiptPage reads a page's receipts that a filter selects, passes over damaged receipts, and moves the scan behind
// the page.
func (s *Store) receiptPage(ctx context.Context, scan *ReceiptScan, f *journal.ReceiptFilter, passed *error) (page []journal.Receipt, more bool, err error) {
	if err := s.open(ctx); err != nil {
		return nil, false, err
	}
	var rows []*Receipt
	err = s.source.Read(ctx, func(r Reader) error {
		rows, err = r.Receipts(ctx, *scan)
		return err
	})
	for _, row := range rows {
		if scan.After.Handle = row.Handle; scan.Newest {
			scan.After.Handle, scan.Before = f.After, row.Handle
		}
		r, err := decodeReceiptLight(s.codec, row)
		if passes(err, passed) {
			continue
		}
		if err != nil {
			return page, false, err
		}
		if store.TakesReceipt(f, &r) {
			page = append(page, r)
		}
	}
	return page, len(rows) == scan.Limit, err
}

// CountReceipts implements journal.ReceiptCounter.
func (s *Store) CountReceipts(ctx context.Context) (c journal.ReceiptCounts, err error) {
	if err := s.open(ctx); err != nil {
		return c, err
	}
	err = s.source.Read(ctx, func(r Reader) error {
		n, err := r.CountReceipts(ctx)
		c = journal.ReceiptCounts{Completed: n.All - n.Reserved, Reserved: n.Reserved}
		if n.NextEnd != 0 {
			c.NextEnd = time.UnixMilli(n.NextEnd).UTC()
		}
		return err
	})
	if err == nil && c.Reserved > 0 {
		c.OldestReserved, err = store.OldestReserved(ctx, s)
	}
	return c, err
}
