package postgres

import (
	"context"
	"errors"
	"iter"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// theirs explains a statement's error in the application's transaction.
func theirs[T any](ctx context.Context, doing string, result T, err error) (T, error) {
	return result, explainTheirs(ctx, doing, err)
}

// BeginTx starts a transaction on one of the journal's own connections. The transaction's Driver is a pgx.Tx. A committed
// transaction is durable, regardless of its settings. Commit resets the session's settings, except behind a pooler
// (Options.Pooled). The application's own tables may be in the same database. At most four such transactions are open at a
// time, and further callers wait. Transactions on the application's own connections work too: see Pgx and SQL.
func (j *Journal) BeginTx(ctx context.Context) (journal.Tx, error) {
	tx, err := j.store.BeginTx(ctx)
	return theirs(ctx, "begin a transaction", tx, err)
}

// EnqueueTx applies ev, of kind EventEnqueue, within tx, a transaction on the journal's database: by Pgx, SQL or
// BeginTx. The event is recorded if tx commits. Until then, other callers with the same name wait for tx to end. Under
// serializable or repeatable read, the server may refuse the event (SQLSTATE 40001). Then repeat the whole transaction.
func (j *Journal) EnqueueTx(ctx context.Context, tx journal.Tx, ev machine.Event) (machine.Result, error) {
	result, err := j.store.EnqueueTx(ctx, tx, ev)
	return theirs(ctx, "enqueue", result, err)
}

// errSlowHandler says what to do about a slow handler. Otherwise each retry of the delivery would end the same way.
var errSlowHandler = errors.New("postgres: deliver: the handler took longer than 25 seconds, and nothing is recorded: let it only write, and do slow work elsewhere")

// DeliverTx applies ev, of kind EventDeliver, and calls f to write in the same transaction, by a Tx whose Driver is a
// pgx.Tx. After f, DeliverTx resets the session's settings, such as a role or a search_path, except behind a pooler
// (Options.Pooled). After 25 seconds f's context ends and nothing is recorded. Four handlers run at a time, and delay
// only each other. Until f has returned, the operation's other callers wait. Close waits some seconds for f.
func (j *Journal) DeliverTx(ctx context.Context, ev machine.Event, f func(context.Context, journal.Tx) error) (machine.Result, error) {
	var failed error
	result, err := j.store.DeliverTx(ctx, ev, func(ctx context.Context, tx journal.Tx) error {
		ctx, cancel := context.WithTimeoutCause(ctx, j.opts.pace.handler, errSlowHandler)
		defer cancel()
		failed = f(ctx, tx)
		if over := ctx.Err(); over != nil && (failed == nil || errors.Is(failed, over)) {
			failed = context.Cause(ctx)
		}
		return failed
	})
	if failed != nil {
		return machine.Result{}, failed
	}
	return theirs(ctx, "deliver", result, err)
}

// MakeReceipts records how requests' keys are made. The first non-empty naming is recorded. A later, different naming is
// an error.
func (j *Journal) MakeReceipts(ctx context.Context, naming string) error {
	return explain("prepare receipts", j.store.MakeReceipts(ctx, naming))
}

// ReceiveTx applies ev within tx, a transaction on the journal's database: by Pgx, SQL or BeginTx. The decision is Wait
// while another open transaction works on the key. The decision is Wait, too, if tx reads by a snapshot (REPEATABLE READ
// or SERIALIZABLE) from before the key was settled. The commit of tx waits for the disk, even if the application's other
// commits do not. In a transaction from Begin, Commit completes a receipt, and returns an error if the reservation is gone.
func (j *Journal) ReceiveTx(ctx context.Context, tx journal.Tx, ev machine.ReceiptEvent) (machine.ReceiptResult, error) {
	result, err := j.store.ReceiveTx(ctx, tx, ev)
	return theirs(ctx, "receive a request", result, err)
}

// ReserveTx applies events of kind ReceiptReserve within tx, as ReceiveTx does, in one round trip if all keys are new. Each
// event has another key.
func (j *Journal) ReserveTx(ctx context.Context, tx journal.Tx, evs []machine.ReceiptEvent) ([]machine.ReceiptResult, error) {
	results, err := j.store.ReserveTx(ctx, tx, evs)
	return theirs(ctx, "receive messages", results, err)
}

// LookReceipt returns ReceiveTx's decision for the committed receipt, and changes nothing.
func (j *Journal) LookReceipt(ctx context.Context, ev machine.ReceiptEvent) (machine.ReceiptResult, error) {
	result, err := j.store.LookReceipt(ctx, ev)
	return result, explain("read", err)
}

// GetReceipt returns a committed receipt, or journal.ErrNotFound.
func (j *Journal) GetReceipt(ctx context.Context, key journal.ReceiptKey) (journal.Receipt, error) {
	r, err := j.store.GetReceipt(ctx, key)
	return r, explain("read", err)
}

// ListReceipts yields receipts by handle, ascending or descending, without the answers' bodies.
func (j *Journal) ListReceipts(ctx context.Context, f journal.ReceiptFilter) iter.Seq2[journal.Receipt, error] {
	return explained(j.store.ListReceipts(ctx, f))
}

// CountReceipts counts the receipts. CountReceipts reads the whole table.
func (j *Journal) CountReceipts(ctx context.Context) (journal.ReceiptCounts, error) {
	counts, err := j.store.CountReceipts(ctx)
	return counts, explain("read", err)
}

// ReapReceipts applies ev in separate transactions to at most limit receipts, the first ended first. ReapReceipts passes
// over receipts held by another transaction, and over damaged ones. If ReapReceipts reaps fewer, it returns their error.
func (j *Journal) ReapReceipts(ctx context.Context, ev machine.ReceiptEvent, limit int) (int, error) {
	result, err := j.store.ReapReceipts(ctx, ev, limit)
	return result, explain("reap receipts", err)
}

// AdvanceTx raises the recorded number of a source's entity, within tx. AdvanceTx waits for another open transaction which
// raises the same number.
func (j *Journal) AdvanceTx(ctx context.Context, tx journal.Tx, source, entity string, seq int64) (bool, error) {
	later, err := j.store.AdvanceTx(ctx, tx, source, entity, seq)
	return theirs(ctx, "advance an entity", later, err)
}

// ApplyFlow runs machine.NextFlow on the flow named by ev, and returns once the result is durable, also for
// FlowEventRecord. If ctx ends first, the event may be recorded.
func (j *Journal) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	result, err := j.store.ApplyFlow(ctx, ev)
	return result, explain("apply", err)
}

