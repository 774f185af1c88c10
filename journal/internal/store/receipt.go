package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// TakesReceipt reports whether a filter selects a receipt.
func TakesReceipt(f *journal.ReceiptFilter, r *journal.Receipt) bool {
	return (f.Scope == "" || f.Scope == r.Scope) && (f.Place == "" || f.Place == r.Place) &&
		(f.States == nil || slices.Contains(f.States, r.State)) &&
		r.Handle > f.After && (f.Before == 0 || r.Handle < f.Before)
}

// OldestReserved is when the first of the reserved receipts was created. It reads up to the first damaged receipt.
func OldestReserved(ctx context.Context, j machine.Receipts) (oldest time.Time, err error) {
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
