package machine

import (
	"context"
	"iter"

	"github.com/onceward/onceward/journal"
)

// Receipts is a Journal that keeps receipts in the same database. Receipts is optional. The methods are safe for
// concurrent use, and refuse with ErrRestored, like the Journal's methods.
//
// This interface does not grow.
type Receipts interface {
	Store

	// MakeReceipts makes the tables of receipts, if they are missing. It is called before the other methods. naming
	// says how the keys of requests are made. The first that is not empty is recorded, and another one is an error from
	// then on. The error wraps ErrVersion if a newer release's tables have a form that this release can't write.
	MakeReceipts(ctx context.Context, naming string) error

	// BeginTx starts a writing transaction on the journal's database, durable after the commit.
	BeginTx(ctx context.Context) (journal.Tx, error)

	// ReceiveTx applies ev, of any kind but ReceiptReap, within tx. After the decision Wait, roll tx back and ask later:
	// another transaction works on the receipt, or has settled it after the snapshot of tx. ReceiveTx returns an error, and
	// records nothing, if tx was ended or broken off without the caller's knowledge.
	ReceiveTx(ctx context.Context, tx journal.Tx, ev ReceiptEvent) (ReceiptResult, error)

	// ReserveTx applies events of kind ReceiptReserve, at least one, as ReceiveTx applies each. Each has another key. A store
	// spares round trips if all keys are new.
	ReserveTx(ctx context.Context, tx journal.Tx, evs []ReceiptEvent) ([]ReceiptResult, error)

	// LookReceipt returns the decision of ReceiveTx by the committed receipt, and changes nothing. In a restored journal,
	// LookReceipt refuses only to decide Execute.
	LookReceipt(ctx context.Context, ev ReceiptEvent) (ReceiptResult, error)

	// GetReceipt returns a committed receipt, or an error that wraps ErrNotFound.
	GetReceipt(ctx context.Context, key journal.ReceiptKey) (journal.Receipt, error)

	// ListReceipts yields receipts in creation order, or in reverse, without the answers' bodies. It passes over
	// damaged receipts, and yields the error of one at the end.
	ListReceipts(ctx context.Context, f journal.ReceiptFilter) iter.Seq2[journal.Receipt, error]

	// ReapReceipts applies ev, with kind ReceiptReap, to at most limit receipts in a separate transaction, and returns
	// how many changed. It passes over damaged receipts, and returns the error too if fewer than limit changed.
	ReapReceipts(ctx context.Context, ev ReceiptEvent, limit int) (int, error)

	// AdvanceTx raises the recorded number of a source's entity, within tx. It reports whether seq is higher than the
	// number before.
	AdvanceTx(ctx context.Context, tx journal.Tx, source, entity string, seq int64) (later bool, err error)
}
