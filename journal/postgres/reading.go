package postgres

import (
	"context"
	"iter"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/reader"
)

// The methods that change nothing are those of package reader, on the readers' connections.

var (
	_ journal.StatsReader    = (*laneJournal)(nil)
	_ journal.ReceiptCounter = (*laneJournal)(nil)
)

func (j *laneJournal) reader() reader.Reader { return j.read }

// Get returns the whole operation, or journal.ErrNotFound.
func (j *laneJournal) Get(ctx context.Context, ref journal.Ref) (op journal.Operation, err error) {
	return j.reader().Get(ctx, ref)
}

// List yields operations without bodies, in pages. Nothing is open between two pages, so a slow reader pins nothing.
// It scans unindexed filters, such as all operations of a scope, 10,000 operations at a time.
func (j *laneJournal) List(ctx context.Context, filter journal.Filter) iter.Seq2[journal.Operation, error] {
	return j.reader().List(ctx, filter)
}

// FindBy returns the operations of the provider that have the value, in the order of their creation.
func (j *laneJournal) FindBy(ctx context.Context, provider string, by journal.By, value string) (matches []journal.Match, err error) {
	return j.reader().FindBy(ctx, provider, by, value)
}

// GetFlow returns the whole flow, or journal.ErrNotFound.
func (j *laneJournal) GetFlow(ctx context.Context, ref journal.Ref) (f journal.Flow, err error) {
	return j.reader().GetFlow(ctx, ref)
}

// ListFlows yields flows in pages: between two of them nothing is open, so that a slow reader pins nothing.
func (j *laneJournal) ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return j.reader().ListFlows(ctx, filter)
}

// ReadStats returns the Stats, for all processes. Begun counts since the journal was last adopted or confirmed,
// including rolled-back operations. A damaged operation is counted, but has no age.
func (j *laneJournal) ReadStats(ctx context.Context) (journal.Stats, error) {
	s, err := j.reader().Stats(ctx, j.Now())
	if r := j.fleet.Why(); err == nil && s.Restored == "" && j.opts.Existing { // which has written it down nowhere
		s.Restored = r
	}
	return s, err
}

// GetReceipt returns a receipt that is committed, or journal.ErrNotFound.
func (j *laneJournal) GetReceipt(ctx context.Context, key journal.ReceiptKey) (journal.Receipt, error) {
	return j.reader().GetReceipt(ctx, key)
}

// ListReceipts yields receipts in the order of their handles, or against it, without the bodies of their answers.
func (j *laneJournal) ListReceipts(ctx context.Context, f journal.ReceiptFilter) iter.Seq2[journal.Receipt, error] {
	return j.reader().ListReceipts(ctx, f)
}

// CountReceipts counts the receipts. It reads the whole table, since no index has the state in it.
func (j *laneJournal) CountReceipts(ctx context.Context) (c journal.ReceiptCounts, err error) {
	c, err = j.reader().CountReceipts(ctx, j.schema)
	if err == nil && c.Reserved > 0 {
		c.OldestReserved, err = store.OldestReserved(ctx, j)
	}
	return c, err
}
