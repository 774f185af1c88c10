package apptx

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errEndedBySQL is the error of a statement behind a COMMIT or ROLLBACK that was sent as a statement. The server would commit it
// alone.
var errEndedBySQL = errors.New("postgres: a statement has ended the transaction, so another one would be committed alone: neither commit nor roll back by SQL")

// endedBySQL reports whether a statement has ended the transaction that a connection was in.
func endedBySQL(conn *pgx.Conn) bool { return conn.PgConn().TxStatus() == 'I' && !conn.IsClosed() }

// guarded is a transaction that sends no statement after a statement has ended it. One goroutine uses it.
type guarded struct {
	pgx.Tx
	over bool // the driver knows that it is over
}

func (t *guarded) ended() error {
	if !t.over && endedBySQL(t.Tx.Conn()) {
		return errEndedBySQL
	}
	return nil
}

func (t *guarded) Commit(ctx context.Context) error {
	if err := t.ended(); err != nil {
		return err
	}
	t.over = true
	return t.Tx.Commit(ctx)
}

func (t *guarded) Rollback(ctx context.Context) error {
	t.over = true
	return t.Tx.Rollback(ctx)
}

func (t *guarded) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.ended(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.Tx.Exec(ctx, sql, args...)
}

func (t *guarded) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.ended(); err != nil {
		return failedRows{err}, err
	}
	return t.Tx.Query(ctx, sql, args...)
}

func (t *guarded) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.ended(); err != nil {
		return failedRows{err}
	}
	return t.Tx.QueryRow(ctx, sql, args...)
}

func (t *guarded) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.ended(); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return t.Tx.SendBatch(ctx, b)
}

func (t *guarded) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, from pgx.CopyFromSource) (int64, error) {
	if err := t.ended(); err != nil {
		return 0, err
	}
	return t.Tx.CopyFrom(ctx, table, columns, from)
}

func (t *guarded) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.ended(); err != nil {
		return nil, err
	}
	return t.Tx.Begin(ctx)
}