// ApplyFlowTx records ev, of kind FlowEventRecord or FlowEventEnqueue, within tx, a transaction on the journal's database:
// by Pgx, SQL or BeginTx. The event is recorded if tx commits. After a record, no other process takes the flow over until
// tx has ended. After an enqueue, other callers with a new flow's name wait for tx to end.
func (j *Journal) ApplyFlowTx(ctx context.Context, tx journal.Tx, ev machine.FlowEvent) (machine.FlowResult, error) {
	result, err := j.store.ApplyFlowTx(ctx, tx, ev)
	return theirs(ctx, "record in a transaction", result, err)
}

// GetFlow returns the whole flow, or journal.ErrNotFound.
func (j *Journal) GetFlow(ctx context.Context, ref journal.Ref) (journal.Flow, error) {
	f, err := j.store.GetFlow(ctx, ref)
	return f, explain("read", err)
}

// ListFlows yields flows in pages. Nothing is open between two pages, so a slow reader pins nothing.
func (j *Journal) ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return explained(j.store.ListFlows(ctx, filter))
}

// ClaimFlows applies ev, of kind FlowEventClaim, to at most limit claimable flows. ClaimFlows skips flows locked by another
// transaction, and unreadable ones. If there is nothing else to claim, ClaimFlows returns the unreadable flow's error.
func (j *Journal) ClaimFlows(ctx context.Context, ev machine.FlowEvent, limit int) ([]machine.FlowResult, error) {
	result, err := j.store.ClaimFlows(ctx, ev, limit)
	return result, explain("claim flows", err)
}

// ReapFlows applies ev, of kind FlowEventReap, to at most limit flows, 100 a commit. ReapFlows returns the number of reaped
// flows, also with an error. ReapFlows skips damaged flows, and returns their error if there is nothing else to reap.
func (j *Journal) ReapFlows(ctx context.Context, ev machine.FlowEvent, limit int) (int, error) {
	result, err := j.store.ReapFlows(ctx, ev, limit)
	return result, explain("reap flows", err)
}
