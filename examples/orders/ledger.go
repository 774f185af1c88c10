package main

import (
	"context"
	"database/sql"

	"github.com/onceward/onceward/journal/sqlite"
)

// The ledger lies in the journal's file, so that a LocalStep's entry and its record are
// one commit.
func makeLedger(ctx context.Context, j *sqlite.Journal) error {
	return inTx(ctx, j, `CREATE TABLE IF NOT EXISTS ledger (
		payment   TEXT NOT NULL,
		reverses  INTEGER NOT NULL, -- 1: it takes the payment's entry back
		reference TEXT NOT NULL,
		cents     INTEGER NOT NULL,
		PRIMARY KEY (payment, reverses))`)
}

func book(ctx context.Context, tx *sql.Tx, payment, reference string, cents int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?, 0, ?, ?)", payment, reference, cents)
	return err
}

// reverse is an undo: its entry and its record are two commits, so that a crash between
// them has it run again, and the second time it changes nothing.
func (s *service) reverse(ctx context.Context, payment string) error {
	return inTx(ctx, s.journal, `INSERT INTO ledger SELECT payment, 1, reference, -cents FROM ledger WHERE payment = ? AND reverses = 0
		ON CONFLICT DO NOTHING`, payment)
}

func inTx(ctx context.Context, j *sqlite.Journal, statement string, args ...any) error {
	tx, err := j.BeginSQL(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
		return err
	}
	return tx.Commit()
}
