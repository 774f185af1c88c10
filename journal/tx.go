package journal

import (
	"context"
	"errors"
)

// ErrTxAborted means that the database does not commit the transaction: a statement has failed, or a deferred constraint
// at the commit. PostgreSQL aborts a transaction after a failed statement, and SQLite does not.
var ErrTxAborted = errors.New("journal: a statement of the transaction has failed before, so nothing of it can be committed: roll it back, and begin another")

// Tx is a transaction of a journal's database. Only the stores' packages make a Tx, from the driver's transaction or by
// the journal's BeginTx. A store refuses another store's Tx. As with the driver's own, only one goroutine uses a Tx at a
// time.
type Tx interface {
	// Driver returns the driver's own transaction, such as a *sql.Tx, for the application's
	// writes beside the journal's.
	Driver() any
	// Commit makes the transaction durable. After ErrTxAborted nothing is committed. After another error the result is
	// unknown, unless the driver reports a rollback.
	Commit(ctx context.Context) error
	// Rollback undoes the transaction. After Commit, Rollback changes nothing.
	Rollback(ctx context.Context) error
}
