package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/inplace"
	"github.com/onceward/onceward/journal/sqlite/internal/localdb"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
	"github.com/onceward/onceward/journal/sqlite/internal/statements"
)

// localTx is a transaction of the journal's database.
type localTx struct {
	tx    *sql.Tx
	files *inplace.Files // nil: it is the application's own
}

// Tx makes a journal.Tx of an application's transaction on the journal's database. It must write: use BEGIN
// IMMEDIATE, or write before the journal does.
func Tx(tx *sql.Tx) journal.Tx { return rows.Tx(tx) }

func (t localTx) Driver() any                    { return t.tx }
func (t localTx) Rollback(context.Context) error { return t.tx.Rollback() }

// Commit fails, like the writer's, if the file is not in its place any more. SQLite checks deferred foreign keys there.
func (t localTx) Commit(context.Context) error {
	err := t.tx.Commit()
	if conn.OfOneStatement(err) {
		return fmt.Errorf("%w (%w)", journal.ErrTxAborted, err)
	}
	if err != nil || t.files == nil {
		return err
	}
	return t.files.StillInPlace()
}

// ours is the driver's transaction, if tx is one of this package's.
func ours(tx journal.Tx) (*sql.Tx, error) {
	if tx != nil {
		if t, ok := tx.Driver().(*sql.Tx); ok && t != nil {
			return t, nil
		}
	}
	return nil, fmt.Errorf("sqlite: the transaction is %T, and not one of BeginTx or sqlite.Tx", tx)
}

// within is the driver's transaction, if in is one of this package's, and the context for statements in it.
func (j *logJournal) within(ctx context.Context, in journal.Tx) (context.Context, *sql.Tx, error) {
	tx, err := ours(in)
	if t, ok := in.(localTx); ok && t.files == j.file.writer.files {
		ctx = localdb.OnHandle(ctx)
	}
	return ctx, tx, err
}

// BeginTx starts a transaction like BeginSQL, for journal.LocalFlows.
func (j *logJournal) BeginTx(ctx context.Context) (journal.Tx, error) {
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
func (j *logJournal) BeginSQL(ctx context.Context) (*sql.Tx, error) {
	if err := j.writable(ctx); err != nil {
		return nil, err
	}
	var tx *sql.Tx
	err := j.file.writer.inItsTurn(ctx, func() (err error) {
		tx, err = j.file.local.Begin(ctx, j.file.path, j.file.writer.local, j.file.writer.timeout)
		return err
	})
	return tx, conn.Explain(j.file.path, "begin a local step", err)
}

// ApplyFlowTx records ev, of kind FlowEventRecord or FlowEventEnqueue, within tx. It must be a transaction of the
// journal's database: one of BeginTx, or Tx of the application's own on the same file. The event is recorded if tx
// commits. If
// SQLite rolled back the writes of tx (https://sqlite.org/lang_transaction.html, "Response To Errors Within A
// Transaction"), the error says so, and nothing is recorded.
func (j *logJournal) ApplyFlowTx(ctx context.Context, local journal.Tx, ev journal.FlowEvent) (journal.FlowResult, error) {
	if err := j.writable(ctx); err != nil {
		return journal.FlowResult{}, err
	}
	if err := store.CheckApplyFlowTx(ev); err != nil {
		return journal.FlowResult{}, err
	}
	ctx, tx, err := j.within(ctx, local)
	if err != nil {
		return journal.FlowResult{}, err
	}
	if ev.Kind == journal.FlowEventEnqueue {
		result, err := j.enqueueFlow(ctx, tx, ev)
		return result, conn.Explain(j.file.path, "enqueue a flow", err)
	}
	if err := cmp.Or(localdb.IsOpen(ctx, tx), j.file.writer.files.InPlace()); err != nil {
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
		if _, err := tx.ExecContext(ctx, statements.InsertStep+statements.StepValues, format.StepArgs(f.Handle, step)...); err != nil {
			return journal.FlowResult{}, conn.Explain(j.file.path, "record a local step", err)
		}
	}
	return journal.FlowResult{Flow: next, Decision: decision}, nil
}

// enqueueFlow records a new flow in a transaction of the application's.
func (j *logJournal) enqueueFlow(ctx context.Context, tx *sql.Tx, ev journal.FlowEvent) (journal.FlowResult, error) {
	if err := j.writes(ctx, tx); err != nil {
		return journal.FlowResult{}, err
	}
	f, err := flowIn(ctx, tx, ev)
	if err != nil {
		return journal.FlowResult{}, err
	}
	next, decision, err := journal.NextFlow(f, false, ev)
	if err != nil || decision != journal.Recorded {
		return journal.FlowResult{Flow: next, Decision: decision}, err
	}
	if err := tx.QueryRowContext(ctx, statements.NewestFlow).Scan(&next.Handle); err != nil {
		return journal.FlowResult{}, err
	}
	next.Handle++
	// All or nothing: a caller that gives up in this moment gets no error for a flow that is there.
	whole := context.WithoutCancel(ctx)
	if _, err := tx.ExecContext(whole, statements.InsertFlow, statements.InsertFlowArgs(&next)...); err != nil {
		return journal.FlowResult{}, err
	}
	if err := leaveMark(whole, tx, ev.At); err != nil {
		return journal.FlowResult{}, err
	}
	j.file.takeInSoon()
	return journal.FlowResult{Flow: next, Decision: decision}, nil
}

// flowIn reads the flow that ev names, as tx sees it.
func flowIn(ctx context.Context, tx *sql.Tx, ev journal.FlowEvent) (journal.Flow, error) {
	where, args := " WHERE handle = ?", []any{ev.Handle}
	if ev.Handle == 0 {
		where, args = " WHERE id = ? AND scope = ? AND parent = ?", []any{ev.Ref.ID, ev.Ref.Scope, ev.Ref.Parent}
	}
	var f journal.Flow
	err := takeRow(tx.QueryRowContext(ctx, read.SelectFlow+where, args...), 14, func(v []driver.Value) (err error) {
		f, err = format.ReadFlow(v)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return f, err
}

// takeRow calls f for a row of so many columns.
func takeRow(row *sql.Row, columns int, f func([]driver.Value) error) error {
	v, into := make([]any, columns), make([]any, columns)
	for i := range v {
		into[i] = &v[i]
	}
	if err := row.Scan(into...); err != nil {
		return err
	}
	values := make([]driver.Value, columns)
	for i := range v {
		values[i] = v[i]
	}
	return conn.Take(f, values)
}
