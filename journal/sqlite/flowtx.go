package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"sync"

	sqlite "modernc.org/sqlite"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/checkpoint"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/inplace"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// localDatabase holds database/sql handles on the open files, by path, for transactions that hold the
// application's writes beside a step's record. They are opened on first use.
type localDatabase struct {
	once sync.Once
	db   *sql.DB
	err  error
}

// localTx is a transaction of the journal's database.
type localTx struct {
	tx    *sql.Tx
	files *inplace.Files // nil: it is the application's own
}

// Tx makes a journal.Tx of an application's transaction on the journal's database. It must write: use BEGIN
// IMMEDIATE, or write before the journal does.
func Tx(tx *sql.Tx) journal.Tx { return localTx{tx: tx} }

func (t localTx) Driver() any                    { return t.tx }
func (t localTx) Rollback(context.Context) error { return t.tx.Rollback() }

// Commit fails, like the writer's, if the file is not in its place any more.
func (t localTx) Commit(context.Context) error {
	if err := t.tx.Commit(); err != nil || t.files == nil {
		return err
	}
	return t.files.StillInPlace()
}

// ours is the driver's transaction, if tx is one of this package's.
func ours(tx journal.Tx) (*sql.Tx, error) {
	if t, ok := tx.(localTx); ok && t.tx != nil {
		return t.tx, nil
	}
	return nil, fmt.Errorf("sqlite: the transaction is %T, and not one of BeginTx or sqlite.Tx", tx)
}

// within is the driver's transaction, if in is one of this package's, and the context for statements in it.
func (j *Journal) within(ctx context.Context, in journal.Tx) (context.Context, *sql.Tx, error) {
	tx, err := ours(in)
	if t, ok := in.(localTx); ok && t.files == j.file.writer.files {
		ctx = onHandle(ctx)
	}
	return ctx, tx, err
}

type handleKey struct{}

// onHandle is the context of the journal's own statements in a transaction of BeginSQL, which has the write lock of the
// journal's file. Each connection prepares such a statement once. The end of ctx does not break it off: it takes
// microseconds, and to wait for ctx beside it would take a goroutine.
func onHandle(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), handleKey{}, ctx)
}

// isOnHandle returns the context that onHandle got, or nil.
func isOnHandle(ctx context.Context) context.Context {
	of, _ := ctx.Value(handleKey{}).(context.Context)
	return of
}

// BeginTx starts a transaction like BeginSQL, for journal.LocalFlows.
func (j *Journal) BeginTx(ctx context.Context) (journal.Tx, error) {
	tx, err := j.BeginSQL(ctx)
	if err != nil {
		return nil, err
	}
	return localTx{tx, j.file.writer.files}, nil
}

// BeginSQL starts a transaction of the journal's database that holds its write lock from the beginning (BEGIN
// IMMEDIATE), in WAL mode with synchronous=FULL. The application's own tables may be in that database. No
// caller records anything until it ends: keep it short, and do not call the journal in it. A transaction
// begins after the current commit, and after one more for each transaction that already waits, however many
// callers the journal has in this process. The -wal file grows with the writes of one transaction.
func (j *Journal) BeginSQL(ctx context.Context) (*sql.Tx, error) {
	if err := j.writable(ctx); err != nil {
		return nil, err
	}
	db, err := j.file.local.open(j.file.path, j.file.writer)
	if err != nil {
		return nil, conn.Explain(j.file.path, "open for local steps", err)
	}
	var tx *sql.Tx
	err = j.file.writer.inItsTurn(ctx, func() error {
		tx, err = db.BeginTx(ctx, nil)
		return err
	})
	return tx, conn.Explain(j.file.path, "begin a local step", err)
}

func (d *localDatabase) open(path string, w *writer) (*sql.DB, error) {
	d.once.Do(func() {
		settings := url.Values{"_txlock": {"immediate"}, "_pragma": {
			"busy_timeout(0)", // localLock and conn.InTurn wait: SQLite's own waiting starves the longest waiter
			"synchronous(FULL)", "wal_autocheckpoint(0)", fmt.Sprintf("journal_size_limit(%d)", checkpoint.MaxWAL), "trusted_schema(OFF)", "foreign_keys(ON)",
		}}
		var base driver.Connector
		if base, d.err = sqlite.NewConnector("file:" + (&url.URL{Path: path}).EscapedPath() + "?" + settings.Encode()); d.err == nil {
			d.db = sql.OpenDB(guards{base, w})
		}
	})
	return d.db, d.err
}

// close ends the connections, and prevents new ones.
func (d *localDatabase) close() error {
	d.once.Do(func() { d.err = journal.ErrClosed })
	if d.db == nil {
		return nil
	}
	return d.db.Close()
}

// guards are connections that never commit anything after SQLite has rolled back a transaction by itself.
// database/sql does not know of that: if a caller ignores the error, each of its next statements would be a
// transaction of its own. They tell the writer when a transaction ends.
type guards struct {
	driver.Connector
	writer *writer
}

