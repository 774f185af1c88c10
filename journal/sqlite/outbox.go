package sqlite

import (
	"context"
	"database/sql"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
)

// Tx makes a journal.Tx from an application's transaction on the journal's database. The transaction must write: use
// BEGIN IMMEDIATE, or write before the journal does.
func Tx(tx *sql.Tx) journal.Tx { return rows.Tx(tx) }

// BeginSQL starts a transaction on the journal's database, with the write lock from the beginning (BEGIN IMMEDIATE), in
// WAL mode with synchronous=FULL. The application's own tables may be in the same database. No caller records anything
// until the transaction ends: keep it short, and do not call the journal inside. A transaction begins after this
// process's waiting transactions. The -wal file grows with a transaction's writes.
func (j *Journal) BeginSQL(ctx context.Context) (*sql.Tx, error) {
	tx, err := j.BeginTx(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Driver().(*sql.Tx), nil
}

// EnqueueTx applies ev, of kind EventEnqueue, within tx: a transaction from BeginTx, or the application's own on the
// journal's file, by Tx. EnqueueTx needs the file's write lock, which tx has after a write, or from the beginning with
// BEGIN IMMEDIATE. A transaction with a read before another one's commit cannot get the lock (SQLITE_BUSY_SNAPSHOT) and
// must begin anew. No other caller records anything until tx ends.
//
// If SQLite rolled back tx's writes, the error says so, and nothing is recorded. A transaction on a
// connection with synchronous=NORMAL may be lost, as a whole, with the machine's power.
func (j *Journal) EnqueueTx(ctx context.Context, tx journal.Tx, ev machine.Event) (machine.Result, error) {
	return j.store.EnqueueTx(ctx, tx, ev)
}

// DeliverTx applies ev, of kind EventDeliver, in a transaction from BeginTx, and calls f to write there. The delivery is
// durable once DeliverTx returns. No other caller records anything meanwhile: f must be short,
// and must not call the journal.
func (j *Journal) DeliverTx(ctx context.Context, ev machine.Event, f func(context.Context, journal.Tx) error) (machine.Result, error) {
	return j.store.DeliverTx(ctx, ev, f)
}
