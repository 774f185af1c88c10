package store

import (
	"slices"

	"github.com/onceward/onceward/journal"
)

// TakesReceipt reports whether a filter selects a receipt.
func TakesReceipt(f *journal.ReceiptFilter, r *journal.Receipt) bool {
	return (f.Scope == "" || f.Scope == r.Scope) && (f.Place == "" || f.Place == r.Place) &&
		(f.States == nil || slices.Contains(f.States, r.State)) && r.Handle > f.After
}
