package journal

import (
	"context"
	"time"
)

// Tx is a transaction of the database that a journal lies in. Only the packages of stores
// make one, from their driver's transaction or by Outbox.BeginTx, and a store refuses that
// of another. As the driver's, it is used by one goroutine at a time.
type Tx interface {
	// Driver returns the driver's own transaction, such as a *sql.Tx, for the application's
	// writes beside the journal's.
	Driver() any
	// Commit makes durable what was done in the transaction. An error leaves it open
	// whether that was done, unless the driver says that it was rolled back.
	Commit(ctx context.Context) error
	// Rollback undoes it. After Commit it changes nothing.
	Rollback(ctx context.Context) error
}

// Outbox is a Journal that can also record an operation, or that its outcome
// was delivered, in a transaction of its database: with the application's own writes, all
// of it or none. It is optional. Its methods are safe for concurrent use as the Journal's
// are, and refuse with ErrRestored as it does.
//
// A transaction of the caller's may hold up others who ask for the operation that it names,
// or everybody, until it ends: it is kept short, and never held while anything is asked of
// the journal outside of it.
//
// This interface does not grow.
type Outbox interface {
	Journal

	// BeginTx starts a transaction of the journal's database that will write, durable once
	// it is committed.
	BeginTx(ctx context.Context) (Tx, error)

	// EnqueueTx applies ev, of kind EventEnqueue, within tx. It is recorded if tx commits, and
	// seen by others from then on; the Operation of the result does not exist if tx is rolled
	// back. One that stands already is in the result as well, and is changed by nobody else
	// until tx ends. After an *EventError, and after Misuse, tx can go on.
	//
	// The journal's latest time need not move by it, nor be known to it: ev.Last and the result's may
	// be an earlier one.
	EnqueueTx(ctx context.Context, tx Tx, ev Event) (Result, error)

	// DeliverTx applies ev, of kind EventDeliver, in a transaction of its own, and then has f
	// write in it whatever the outcome leads to; both are one commit. f neither commits nor
	// rolls back. Where the event is not recorded any more, as the outcome was delivered or
	// another has come since, f is not called, and the decision is Ignored. After an error
	// of f, which is returned as it is, nothing is recorded. Any other error leaves it open
	// whether the commit has landed: whoever delivers again then is told.
	//
	// It is durable when it returns, other than Apply of EventDeliver is.
	DeliverTx(ctx context.Context, ev Event, f func(ctx context.Context, tx Tx) error) (Result, error)
}

// Clock is what a Journal does besides that many machines share: it tells the time. It is
// optional; where a Journal has one, events are stamped by it (Event.At), and not by the clock of
// the machine that asks, so that nobody's own clock counts.
type Clock interface {
	// Now is the time of all who share the journal. Within a process it never goes back. It
	// does no I/O, and is safe for concurrent use.
	Now() time.Time
}
