package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// Pgx makes a journal.Tx from the application's transaction on the journal's database: for Client.Enqueue, a flow's
// local step, and Journal.EnqueueTx. The Driver is tx.
func Pgx(tx pgx.Tx) journal.Tx { return apptx.FromPgx(tx) }

// SQL is Pgx for a database/sql transaction by pgx's driver (github.com/jackc/pgx/v5/stdlib). The Driver is tx.
func SQL(tx *sql.Tx) journal.Tx { return apptx.FromSQL(tx) }

// Begin returns a function for server.Options.Begin and consume.Options.Begin, which begins transactions in pool. BEGIN
// goes to the server with the reservation of a request's key, and the answer with COMMIT. So a request takes two round
// trips less than with pool.Begin and Pgx. A transaction's Driver is a pgx.Tx. The isolation level is the pool's default.
func Begin(pool *pgxpool.Pool) func(context.Context) (journal.Tx, error) {
	return func(ctx context.Context) (journal.Tx, error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, explainTheirs(ctx, "begin a transaction", err)
		}
		return apptx.NewPooled(ctx, conn), nil
	}
}

// explainTheirs is explain for statements in the application's transaction.
func explainTheirs(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("postgres: %s: the transaction was committed or rolled back before: begin another", doing)
	case ctx.Err() != nil && pgerr.Code(err) == "":
		return ctx.Err()
	case errors.Is(err, apptx.ErrFailedBefore):
		return fmt.Errorf("postgres: %s: %w", doing, err)
	case pgerr.Code(err) == pgerr.FailedTransaction:
		return fmt.Errorf("postgres: %s: %w", doing, journal.ErrTxAborted)
	}
	return explain(doing, err)
}
