package rows

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"

	sqlite "modernc.org/sqlite"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// local begins the application's own transactions on the journal's file, by database/sql. They take turns with those
// of the journal.
type local struct {
	driver.Connector
	d  *Driver
	db *sql.DB
}

func newLocal(d *Driver) (*local, error) {
	settings := url.Values{"_pragma": {
		"busy_timeout(0)", // the turn and conn.InTurn wait: SQLite's own waiting starves the longest waiter
		"synchronous(FULL)", "wal_autocheckpoint(0)", "trusted_schema(OFF)", "foreign_keys(ON)",
	}}
	base, err := sqlite.NewConnector("file:" + (&url.URL{Path: d.path}).EscapedPath() + "?" + settings.Encode())
	if err != nil {
		return nil, err
	}
	l := &local{Connector: base, d: d}
	l.db = sql.OpenDB(l)
	return l, nil
}

// Connect returns a connection that commits nothing after SQLite has rolled back a transaction without being asked.
// database/sql does not know of that. If a caller ignores the error, each of its next statements would be a transaction.
func (l *local) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := l.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	g := &localConn{sqliteConn: c.(sqliteConn), d: l.d, prepared: make(map[string]driver.Stmt)}
	g.RegisterRollbackHook(func() { g.rolledBack = true })
	g.RegisterCommitHook(func() int32 {
		if g.rolledBack {
			return 1 // roll back instead
		}
		return 0
	})
	return g, nil
}

// sqliteConn is the interface of the driver's connections.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	sqlite.HookRegisterer
}

type localConn struct {
	sqliteConn
	d          *Driver
	rolledBack bool                   // the transaction that this connection was taken for
	prepared   map[string]driver.Stmt // of the journal's own statements that change rows
}

// ownKey is of the context of the journal's own statements. Each connection prepares one once.
type ownKey struct{}

// ExecContext runs a statement.
func (c *localConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if ctx.Value(ownKey{}) == nil {
		return c.sqliteConn.ExecContext(ctx, query, args)
	}
	s := c.prepared[query]
	if s == nil {
		var err error
		if s, err = c.PrepareContext(ctx, query); err != nil {
			return nil, err
		}
		c.prepared[query] = s
	}
	return s.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (c *localConn) Close() error {
	var errs []error
	for _, s := range c.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.sqliteConn.Close())...)
}

// ResetSession is called when the connection is taken for another transaction.
func (c *localConn) ResetSession(ctx context.Context) error {
	c.rolledBack = false
	return c.sqliteConn.ResetSession(ctx)
}

// BeginTx begins a transaction that has this process's turn, and passes the turn when it ends.
func (c *localConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	if err := conn.InTurn(timeout, func() error { return c.run("BEGIN IMMEDIATE") }); err != nil {
		return nil, err
	}
	return localEnd{c}, nil
}

func (c *localConn) run(query string) error {
	_, err := c.sqliteConn.ExecContext(context.Background(), query, nil)
	return err
}

// localEnd ends a transaction, whatever SQLite says to that.
type localEnd struct{ c *localConn }

func (e localEnd) Commit() error {
	defer e.c.d.pass()
	ended := e.c.rolledBack
	err := e.c.run("COMMIT")
	if err != nil {
		_ = e.c.run("ROLLBACK") // it may still be open
	}
	switch {
	case ended:
		return errEnded
	case err != nil:
		return err
	}
	e.c.d.wal.wrote(rowsOfTheirs)
	return nil
}

// rowsOfTheirs is how many rows a transaction of the application's is taken to write.
const rowsOfTheirs = 4

func (e localEnd) Rollback() error {
	defer e.c.d.pass()
	return e.c.run("ROLLBACK")
}

// BeginTx implements rowstore.Driver. Driver returns a *sql.Tx that has the file's write lock.
func (d *Driver) BeginTx(ctx context.Context) (journal.Tx, error) {
	if err := d.takeTurn(ctx); err != nil {
		return nil, err
	}
	tx, err := d.local.db.BeginTx(ctx, nil)
	if err != nil {
		<-d.turn
		return nil, conn.Explain(d.path, "begin a transaction", err)
	}
	return localTx{tx, d}, nil
}

// localTx is a transaction of the journal's file.
type localTx struct {
	tx *sql.Tx
	of *Driver // nil: it is the application's own
}

// Tx returns the journal.Tx of an application's transaction on the journal's file. It must write: use BEGIN IMMEDIATE, or
// write before the journal does.
func Tx(tx *sql.Tx) journal.Tx { return localTx{tx: tx} }

func (t localTx) Driver() any                    { return t.tx }
func (t localTx) Commit(context.Context) error   { return t.tx.Commit() }
func (t localTx) Rollback(context.Context) error { return t.tx.Rollback() }

// ours returns the driver's transaction, if tx is one of this package's.
func ours(tx journal.Tx) (localTx, error) {
	if t, ok := tx.(localTx); ok && t.tx != nil {
		return t, nil
	}
	return localTx{}, fmt.Errorf("sqlite: the transaction is %T, and not one of BeginTx or sqlite.Tx", tx)
}