func (g guards) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := g.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	guarded := &guardedConn{sqliteConn: c.(sqliteConn), writer: g.writer, prepared: map[string]driver.Stmt{}}
	guarded.RegisterRollbackHook(func() { guarded.rolledBack = true })
	guarded.RegisterCommitHook(func() int32 {
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
	writer     *writer
	rolledBack bool                   // the transaction that this connection was taken for
	prepared   map[string]driver.Stmt // statements of the journal's own
}

// statement is the prepared one of the journal's own, and nil for one of the application's.
func (g *guardedConn) statement(ctx context.Context, query string) (driver.Stmt, error) {
	if isOnHandle(ctx) == nil {
		return nil, nil
	}
	if s := g.prepared[query]; s != nil {
		return s, nil
	}
	s, err := g.PrepareContext(ctx, query)
	if err == nil {
		g.prepared[query] = s
	}
	return s, err
}

func (g *guardedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
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

// BeginTx waits for the transaction that has the file, and begins the next.
func (g *guardedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	begin := func() (err error) {
		tx, err = g.sqliteConn.BeginTx(ctx, opts)
		return err
	}
	w := g.writer
	if !w.local.take(ctx, w.timeout) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := begin()
		return tx, err
	}
	if err := conn.InTurn(w.timeout, begin); err != nil {
		w.local.giveBack()
		return nil, err
	}
	return &lockedTx{Tx: tx, lock: w.local}, nil
}

// lockedTx gives the lock back when it ends, whatever SQLite says to that.
type lockedTx struct {
	driver.Tx
	lock localLock
}

func (t *lockedTx) Commit() error {
	defer t.lock.giveBack()
	return t.Tx.Commit()
}

func (t *lockedTx) Rollback() error {
	defer t.lock.giveBack()
	return t.Tx.Rollback()
}

// ResetSession is called when the connection is taken for another transaction.
func (g *guardedConn) ResetSession(ctx context.Context) error {
	g.rolledBack = false
	return g.sqliteConn.ResetSession(ctx)
}

// ApplyFlowTx records ev, of kind FlowEventRecord, within tx, which must be a transaction of the journal's
// database: one of BeginTx, or Tx of the application's own on the same file. It is recorded if tx commits. If
// SQLite rolled back the writes of tx (https://sqlite.org/lang_transaction.html, "Response To Errors Within A
// Transaction"), the error says so, and nothing is recorded.
func (j *Journal) ApplyFlowTx(ctx context.Context, local journal.Tx, ev journal.FlowEvent) (journal.FlowResult, error) {
	if err := j.writable(ctx); err != nil {
		return journal.FlowResult{}, err
	}
	if ev.Kind != journal.FlowEventRecord || ev.At.IsZero() {
		return journal.FlowResult{}, &journal.FlowEventError{Kind: ev.Kind, Reason: "ApplyFlowTx needs a record and the caller's clock"}
	}
	ctx, tx, err := j.within(ctx, local)
	if err != nil {
		return journal.FlowResult{}, err
	}
	if err := cmp.Or(isOpen(ctx, tx), j.file.writer.files.InPlace()); err != nil {
		return journal.FlowResult{}, conn.Explain(j.file.path, "record a local step", err)
	}
	f, err := flowIn(ctx, tx, ev)
	if err != nil {
		return journal.FlowResult{}, conn.Explain(j.file.path, "record a local step; is the transaction one of the journal's database?", err)
	}
	next, decision, err := journal.NextFlow(f, false, ev)
	if err != nil || decision != journal.Recorded {
		return journal.FlowResult{Flow: next, Decision: decision}, err
	}
	for _, step := range ev.Steps {
		if _, err := tx.ExecContext(ctx, insertStep+stepValues, format.StepArgs(f.Handle, step)...); err != nil {
			return journal.FlowResult{}, conn.Explain(j.file.path, "record a local step", err)
		}
	}
	return journal.FlowResult{Flow: next, Decision: decision}, nil
}

// isOpen returns an error if SQLite has ended a transaction by itself. database/sql does not know of that: each
// of its statements would be a transaction of its own. A transaction cannot begin within another one, so an
// attempt to begin one shows it.
func isOpen(ctx context.Context, tx *sql.Tx) error {
	whole := context.WithoutCancel(ctx) // a transaction that began and did not end would include the next statements
	if _, err := tx.ExecContext(whole, "BEGIN"); err != nil {
		return ctx.Err()
	}
	_, err := tx.ExecContext(whole, "ROLLBACK")
	return errors.Join(errors.New("SQLite rolled the transaction back after one of its statements: ON CONFLICT ROLLBACK, RAISE(ROLLBACK), an interrupted statement, or a full disk"), err)
}

// flowIn reads the flow that ev names, as tx sees it.
func flowIn(ctx context.Context, tx *sql.Tx, ev journal.FlowEvent) (journal.Flow, error) {
	where, args := " WHERE handle = ?", []any{ev.Handle}
	if ev.Handle == 0 {
		where, args = " WHERE id = ? AND scope = ? AND parent = ?", []any{ev.Ref.ID, ev.Ref.Scope, ev.Ref.Parent}
	}
	v := make([]any, 14)
	into := make([]any, len(v))
	for i := range v {
		into[i] = &v[i]
	}
	if err := tx.QueryRowContext(ctx, read.SelectFlow+where, args...).Scan(into...); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Flow{}, nil
		}
		return journal.Flow{}, err
	}
	values := make([]driver.Value, len(v))
	for i := range v {
		values[i] = v[i]
	}
	var f journal.Flow
	err := conn.Take(func(values []driver.Value) (err error) {
		f, err = format.ReadFlow(values)
		return err
	}, values)
	return f, err
}
