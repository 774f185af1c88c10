package rows

import (
	"context"
	"crypto/rand"
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
	name string    // likewise: of a lock that the connection holds
}

// Driver implements journal.Tx.
func (t theirTx) Driver() any { return t.tx }

// Commit implements journal.Tx. A transaction that has ended unnoticed fails with journal.ErrTxAborted.
func (t theirTx) Commit(ctx context.Context) error {
	defer t.release()
	if err := t.goesOn(ctx); err != nil {
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

// goesOn returns an error if the transaction has ended unnoticed. Of a transaction of BeginTx, it also notices that another one
// has begun since.
func (t theirTx) goesOn(ctx context.Context) error {
	if t.conn == nil {
		return server.InTransaction(ctx, t.tx)
	}
	_, err := t.tx.ExecContext(ctx, "RELEASE SAVEPOINT "+begun)
	if myerr.Number(err) == myerr.NoSavepoint {
		return server.ErrEnded
	}
	return err
}

// begun is the savepoint at the begin of a transaction of BeginTx.
const begun = "onceward_begun"

// release ends the connection of a BeginTx.
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

// BeginTx implements rowstore.Driver. Driver returns a *sql.Tx. Each transaction has a connection of its own, which ends with the
// transaction: no later caller gets settings, a role or temporary tables that a caller has left.
func (d *Driver) BeginTx(ctx context.Context, delivery bool) (journal.Tx, error) {
	pool := d.apps
	if delivery {
		pool = d.deliveries
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, myerr.Explain(err)
	}
	// The end of ctx ends the wait for a connection, and not the transaction.
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
	name := rand.Text()
	if err == nil {
		_, err = tx.ExecContext(ctx, "DO GET_LOCK('"+name+"', 0); SAVEPOINT "+begun)
	}
	if err != nil {
		server.HangUp(conn)
		return nil, myerr.Explain(err)
	}
	return theirTx{tx: tx, d: d, conn: conn, name: name}, nil
}

// End ends the connection of a BeginTx, also amid a statement, and the server rolls the transaction back. If the server does not
// answer, the statement goes on.
func (d *Driver) End(theirs journal.Tx) {
	ctx, cancel := context.WithTimeout(d.Background(), server.DialTime)
	defer cancel()
	if conn, err := d.side.Conn(ctx); err == nil {
		d.kill(ctx, conn, theirs.(theirTx).name)
		_ = conn.Close()
	}
}
