package apptx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// Pooled is a transaction on a connection of a pool: for the application a pgx.Tx, and for the journal a Runner. BEGIN goes
// with the journal's first statements, or before any other. One goroutine uses it.
type Pooled struct {
	ctx    context.Context // of Begin
	pooled *pgxpool.Conn
	conn   *pgx.Conn
	begun  pgx.Tx             // as the driver has it; nil if BEGIN is not sent yet
	last   []*pgx.QueuedQuery // go with COMMIT, and divide by zero if COMMIT must not be done
	failed error              // why BEGIN failed: no statement is sent any more
	over   atomic.Bool        // the pool has the connection again

	opts             pgx.TxOptions
	opening, closing []string // statements that follow BEGIN, and those before COMMIT
}

var _ pgx.Tx = (*Pooled)(nil)

// NewPooled returns a transaction that has not begun, on a connection that goes back to the pool at the end.
func NewPooled(ctx context.Context, conn *pgxpool.Conn) *Pooled {
	return &Pooled{ctx: ctx, pooled: conn, conn: conn.Conn()}
}

// NewOwn is NewPooled for a transaction of read committed rows. It sends further statements after BEGIN, and before COMMIT.
func NewOwn(ctx context.Context, conn *pgxpool.Conn, opening, closing []string) *Pooled {
	t := NewPooled(ctx, conn)
	t.opts, t.opening, t.closing = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, opening, closing
	return t
}

// errEndedBySQL is the error of a statement behind a COMMIT or ROLLBACK that was sent as a statement. The server would commit it
// alone.
var errEndedBySQL = errors.New("postgres: a statement has ended the transaction, so another one would be committed alone: neither commit nor roll back by SQL")

// errEnded is why a receipt can't be completed that goes with COMMIT.
var errEnded = errors.New("postgres: receive a request: the transaction that reserved the key was ended before its answer was recorded; the answer is not kept")

// ErrFailedBefore wraps the error that has ended a transaction. The transaction sends nothing any more.
var ErrFailedBefore = errors.New("a statement of the transaction has failed before")

// Defers reports whether a statement is sent with COMMIT. It is not if the transaction can't be committed.
func (t *Pooled) Defers(sql string, args []any) bool {
	if t.begun == nil || t.over.Load() || t.conn.IsClosed() || t.conn.PgConn().TxStatus() != 'T' {
		return false
	}
	t.last = append(t.last, &pgx.QueuedQuery{SQL: sql, Arguments: args})
	return true
}

// Driver returns the transaction as the application has it.
func (t *Pooled) Driver() any { return t }

// usable returns why no statement can be sent, or nil.
func (t *Pooled) usable() error {
	switch {
	case t.over.Load():
		return pgx.ErrTxClosed
	case t.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailedBefore, t.failed)
	case t.begun != nil && t.conn.PgConn().TxStatus() == 'I' && !t.conn.IsClosed():
		return errEndedBySQL
	}
	return nil
}

// SendBatch sends BEGIN with the batch, if the transaction is not begun.
func (t *Pooled) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.usable(); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	if t.begun != nil {
		return t.conn.SendBatch(ctx, b)
	}
	all := new(pgx.Batch)
	all.BeginTx(t.opts)
	for _, sql := range t.opening {
		all.Queue(sql)
	}
	before := all.Len()
	all.QueuedQueries = append(all.QueuedQueries, b.QueuedQueries...)
	results := t.conn.SendBatch(ctx, all)
	for range before {
		if _, t.failed = results.Exec(); t.failed != nil {
			_ = results.Close()
			return pgx.FailedBatchResults(b, t.failed)
		}
	}
	t.begun = results.Tx()
	return results
}

// start begins the transaction, if it is not begun.
func (t *Pooled) start(ctx context.Context) error {
	if t.begun == nil {
		return t.SendBatch(ctx, new(pgx.Batch)).Close()
	}
	return t.usable()
}

// Commit sends BEGIN too if no statement was sent, so Commit fails on a dead connection. If a statement fails that goes
// with COMMIT, the server skips COMMIT.
func (t *Pooled) Commit(ctx context.Context) error {
	if t.over.Load() {
		return pgx.ErrTxClosed
	}
	defer t.release()
	b := new(pgx.Batch)
	if len(t.last) == 0 { // else they say so
		if err := t.start(ctx); err != nil {
			return committed(err)
		}
	}
	b.QueuedQueries = append(b.QueuedQueries, t.last...)
	for _, sql := range append(slices.Clone(t.closing), "commit") {
		b.Queue(sql)
	}
	var tag pgconn.CommandTag
	var err error
	results := t.conn.SendBatch(ctx, b)
	for range b.Len() {
		if tag, err = results.Exec(); err != nil {
			break
		}
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	switch {
	case t.last != nil && pgerr.Code(err) == pgerr.DivisionByZero:
		return errEnded
	case err == nil && tag.String() == "ROLLBACK":
		err = pgx.ErrTxCommitRollback
	}
	return committed(err)
}

// Rollback does nothing if the transaction is over.
func (t *Pooled) Rollback(ctx context.Context) (err error) {
	if t.over.Load() {
		return nil
	}
	defer t.release()
	if t.conn.PgConn().TxStatus() != 'I' {
		_, err = t.conn.Exec(ctx, "rollback")
	}
	return err
}

// release gives the connection back. The pool closes one whose transaction is still open.
func (t *Pooled) release() {
	t.over.Store(true)
	t.pooled.Release()
}

// unsent are the results of statements that were not sent.
func unsent(err error) pgx.BatchResults { return pgx.FailedBatchResults(new(pgx.Batch), err) }

func (t *Pooled) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.start(ctx); err != nil {
		return unsent(err).QueryRow()
	}
	return t.conn.QueryRow(ctx, sql, args...)
}

func (t *Pooled) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.start(ctx); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.conn.Exec(ctx, sql, args...)
}

// Query never returns nil rows: callers may overlook the error, since rows have the error too.
func (t *Pooled) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.start(ctx); err != nil {
		return unsent(err).Query()
	}
	return t.conn.Query(ctx, sql, args...)
}

func (t *Pooled) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, from pgx.CopyFromSource) (int64, error) {
	if err := t.start(ctx); err != nil {
		return 0, err
	}
	return t.conn.CopyFrom(ctx, table, columns, from)
}

func (t *Pooled) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.start(ctx); err != nil {
		return nil, err
	}
	return t.conn.Prepare(ctx, name, sql)
}

// Conn begins the transaction, since its caller may use the connection directly. If BEGIN fails, Conn closes the
// connection, so nothing is written outside of the transaction.
func (t *Pooled) Conn() *pgx.Conn {
	if !t.over.Load() && t.start(t.ctx) != nil {
		connection.HangUp(t.conn)
	}
	return t.conn
}

// Begin begins a savepoint.
func (t *Pooled) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.start(ctx); err != nil {
		return nil, err
	}
	return t.begun.Begin(ctx)
}

func (t *Pooled) LargeObjects() pgx.LargeObjects {
	if err := t.start(t.ctx); err != nil {
		b := new(pgx.Batch)
		b.BeginTx(pgx.TxOptions{})
		return pgx.FailedBatchResults(b, err).Tx().LargeObjects() // of a transaction that is over
	}
	return t.begun.LargeObjects()
}
