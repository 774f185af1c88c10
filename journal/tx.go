package journal

import (
	"context"
	"errors"
)

// ErrTxAborted means that the database commits nothing of the transaction: a statement has failed, or a deferred constraint
// at the commit. PostgreSQL aborts a transaction after a failed statement, and SQLite does not.
var ErrTxAborted = errors.New("journal: a statement of the transaction has failed before, so nothing of it can be committed: roll it back, and begin another")

// Tx is a transaction of a journal's database. Only the packages of stores make one, from their driver's transaction
// or by the journal's BeginTx. A store refuses the Tx of another store. Like the driver's, only one goroutine uses it at a
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
