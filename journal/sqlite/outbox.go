package sqlite

import (
	"context"
	"database/sql"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
)

// Tx makes a journal.Tx of an application's transaction on the journal's database. It must write: use BEGIN
// IMMEDIATE, or write before the journal does.
func Tx(tx *sql.Tx) journal.Tx { return rows.Tx(tx) }

// BeginSQL starts a transaction of the journal's database that holds its write lock from the beginning (BEGIN
// IMMEDIATE), in WAL mode with synchronous=FULL. The application's own tables may be in that database. No
// caller records anything until it ends: keep it short, and do not call the journal in it. A transaction
// begins after those of this process that already wait. The -wal file grows with the writes of one transaction.
func (j *Journal) BeginSQL(ctx context.Context) (*sql.Tx, error) {
	tx, err := j.BeginTx(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Driver().(*sql.Tx), nil
}

// EnqueueTx applies ev, of kind EventEnqueue, within tx: a transaction of BeginTx, or Tx of the application's
// own on the journal's file. It needs the file's write lock, which tx has after a write, or from the
// beginning with BEGIN IMMEDIATE. A transaction that has read before another one's commit cannot get it
// (SQLITE_BUSY_SNAPSHOT) and must begin anew. No other caller records anything until tx ends.
//
// If SQLite rolled back the writes of tx, the error says so, and nothing is recorded. A transaction on a
// connection with synchronous=NORMAL may be lost, as a whole, with the machine's power.
func (j *Journal) EnqueueTx(ctx context.Context, tx journal.Tx, ev machine.Event) (machine.Result, error) {
	return j.store.EnqueueTx(ctx, tx, ev)
}

// DeliverTx applies ev, of kind EventDeliver, in a transaction of BeginTx, and calls f to write in it. The
// delivery is durable once DeliverTx returns. No other caller records anything meanwhile: f must be short,
// and must not call the journal.
func (j *Journal) DeliverTx(ctx context.Context, ev machine.Event, f func(context.Context, journal.Tx) error) (machine.Result, error) {
	return j.store.DeliverTx(ctx, ev, f)
}
