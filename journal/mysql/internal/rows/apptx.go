package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// FromSQL returns the journal.Tx for an application transaction.
func FromSQL(tx *sql.Tx) journal.Tx { return theirTx{tx: tx} }

// theirTx is a journal.Tx.
type theirTx struct {
	tx   *sql.Tx
	d    *Driver   // of BeginTx, whose connection is the journal's own; else nil
	conn *sql.Conn // likewise
}

// Driver implements journal.Tx.
func (t theirTx) Driver() any { return t.tx }

// Commit implements journal.Tx. A transaction that has ended unnoticed fails with journal.ErrTxAborted.
func (t theirTx) Commit(ctx context.Context) error {
	defer t.release()
	if err := server.InTransaction(ctx, t.tx); err != nil {
		_ = t.tx.Rollback()
		return theirError(err)
	}
	return theirError(t.tx.Commit())
}

// Rollback implements journal.Tx.
func (t theirTx) Rollback(context.Context) error {
	defer t.release()
	if err := t.tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return theirError(err)
	}
	return nil
}

// release gives the connection of a BeginTx back.
func (t theirTx) release() {
	if t.conn != nil {
		_ = t.conn.Close()
	}
}

var errDone = errors.New("mysql: the transaction was committed or rolled back before: begin another")

// theirError is the server's error, explained. After a deadlock, the server has rolled the whole transaction back.
func theirError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone):
		return errDone
	case errors.Is(err, journal.ErrTxAborted):
		return err
	case myerr.Number(err) == myerr.Deadlock, myerr.Number(err) == 1020:
		return fmt.Errorf("%w (%w)", journal.ErrTxAborted, myerr.Explain(err))
	}
	return myerr.Explain(err)
}

// BeginTx implements rowstore.Driver. Driver returns a *sql.Tx.
func (d *Driver) BeginTx(ctx context.Context, delivery bool) (journal.Tx, error) {
	pool := d.apps
	if delivery {
		pool = d.deliveries
	}
	for {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return nil, err
		}
		// The end of ctx ends the wait for a connection, and not the transaction.
		tx, err := conn.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err == nil {
			return theirTx{tx: tx, d: d, conn: conn}, nil
		}
		server.HangUp(conn)
		if ctx.Err() != nil || !myerr.IsConnections(err) {
			return nil, myerr.Explain(err)
		}
	}
}
