package apptx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// Pooled is a transaction that begins with its first statement: for the application a pgx.Tx, and for the journal a Runner. One goroutine uses it.
type Pooled struct {
	ctx    context.Context // of Begin
	pooled *pgxpool.Conn
	conn   *pgx.Conn
	simple bool             // its connection has the simple protocol, and so a statement may be several
	begun  pgx.Tx           // as the driver has it; nil if BEGIN is not sent yet
	first  *First           // goes between BEGIN and the first statement; nil for none
	last   *pgx.QueuedQuery // goes with COMMIT, and divides by zero if COMMIT must not be done; nil for none
	failed error            // why no statement is sent any more
	over   atomic.Bool      // the pool has the connection again

	opts             pgx.TxOptions
	opening, closing []string // statements that follow BEGIN, and those before COMMIT
}

// First is a statement that has to succeed before any other one of its transaction.
type First struct {
	SQL  string
	Args []any
	// Failed is called if it fails, or if the connection breaks before it is done. The transaction has not begun then. Failed
	// may do in it what the statement should have done, and return nil. Its error is the one of the statement behind it.
	Failed func(context.Context, error) error
}

var _ pgx.Tx = (*Pooled)(nil)

// NewPooled returns a transaction that is not begun yet, on a connection that goes back to its pool at the end.
func NewPooled(ctx context.Context, conn *pgxpool.Conn, mode pgx.QueryExecMode) *Pooled {
	return &Pooled{ctx: ctx, pooled: conn, conn: conn.Conn(), simple: mode == pgx.QueryExecModeSimpleProtocol}
}

// NewOwn is NewPooled for a transaction of read committed rows. It sends further statements after BEGIN, and before COMMIT.
func NewOwn(ctx context.Context, conn *pgxpool.Conn, opening, closing []string) *Pooled {
	t := NewPooled(ctx, conn, conn.Conn().Config().DefaultQueryExecMode)
	t.opts, t.opening, t.closing = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, opening, closing
	return t
}

// errEndedBySQL is the error of a statement behind a COMMIT or ROLLBACK that was sent as a statement. The server would commit it
// alone.
var errEndedBySQL = errors.New("postgres: a statement has ended the transaction, so another one would be committed alone: neither commit nor roll back by SQL")

// endedBySQL reports whether a statement has ended the transaction that a connection was in.
func endedBySQL(conn *pgx.Conn) bool { return conn.PgConn().TxStatus() == 'I' && !conn.IsClosed() }

// errEnded is why a receipt can't be completed that goes with COMMIT.
var errEnded = errors.New("postgres: receive a request: the transaction that reserved the key was ended before its answer was recorded; the answer is not kept")

// ErrFailedBefore wraps the error that has ended a transaction: it sends nothing any more.
var ErrFailedBefore = errors.New("a statement of the transaction has failed before")

// BeginsWith reports whether a statement is sent with the next one, the first of the transaction.
func (t *Pooled) BeginsWith(first *First) bool {
	if t.begun != nil || t.first != nil || t.failed != nil || t.over.Load() {
		return false
	}
	t.first = first
	return true
}

// Defers reports whether a statement is sent with COMMIT, or before it with the next one.
func (t *Pooled) Defers(sql string, args []any) bool {
	if t.begun == nil || t.last != nil || t.over.Load() {
		return false
	}
	t.last = &pgx.QueuedQuery{SQL: sql, Arguments: args}
	return true
}

// send sends the statements that are due, and the given ones behind them. The caller reads the results of these.
func (t *Pooled) send(ctx context.Context, behind ...*pgx.QueuedQuery) (pgx.BatchResults, error) {
	switch {
	case t.over.Load():
		return nil, pgx.ErrTxClosed
	case t.failed != nil:
		return nil, fmt.Errorf("%w: %w", ErrFailedBefore, t.failed)
	case t.begun != nil && t.last == nil && endedBySQL(t.conn): // else the statement before COMMIT says so
		return nil, errEndedBySQL
	}
	b := new(pgx.Batch)
	begins, first, last := t.begun == nil, t.first, t.last
	t.first, t.last = nil, nil
	if begins {
		b.BeginTx(t.opts)
		for _, sql := range t.opening {
			b.Queue(sql)
		}
	}
	if first != nil {
		b.Queue(first.SQL, first.Args...)
	}
	if last != nil {
		b.Queue(last.SQL, last.Arguments...)
	}
	before := b.Len()
	for _, q := range behind {
		b.Queue(q.SQL, q.Arguments...)
	}
	results := t.conn.SendBatch(ctx, b)
	done := 0
	for ; done < before; done++ {
		_, err := results.Exec()
		if err == nil {
			continue
		}
		_ = results.Close()
		switch {
		case last != nil && pgerr.Code(err) == pgerr.DivisionByZero:
			err = errEnded
		case first != nil && ctx.Err() == nil && (done > 0 || t.broke(err)):
			if err = t.insteadOf(ctx, first, err); err == nil {
				return t.send(ctx, behind...)
			}
		}
		if begins { // else the server has broken the transaction off
			t.failed = err
		}
		return nil, err
	}
	if begins {
		t.begun = results.Tx()
	}
	return results, nil
}

// broke reports whether the connection broke. The driver also closes it if it can't encode an argument.
func (t *Pooled) broke(err error) bool {
	var unsent pgx.ErrPreprocessingBatch
	return t.conn.IsClosed() && !(errors.As(err, &unsent) && strings.Contains(unsent.Error(), "(build)")) // its words, without a type
}

// insteadOf calls first.Failed in a transaction that is not begun.
func (t *Pooled) insteadOf(ctx context.Context, first *First, err error) error {
	if !t.conn.IsClosed() {
		if _, err := t.conn.Exec(ctx, "rollback"); err != nil {
			return err
		}
	}
	return first.Failed(ctx, err)
}

