package rows

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/checkpoint"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// BeginTx implements rowstore.Driver: BeginSQL for the journal.
func (d *Driver) BeginTx(ctx context.Context, _ bool) (journal.Tx, error) {
	tx, err := d.BeginSQL(ctx)
	if err != nil {
		return nil, err
	}
	return localTx{tx, d}, nil
}

// BeginSQL begins an application transaction with the file's write lock. The transaction begins after this process's
// waiting transactions.
func (d *Driver) BeginSQL(ctx context.Context) (*sql.Tx, error) {
	if err := d.takeTurn(ctx); err != nil {
		return nil, err
	}
	d.checkpoint.BeforeOthers(d.writer)
	d.theirs.Store(true)
	tx, err := d.local.Begin(ctx, d.path, turnTimeout, func() {
		d.theirs.Store(false)
		d.pass()
	})
	if err != nil {
		return nil, conn.Explain(d.path, "begin a transaction", err)
	}
	return tx, nil
}

// localTx is a transaction on the journal's file.
type localTx struct {
	tx *sql.Tx
	of *Driver // nil: it is the application's own
}

// Tx returns the journal.Tx for an application's transaction on the journal's file. The transaction must write: use
// BEGIN IMMEDIATE, or write before the journal does.
func Tx(tx *sql.Tx) journal.Tx { return localTx{tx: tx} }

func (t localTx) Driver() any                    { return t.tx }
func (t localTx) Rollback(context.Context) error { return t.tx.Rollback() }

// Commit fails if the file is no longer in place. SQLite checks deferred foreign keys there.
func (t localTx) Commit(context.Context) error {
	err := t.tx.Commit()
	if conn.OfOneStatement(err) {
		return fmt.Errorf("%w (%w)", journal.ErrTxAborted, err)
	}
	if err != nil || t.of == nil {
		return err
	}
	return t.of.files.StillInPlace()
}

// ours returns the driver's transaction, if tx is from this package.
func ours(tx journal.Tx) (localTx, error) {
	if t, ok := tx.(localTx); ok && t.tx != nil {
		return t, nil
	}
	return localTx{}, fmt.Errorf("sqlite: the transaction is %T, and not one of BeginTx or sqlite.Tx", tx)
}

// markSoon makes the sidecar name the application's coming commit, some seconds after the commit.
func (d *Driver) markSoon() {
	time.AfterFunc(checkpoint.SidecarAfter, d.checkpoint.Committed)
}
