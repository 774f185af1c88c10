package store

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// TakesReceipt reports whether a filter selects a receipt.
func TakesReceipt(f *journal.ReceiptFilter, r *journal.Receipt) bool {
	return (f.Scope == "" || f.Scope == r.Scope) && (f.Place == "" || f.Place == r.Place) &&
		(f.States == nil || slices.Contains(f.States, r.State)) &&
		r.Handle > f.After && (f.Before == 0 || r.Handle < f.Before)
}

// ReceiptOrder is the SQL of a page's bounds and order. Its parameters 1 to 3 are the handles after and before the
// page, and the page's limit. In a store that can afford one, reserved receipts have an index.
func ReceiptOrder(f *journal.ReceiptFilter, parameter string) (sql string, after, before int64) {
	sql = " WHERE handle > " + parameter + "1 AND handle < " + parameter + "2"
	if slices.Equal(f.States, []journal.ReceiptState{journal.ReceiptReserved}) {
		sql += " AND state = 1"
	}
	if sql += " ORDER BY handle"; f.Newest {
		sql += " DESC"
	}
	return sql + " LIMIT " + parameter + "3", f.After, cmp.Or(f.Before, math.MaxInt64)
}

// OldestReserved is when the first of the reserved receipts was created. It reads up to the first that is damaged.
func OldestReserved(ctx context.Context, j journal.Receipts) (oldest time.Time, err error) {
	for r, err := range j.ListReceipts(ctx, journal.ReceiptFilter{States: []journal.ReceiptState{journal.ReceiptReserved}}) {
		if errors.Is(err, format.ErrDamaged) {
			return oldest, nil
		}
		if err != nil {
			return oldest, err
		}
		oldest = Earlier(oldest, r.CreatedAt)
	}
	return oldest, nil
}