// Start sends the statements that are due before any other.
func (t *Pooled) Start(ctx context.Context) error {
	if t.begun != nil && t.last == nil && t.failed == nil && !t.over.Load() && !endedBySQL(t.conn) {
		return nil
	}
	results, err := t.send(ctx)
	if err != nil {
		return err
	}
	return results.Close()
}

// Driver returns the transaction as the application has it.
func (t *Pooled) Driver() any { return t }

// Commit sends BEGIN too if no statement was sent, so that it fails on a dead connection. If the statement
// fails that goes with COMMIT, the server skips COMMIT.
func (t *Pooled) Commit(ctx context.Context) error {
	if t.over.Load() {
		return pgx.ErrTxClosed
	}
	defer t.release()
	var last []*pgx.QueuedQuery
	for _, sql := range append(slices.Clone(t.closing), "commit") {
		last = append(last, &pgx.QueuedQuery{SQL: sql})
	}
	results, err := t.send(ctx, last...)
	if err != nil {
		return committed(err)
	}
	var tag pgconn.CommandTag
	for range last {
		if tag, err = results.Exec(); err != nil {
			break
		}
	}
	if err == nil && tag.String() == "ROLLBACK" {
		err = pgx.ErrTxCommitRollback
	}
	if closing := results.Close(); err == nil {
		err = closing
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

// alone reports whether a statement is sent by itself: no other is due, or it can't be in a batch with one.
func (t *Pooled) alone(sql string, args []any) bool {
	if t.begun != nil && t.last == nil || sql == "" || t.simple {
		return true
	}
	return slices.ContainsFunc(args, func(arg any) bool {
		switch arg.(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			return true
		case pgx.NamedArgs, pgx.StrictNamedArgs:
		case pgx.QueryRewriter: // it gets the connection, and may write by it
			return true
		}
		return false
	})
}

// QueryRow is one round trip, also if it is the first statement.
func (t *Pooled) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if t.alone(sql, args) {
		if err := t.Start(ctx); err != nil {
			return failedRows{err}
		}
		return t.conn.QueryRow(ctx, sql, args...)
	}
	results, err := t.send(ctx, &pgx.QueuedQuery{SQL: sql, Arguments: args})
	if err != nil {
		return failedRows{err}
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

// failedRows are the rows of a statement that was not sent. Callers may overlook the error of Query, since rows have it too.
type failedRows struct{ err error }

func (failedRows) Close()                                       {}
func (failedRows) Next() bool                                   { return false }
func (failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (failedRows) RawValues() [][]byte                          { return nil }
func (failedRows) Conn() *pgx.Conn                              { return nil }
func (failedRows) TypeMap() *pgtype.Map                         { return nil }
func (r failedRows) Err() error                                 { return r.err }
func (r failedRows) Scan(...any) error                          { return r.err }
func (r failedRows) Values() ([]any, error)                     { return nil, r.err }

// batchRows are the last rows of a batch. Their end is the batch's.
type batchRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error
}

func (r *batchRows) Close() {
	r.Rows.Close()
	r.err = r.results.Close()
}

func (r *batchRows) Next() bool {
	next := r.Rows.Next()
	if !next {
		r.Close()
	}
	return next
}

func (r *batchRows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil { // the driver has closed the rows
		r.Close()
	}
	return err
}

func (r *batchRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// Exec is one round trip, also if it is the first statement and has arguments.
func (t *Pooled) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if len(args) == 0 || t.alone(sql, args) { // without arguments it may be several statements
		if err := t.Start(ctx); err != nil {
			return pgconn.CommandTag{}, err
		}
		return t.conn.Exec(ctx, sql, args...)
	}
	results, err := t.send(ctx, &pgx.QueuedQuery{SQL: sql, Arguments: args})
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	if closing := results.Close(); err == nil {
		err = closing
	}
	return tag, err
}

// Query is one round trip, also if it is the first statement.
func (t *Pooled) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if t.alone(sql, args) {
		if err := t.Start(ctx); err != nil {
			return failedRows{err}, err
		}
		return t.conn.Query(ctx, sql, args...)
	}
	results, err := t.send(ctx, &pgx.QueuedQuery{SQL: sql, Arguments: args})
	if err != nil {
		return failedRows{err}, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return rows, err
	}
	return &batchRows{Rows: rows, results: results}, nil
}

func (t *Pooled) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.Start(ctx); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return t.conn.SendBatch(ctx, b)
}

func (t *Pooled) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, from pgx.CopyFromSource) (int64, error) {
	if err := t.Start(ctx); err != nil {
		return 0, err
	}
	return t.conn.CopyFrom(ctx, table, columns, from)
}

func (t *Pooled) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.Start(ctx); err != nil {
		return nil, err
	}
	return t.conn.Prepare(ctx, name, sql)
}

// Conn begins the transaction, since its caller may use the connection by itself. If that fails, Conn closes the connection, so
// that nothing is written outside of the transaction.
func (t *Pooled) Conn() *pgx.Conn {
	if !t.over.Load() && t.Start(t.ctx) != nil {
		connection.HangUp(t.conn)
	}
	return t.conn
}

// Begin begins a savepoint.
func (t *Pooled) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.Start(ctx); err != nil {
		return nil, err
	}
	return t.begun.Begin(ctx)
}

func (t *Pooled) LargeObjects() pgx.LargeObjects {
	if err := t.Start(t.ctx); err != nil {
		b := new(pgx.Batch)
		b.BeginTx(pgx.TxOptions{})
		return pgx.FailedBatchResults(b, err).Tx().LargeObjects() // of a transaction that is over
	}
	return t.begun.LargeObjects()
}
