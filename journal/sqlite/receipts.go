package sqlite

import (
	"context"
	"iter"

	"github.com/onceward/onceward/journal"
)

var (
	_ journal.Receipts       = (*Journal)(nil)
	_ journal.ReceiptCounter = (*Journal)(nil)
)

// MakeReceipts records how the keys of requests are made. The first naming that is not empty is recorded, and another one
// is an error from then on.
func (j *Journal) MakeReceipts(ctx context.Context, naming string) error {
	return j.store.MakeReceipts(ctx, naming)
}

// ReceiveTx applies ev within tx, which is one of BeginTx, or Tx of the application's own on the journal's file. As for
// EnqueueTx, tx needs the file's write lock. No process records anything until tx ends.
func (j *Journal) ReceiveTx(ctx context.Context, tx journal.Tx, ev journal.ReceiptEvent) (journal.ReceiptResult, error) {
	return j.store.ReceiveTx(ctx, tx, ev)
}

// LookReceipt returns the decision that ReceiveTx would make by the committed receipt, and changes nothing.
func (j *Journal) LookReceipt(ctx context.Context, ev journal.ReceiptEvent) (journal.ReceiptResult, error) {
	return j.store.LookReceipt(ctx, ev)
}

// GetReceipt returns a receipt that is committed, or journal.ErrNotFound.
func (j *Journal) GetReceipt(ctx context.Context, key journal.ReceiptKey) (journal.Receipt, error) {
	return j.store.GetReceipt(ctx, key)
}

// ListReceipts yields receipts in the order of their creation, or against it, without the bodies of their answers.
func (j *Journal) ListReceipts(ctx context.Context, f journal.ReceiptFilter) iter.Seq2[journal.Receipt, error] {
	return j.store.ListReceipts(ctx, f)
}

// CountReceipts counts the receipts, by an index.
func (j *Journal) CountReceipts(ctx context.Context) (journal.ReceiptCounts, error) {
	return j.store.CountReceipts(ctx)
}

// ReapReceipts applies ev in a transaction of its own to at most limit receipts, those that ended first coming first. It
// passes over damaged ones, and returns their error too if it reaps fewer.
func (j *Journal) ReapReceipts(ctx context.Context, ev journal.ReceiptEvent, limit int) (int, error) {
	return j.store.ReapReceipts(ctx, ev, limit)
}

// AdvanceTx raises the number that is recorded of an entity of a source, within tx.
func (j *Journal) AdvanceTx(ctx context.Context, tx journal.Tx, source, entity string, seq int64) (bool, error) {
	return j.store.AdvanceTx(ctx, tx, source, entity, seq)
}
