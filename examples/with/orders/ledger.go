package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/sqlite"
)

// database has the journal and the ledger, so that a LocalStep's entry and its record are one commit. Both kinds of
// journal have these methods.
type database interface {
	journal.Journal
	BeginTx(ctx context.Context) (journal.Tx, error)
	GetFlow(ctx context.Context, ref journal.Ref) (journal.Flow, error)
	ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error]
}

// openDatabase opens DATABASE_URL by PostgreSQL, for processes on several machines, or else JOURNAL, a SQLite file. A
// service has one.
func openDatabase(ctx context.Context) (database, error) {
	if url := os.Getenv("DATABASE_URL"); url != "" {
		return postgres.Open(ctx, url, postgres.Options{Deployment: "orders", Migrate: true})
	}
	return sqlite.Open(cmp.Or(os.Getenv("JOURNAL"), "orders.db"), sqlite.Options{})
}

func makeLedger(ctx context.Context, j database) error {
	return inTx(ctx, j, `CREATE TABLE IF NOT EXISTS ledger (
		payment   TEXT NOT NULL,
		reverses  INTEGER NOT NULL, -- 1: it takes the payment's entry back
		reference TEXT NOT NULL,
		cents     BIGINT NOT NULL,
		PRIMARY KEY (payment, reverses))`)
}

// book writes in a journal transaction: a *sql.Tx, or a pgx.Tx.
func book(ctx context.Context, tx any, payment, reference string, cents int64) error {
	return execute(ctx, tx, "INSERT INTO ledger VALUES ($1, 0, $2, $3)", payment, reference, cents)
}

// reverse is an undo: its entry and its record are two commits, so that a crash between
// them has it run again, and the second time it changes nothing.
func (s *service) reverse(ctx context.Context, payment string) error {
	return inTx(ctx, s.journal, `INSERT INTO ledger SELECT payment, 1, reference, -cents FROM ledger WHERE payment = $1 AND reverses = 0
		ON CONFLICT DO NOTHING`, payment)
}

func inTx(ctx context.Context, j database, statement string, args ...any) error {
	tx, err := j.BeginTx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := execute(ctx, tx.Driver(), statement, args...); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func execute(ctx context.Context, tx any, statement string, args ...any) (err error) {
	switch tx := tx.(type) {
	case *sql.Tx:
		_, err = tx.ExecContext(ctx, statement, args...)
	case pgx.Tx:
		_, err = tx.Exec(ctx, statement, args...)
	default:
		err = fmt.Errorf("a transaction of another database: %T", tx)
	}
	return err
}
