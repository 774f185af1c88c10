package localdb

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"

	sqlite "modernc.org/sqlite"

	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// guards are connections that never commit anything after SQLite has rolled back a transaction of its own accord.
// database/sql does not notice the rollback. If a caller ignores the error, each further statement would be a separate
// transaction. They pass the turn on when a transaction ends.
type guards struct {
	driver.Connector
	timeout time.Duration
}

func (g guards) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := g.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	guarded := &guardedConn{sqliteConn: c.(sqliteConn), timeout: g.timeout, prepared: map[string]driver.Stmt{}}
	guarded.RegisterRollbackHook(func() { guarded.rolledBack, guarded.ended = true, true })
	guarded.RegisterCommitHook(func() int32 {
		guarded.ended = true
		if guarded.rolledBack {
			return 1 // roll back instead
		}
		return 0
	})
	return guarded, nil
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

type guardedConn struct {
	sqliteConn
	timeout    time.Duration
	rolledBack bool                   // the transaction that this connection was taken for
	ended      bool                   // likewise, or it may be committed
	prepared   map[string]driver.Stmt // statements of the journal's own, which run one at a time
}

// statement is the prepared one of the journal's own. It is nil for one of the application's.
func (g *guardedConn) statement(ctx context.Context, query string) (s driver.Stmt, err error) {
	if IsOnHandle(ctx) == nil {
		return nil, nil
	}
	if s = g.prepared[query]; s == nil {
		if s, err = g.PrepareContext(ctx, query); err == nil {
			g.prepared[query] = s
		}
	}
	return s, err
}

func (g *guardedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if query == begin && !g.ended && IsOnHandle(ctx) != nil {
		return nil, errOpen // as SQLite would say
	}
	s, err := g.statement(ctx, query)
	if s == nil && err == nil {
		return g.sqliteConn.ExecContext(ctx, query, args)
	}
	if err != nil {
		return nil, err
	}
	return s.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (g *guardedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := g.statement(ctx, query)
	if s == nil && err == nil {
		return g.sqliteConn.QueryContext(ctx, query, args)
	}
	if err != nil {
		return nil, err
	}
	return s.(driver.StmtQueryContext).QueryContext(ctx, args)
}

func (g *guardedConn) Close() error {
	var errs []error
	for _, s := range g.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, g.sqliteConn.Close())...)
}

// BeginTx begins a transaction. One in its turn is begun and ended by prepared statements.
func (g *guardedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	over, _ := ctx.Value(overKey{}).(func())
	if over == nil {
		return g.sqliteConn.BeginTx(ctx, opts)
	}
	if err := conn.InTurn(g.timeout, func() error { return g.run("BEGIN IMMEDIATE") }); err != nil {
		return nil, err
	}
	return lockedTx{g, over}, nil
}

// onHandle is for statements that no caller breaks off.
var onHandle = OnHandle(context.Background())

func (g *guardedConn) run(query string) error {
	_, err := g.ExecContext(onHandle, query, nil)
	return err
}

// lockedTx passes its turn on at the end, whatever SQLite answers.
type lockedTx struct {
	conn *guardedConn
	over func()
}

func (t lockedTx) Commit() error {
	defer t.over()
	ended := t.conn.rolledBack
	err := t.conn.run("COMMIT")
	if err != nil {
		_ = t.conn.run("ROLLBACK") // it may still be open
	}
	if ended {
		return errEnded
	}
	return err
}

func (t lockedTx) Rollback() error {
	defer t.over()
	return t.conn.run("ROLLBACK")
}

// ResetSession is called when the connection is taken for another transaction.
func (g *guardedConn) ResetSession(ctx context.Context) error {
	g.rolledBack, g.ended = false, false
	return g.sqliteConn.ResetSession(ctx)
}
