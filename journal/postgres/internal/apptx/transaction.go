package apptx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// Runner runs a transaction's statements: the journal's own connection, or an application's transaction.
type Runner interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// FromPgx returns the journal.Tx for a pgx transaction.
func FromPgx(tx pgx.Tx) journal.Tx { return pgxTx{tx} }

// FromSQL returns the journal.Tx for a database/sql transaction.
func FromSQL(tx *sql.Tx) journal.Tx { return sqlTx{tx} }

type pgxTx struct{ tx pgx.Tx }

func (t pgxTx) Driver() any                      { return t.tx }
func (t pgxTx) Commit(ctx context.Context) error { return committed(t.tx.Commit(ctx)) }

func (t pgxTx) Rollback(ctx context.Context) error {
	if err := t.tx.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}

// committed returns the error of a COMMIT. The server answers an aborted transaction's COMMIT by ROLLBACK, and refuses
// a statement before. It checks deferred constraints there, and rolls back if a row breaks one (class 23).
func committed(err error) error {
	switch {
	case errors.Is(err, pgx.ErrTxCommitRollback), strings.HasPrefix(pgerr.Code(err), "23"):
		return fmt.Errorf("%w (%w)", journal.ErrTxAborted, err)
	case pgerr.Code(err) == pgerr.FailedTransaction:
		return fmt.Errorf("%w (%w)", journal.ErrTxAborted, pgx.ErrTxCommitRollback)
	}
	return err
}

type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) Driver() any                  { return t.tx }
func (t sqlTx) Commit(context.Context) error { return committed(t.tx.Commit()) }

func (t sqlTx) Rollback(context.Context) error {
	if err := t.tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// RunnerOf returns the runner for tx's statements.
func RunnerOf(tx journal.Tx) (Runner, error) {
	switch t := tx.(type) {
	case *Pooled:
		return t, nil
	case pgxTx:
		if t.tx != nil {
			return t.tx, nil
		}
	case sqlTx:
		if t.tx != nil {
			return sqlConn(t), nil
		}
	}
	return nil, fmt.Errorf("postgres: the transaction is a %T: make it by postgres.Pgx, postgres.SQL or postgres.Begin, or by BeginTx", tx)
}

// sqlConn is a transaction of database/sql as a Runner.
type sqlConn struct{ tx *sql.Tx }

func (c sqlConn) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	result, err := c.tx.ExecContext(ctx, query, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	n, err := result.RowsAffected()
	return pgconn.NewCommandTag(fmt.Sprintf("ANY %d", n)), err
}

func (c sqlConn) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	rows, err := c.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return &sqlRows{rows: rows}, nil
}

func (c sqlConn) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return sqlRow{c.tx.QueryRowContext(ctx, query, args...)}
}

// SendBatch runs the statements one by one, as their results are read.
func (c sqlConn) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return &sqlBatch{ctx: ctx, conn: c, left: b.QueuedQueries}
}

// sqlRow says pgx.ErrNoRows.
type sqlRow struct{ row *sql.Row }

func (r sqlRow) Scan(dest ...any) error {
	err := r.row.Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return pgx.ErrNoRows
	}
	return err
}

// sqlRows are rows as pgx has them, as far as they are read here.
type sqlRows struct {
	pgx.Rows // nil: of the rest nothing is asked
	rows     *sql.Rows
}

func (r *sqlRows) Close()                 { _ = r.rows.Close() }
func (r *sqlRows) Err() error             { return r.rows.Err() }
func (r *sqlRows) Next() bool             { return r.rows.Next() }
func (r *sqlRows) Scan(dest ...any) error { return r.rows.Scan(dest...) }

// sqlBatch is a batch likewise.
type sqlBatch struct {
	pgx.BatchResults // nil

	ctx  context.Context
	conn sqlConn
	left []*pgx.QueuedQuery
}

func (b *sqlBatch) next() *pgx.QueuedQuery {
	q := b.left[0]
	b.left = b.left[1:]
	return q
}

func (b *sqlBatch) Exec() (pgconn.CommandTag, error) {
	q := b.next()
	return b.conn.Exec(b.ctx, q.SQL, q.Arguments...)
}

func (b *sqlBatch) Query() (pgx.Rows, error) {
	q := b.next()
	return b.conn.Query(b.ctx, q.SQL, q.Arguments...)
}

func (b *sqlBatch) QueryRow() pgx.Row {
	q := b.next()
	return b.conn.QueryRow(b.ctx, q.SQL, q.Arguments...)
}

// Close runs the statements whose results were not read.
func (b *sqlBatch) Close() error {
	for len(b.left) > 0 {
		if _, err := b.Exec(); err != nil {
			b.left = nil
			return err
		}
	}
	return nil
}
