package journal

import (
	"context"
	"errors"
	"time"
)

// ErrTxAborted means that the database commits nothing of the transaction: a statement has failed, or a deferred constraint
// at the commit. PostgreSQL aborts a transaction after a failed statement, and SQLite does not.
var ErrTxAborted = errors.New("journal: a statement of the transaction has failed before, so nothing of it can be committed: roll it back, and begin another")

// Tx is a transaction of a journal's database. Only the packages of stores make one, from their driver's transaction
// or by Outbox.BeginTx. A store refuses the Tx of another store. Like the driver's, only one goroutine uses it at a
// time.
type Tx interface {
	// Driver returns the driver's own transaction, such as a *sql.Tx, for the application's
	// writes beside the journal's.
	Driver() any
	// Commit makes the transaction durable. After ErrTxAborted nothing of it is. After another error the result is
	// unknown, unless the driver says that it rolled back.
	Commit(ctx context.Context) error
	// Rollback undoes the transaction. After Commit it changes nothing.
	Rollback(ctx context.Context) error
}

// Outbox is a Journal that can also record an operation, or the delivery of its outcome, in a transaction of its
// database together with the application's own writes. It is optional. Its methods are safe for concurrent use like
// the Journal's, and return ErrRestored like them.
//
// A caller's transaction may block other callers of the same operation, or all writers, until it ends. Keep it short,
// and use the journal for nothing else while it is open.
//
// This interface does not grow.
type Outbox interface {
	Journal

	// BeginTx starts a writing transaction of the journal's database. It is durable once it is committed.
	BeginTx(ctx context.Context) (Tx, error)

	// EnqueueTx applies ev, of kind EventEnqueue, within tx. Others see the result once tx commits. If tx is rolled
	// back, the Operation of the result does not exist. An existing operation is in the result too, and no other
	// process changes it until tx ends. After an *EventError, and after Misuse, tx can go on.
	//
	// EnqueueTx need not move the journal's latest time. ev.Last and the result's may be earlier than that.
	EnqueueTx(ctx context.Context, tx Tx, ev Event) (Result, error)

	// DeliverTx applies ev, of kind EventDeliver, in a transaction of its own, and calls f to write in it. Both are
	// one commit, durable when DeliverTx returns. f neither commits nor rolls back. If the outcome was delivered
	// already, or another outcome has come since, DeliverTx does not call f, and the decision is Ignored. If f returns
	// an error, nothing is recorded and DeliverTx returns that error. After any other error it is unknown whether the
	// commit landed. The next delivery of the outcome finds out.
	DeliverTx(ctx context.Context, ev Event, f func(ctx context.Context, tx Tx) error) (Result, error)
}

// Clock is a Journal for many machines that tells the time. It is optional. If a Journal has one, clients stamp events
// (Event.At) by it and not by their machine's clock.
type Clock interface {
	// Now returns the time of all clients of the journal. Within a process it never goes back. It does no I/O, and is
	// safe for concurrent use.
	Now() time.Time
}
