package reader

import (
	"context"
	"fmt"
	"iter"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// receiptPage is how many receipts a list reads at once.
const receiptPage = 500

// Receipt reads a receipt that is committed, the zero one if there is none.
func (read Reader) Receipt(ctx context.Context, key journal.ReceiptKey) (r journal.Receipt, err error) {
	err = read(ctx, func(row record.Scanner) error {
		whole, err := record.ScanWholeReceipt(row)
		r = whole.Receipt
		return err
	}, record.WholeReceipt+"WHERE identity = $1", record.ReceiptID(key))
	return r, err
}

// GetReceipt returns a receipt that is committed, or journal.ErrNotFound.
func (read Reader) GetReceipt(ctx context.Context, key journal.ReceiptKey) (journal.Receipt, error) {
	r, err := read.Receipt(ctx, key)
	if err == nil && r.State == journal.ReceiptAbsent {
		err = fmt.Errorf("%w: receipt", journal.ErrNotFound)
	}
	return r, err
}

// ListReceipts yields receipts in the order of their handles, or against it, without the bodies of their answers.
func (read Reader) ListReceipts(ctx context.Context, f journal.ReceiptFilter) iter.Seq2[journal.Receipt, error] {
	return func(yield func(journal.Receipt, error) bool) {
		order, after, before := store.ReceiptOrder(&f, "$")
		for n, got := 0, receiptPage; got == receiptPage; {
			var page []journal.Receipt
			var last int64
			got = 0
			err := read(ctx, func(row record.Scanner) error {
				r, _, err := record.ScanReceipt(row)
				got, last = got+1, r.Handle
				if err == nil && store.TakesReceipt(&f, &r.Receipt) {
					page = append(page, r.Receipt)
				}
				return err
			}, record.SelectReceipt+order, after, before, receiptPage)
			for _, r := range page {
				if n++; !yield(r, nil) || n == f.Limit {
					return
				}
			}
			if err != nil {
				yield(journal.Receipt{}, err)
				return
			}
			if after = last; f.Newest {
				after, before = f.After, last
			}
		}
	}
}

// madeReceipts reports whether the tables are there. A journal that was migrated by an earlier release alone has none.
func (read Reader) madeReceipts(ctx context.Context, schema string) (made bool, err error) {
	err = read(ctx, func(row record.Scanner) error { return row.Scan(&made) }, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", schema+".receipts")
	return made, err
}

// CountReceipts counts the receipts, without the age of the oldest that is reserved. It reads the whole table, since no
// index has the state in it.
func (read Reader) CountReceipts(ctx context.Context, schema string) (c journal.ReceiptCounts, err error) {
	made, err := read.madeReceipts(ctx, schema)
	if err != nil || !made {
		return c, err
	}
	var ends *int64
	err = read(ctx, func(row record.Scanner) error { return row.Scan(&c.Completed, &c.Reserved, &ends) },
		"SELECT count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state = 1), min(ends_at) FILTER (WHERE state = 2) FROM {{schema}}.receipts")
	c.NextEnd = record.TimeOf(ends)
	return c, err
}
