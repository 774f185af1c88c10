package sqlite

import (
	"context"
	"iter"

	"github.com/onceward/onceward/journal"
)

var _ journal.LocalFlows = (*Journal)(nil)

// ApplyFlow runs journal.NextFlow on the flow that ev names, and returns once the result is durable.
// If the context ends first, the event may be recorded.
func (j *Journal) ApplyFlow(ctx context.Context, ev journal.FlowEvent) (journal.FlowResult, error) {
	return j.store.ApplyFlow(ctx, ev)
}

// ApplyFlowTx records ev, of kind FlowEventRecord or FlowEventEnqueue, within tx. It must be a transaction of the
// journal's database: one of BeginTx, or Tx of the application's own on the same file. The event is recorded if tx
// commits. If
// SQLite rolled back the writes of tx (https://sqlite.org/lang_transaction.html, "Response To Errors Within A
// Transaction"), the error says so, and nothing is recorded.
func (j *Journal) ApplyFlowTx(ctx context.Context, tx journal.Tx, ev journal.FlowEvent) (journal.FlowResult, error) {
	return j.store.ApplyFlowTx(ctx, tx, ev)
}

// ClaimFlows applies ev, of kind FlowEventClaim, to at most limit flows that need a claim. It skips flows
// whose session has lost its file. If it finds nothing else, it returns journal.ErrRestored for them.
func (j *Journal) ClaimFlows(ctx context.Context, ev journal.FlowEvent, limit int) ([]journal.FlowResult, error) {
	return j.store.ClaimFlows(ctx, ev, limit)
}

// ReapFlows applies ev, of kind FlowEventReap, to at most limit flows, in one commit. It passes over damaged ones, and
// returns their error too if it reaps fewer.
func (j *Journal) ReapFlows(ctx context.Context, ev journal.FlowEvent, limit int) (int, error) {
	return j.store.ReapFlows(ctx, ev, limit)
}

// GetFlow returns the whole flow, or journal.ErrNotFound.
func (j *Journal) GetFlow(ctx context.Context, ref journal.Ref) (journal.Flow, error) {
	return j.store.GetFlow(ctx, ref)
}

// ListFlows yields flows in pages. Nothing is open between two pages, so a slow reader pins nothing.
func (j *Journal) ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return j.store.ListFlows(ctx, filter)
}
