package machine

import (
	"context"

	"github.com/onceward/onceward/journal"
)

// Outbox is a Journal that can also record an operation, or the delivery of an outcome, in a transaction together with
// the application's own writes. Outbox is optional. The methods are safe for concurrent use, and return ErrRestored,
// like the Journal's methods.
//
// An open transaction may block other callers of the same operation, or all writers. Keep the transaction short, and
// use the journal for nothing else meanwhile.
//
// This interface does not grow.
type Outbox interface {
	Store

	// BeginTx starts a writing transaction on the journal's database, durable after the commit.
	BeginTx(ctx context.Context) (journal.Tx, error)

	// EnqueueTx applies ev, of kind EventEnqueue, within tx. Others see the result once tx commits. If tx is rolled
	// back, the Operation of the result does not exist. An existing operation is in the result too, and no other
	// process changes it until tx ends. After an *EventError, and after Misuse, tx can go on.
	//
	// EnqueueTx need not move the journal's latest time. ev.Last and the result's may be earlier than that.
	EnqueueTx(ctx context.Context, tx journal.Tx, ev Event) (Result, error)

	// DeliverTx applies ev, of kind EventDeliver, in a separate transaction, and calls f to write in the transaction.
	// Both are one commit, durable when DeliverTx returns. f neither commits nor rolls back. If the outcome was
	// delivered already, or another outcome has come since, DeliverTx does not call f, and the decision is Ignored. If
	// f returns an error, nothing is recorded and DeliverTx returns that error. After any other error it is unknown
	// whether the commit landed. The next delivery of the outcome finds out.
	DeliverTx(ctx context.Context, ev Event, f func(ctx context.Context, tx journal.Tx) error) (Result, error)
}
