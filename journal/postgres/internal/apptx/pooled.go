package apptx

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// Pooled is a transaction that begins with its first statement: for the application a pgx.Tx, and for the journal a Runner. One goroutine uses it.
type Pooled struct {
	ctx    context.Context // of Begin
	pooled *pgxpool.Conn
	conn   *pgx.Conn
	begun  pgx.Tx           // as the driver has it; nil if BEGIN is not sent yet
	last   *pgx.QueuedQuery // goes with COMMIT, and divides by zero if COMMIT must not be done; nil for none
	over   atomic.Bool      // the pool has the connection again
}

var _ pgx.Tx = (*Pooled)(nil)

// NewPooled returns a transaction that is not begun yet, on a connection that goes back to its pool at the end.
func NewPooled(ctx context.Context, conn *pgxpool.Conn) *Pooled {
	return &Pooled{ctx: ctx, pooled: conn, conn: conn.Conn()}
}

// errEnded is why a receipt can't be completed that goes with COMMIT.
var errEnded = errors.New("postgres: receive a request: the transaction that reserved the key was ended before its answer was recorded; the answer is not kept")

// Defers reports whether a statement is sent with COMMIT, or before it with the next one.
func (t *Pooled) Defers(sql string, args []any) bool {
	if t.begun == nil || t.last != nil || t.over.Load() {
		return false
	}
	t.last = &pgx.QueuedQuery{SQL: sql, Arguments: args}
	return true
}

// batch begins a batch with the statements that are due before any other. Its caller has to call sent with the
// batch's results.
func (t *Pooled) batch() (b *pgx.Batch, sent func(pgx.BatchResults) error) {
	b = new(pgx.Batch)
	if t.begun == nil {
		b.BeginTx(pgx.TxOptions{})
	}
	if t.last != nil {
		b.Queue(t.last.SQL, t.last.Arguments...)
		t.last = nil
	}
	n := b.Len()
	return b, func(results pgx.BatchResults) error {
		for range n {
			if _, err := results.Exec(); pgerr.Code(err) == pgerr.DivisionByZero {
				return errEnded
			} else if err != nil {
				return err
			}
		}
		if t.begun == nil {
			t.begun = results.Tx()
		}
		return nil
	}
}

// start sends the statements that are due before any other.
func (t *Pooled) start(ctx context.Context) error {
	if t.over.Load() {
		return pgx.ErrTxClosed
	}
	if t.begun != nil && t.last == nil {
		return nil
	}
	b, sent := t.batch()
	results := t.conn.SendBatch(ctx, b)
	err := sent(results)
	if closing := results.Close(); err == nil {
		err = closing
	}
	return err
}

// Driver begins the transaction, since its caller may use the connection. If that fails, the caller's next statement tries again.
func (t *Pooled) Driver() any {
	_ = t.start(t.ctx)
	return t
}

// Commit sends BEGIN too if that failed or was not needed before, so that it fails on a dead connection. If the statement
// fails that goes with COMMIT, the server skips COMMIT.
func (t *Pooled) Commit(ctx context.Context) error {
	if t.over.Load() {
		return pgx.ErrTxClosed
	}
	defer t.release()
	b, sent := t.batch()
	b.Queue("commit")
	results := t.conn.SendBatch(ctx, b)
	err := sent(results)
	if err == nil {
		var tag pgconn.CommandTag
		if tag, err = results.Exec(); err == nil && tag.String() == "ROLLBACK" {
			err = pgx.ErrTxCommitRollback
		}
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	return err
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

// QueryRow is one round trip, also if it is the first statement.
func (t *Pooled) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if t.over.Load() {
		return failedRow{pgx.ErrTxClosed}
	}
	if t.begun != nil && t.last == nil {
		return t.conn.QueryRow(ctx, sql, args...)
	}
	b, sent := t.batch()
	b.Queue(sql, args...)
	results := t.conn.SendBatch(ctx, b)
	if err := sent(results); err != nil {
		_ = results.Close()
		return failedRow{err}
	}
	return batchRow{results}
}

// batchRow is the last row of a batch.
type batchRow struct{ results pgx.BatchResults }

func (r batchRow) Scan(dest ...any) error {
	err := r.results.QueryRow().Scan(dest...)
	if closing := r.results.Close(); err == nil {
		err = closing
	}
	return err
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

func (t *Pooled) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.start(ctx); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.conn.Exec(ctx, sql, args...)
}

func (t *Pooled) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.start(ctx); err != nil {
		return nil, err
	}
	return t.conn.Query(ctx, sql, args...)
}

func (t *Pooled) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.start(ctx); err != nil {
		return failedBatch{err: err}
	}
	return t.conn.SendBatch(ctx, b)
}

type failedBatch struct {
	pgx.BatchResults // nil: it began no transaction
	err              error
}

func (b failedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, b.err }
func (b failedBatch) Query() (pgx.Rows, error)         { return nil, b.err }
func (b failedBatch) QueryRow() pgx.Row                { return failedRow{b.err} }
func (b failedBatch) Close() error                     { return b.err }
func (b failedBatch) Tx() pgx.Tx                       { return nil }

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

func (t *Pooled) Conn() *pgx.Conn { return t.conn }

// Begin begins a savepoint.
func (t *Pooled) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.start(ctx); err != nil {
		return nil, err
	}
	return t.begun.Begin(ctx)
}

func (t *Pooled) LargeObjects() pgx.LargeObjects {
	if t.start(t.ctx) != nil {
		return pgx.LargeObjects{} // there is nothing to do with them
	}
	return t.begun.LargeObjects()
}
