package flow

import (
	"context"
	"fmt"
	"reflect"

	"github.com/onceward/onceward/journal"
)

// LocalStep makes a step of writes to the application's own tables, in the journal's database. The writes of do by tx and
// the step's record are one commit, so the writes are there if and only if the step is done.
//
// TX is the database's transaction type, and follows from do: *sql.Tx with journal/sqlite and
// journal/mysql, pgx.Tx with journal/postgres. Any other type is [ErrStep], and so is a journal without a database.
//
// do must not commit or roll back. After an error do is called again, with another transaction. The step fails if a
// statement made the database roll the transaction back, even if do returns nil. SQLite does so if a context interrupts
// a write. While tx is open, no process records anything in SQLite, so keep do short. A call in do is
// [onceward.ErrOpenTransaction].
//
// The transaction is the journal's own, unless [WithTransaction] is given. Otherwise LocalStep works like [Step].
func LocalStep[T, TX any](ctx context.Context, name string, do func(ctx context.Context, tx TX) (T, error), options ...StepOption[T]) (T, error) {
	var o stepOptions[T]
	for _, option := range options {
		option(&o)
	}
	return makeStep(ctx, name, journal.StepLocal, false, func(ctx context.Context, st *step) ([]byte, error) {
		return st.inTransaction(ctx, o.begin, func(ctx context.Context, tx journal.Tx) ([]byte, error) {
			own, err := driver[TX](st, tx)
			if err != nil {
				return nil, err
			}
			result, err := do(ctx, own)
			if err != nil {
				return nil, err
			}
			return st.encode(result)
		})
	}, options)
}

// driver returns the driver's own transaction.
func driver[TX any](st *step, tx journal.Tx) (TX, error) {
	own, ok := tx.Driver().(TX)
	if !ok {
		return own, st.misuse(fmt.Sprintf("the journal's transactions are %T, and no %s", tx.Driver(), reflect.TypeFor[TX]()), nil)
	}
	return own, nil
}

// WithLocalUndo sets a function which undoes any kind of step, by writes to the application's own tables in the
// journal's database. The writes that undo makes by tx and the undo's record are one commit. TX, tx and ctx are as in
// [LocalStep], and [WithTransaction] holds too. Otherwise WithLocalUndo works like [WithUndo].
//
// If a flow is given up, the first step's undo is the flow's last write.
func WithLocalUndo[T, TX any](undo func(ctx context.Context, tx TX, result T) error) StepOption[T] {
	return func(o *stepOptions[T]) {
		o.undoLocal = func(ctx context.Context, st *step, tx journal.Tx, result T) error {
			own, err := driver[TX](st, tx)
			if err != nil {
				return err
			}
			return undo(ctx, own, result)
		}
	}
}

// WithTransaction makes a [LocalStep], or a local undo, use the application's own transaction. The function begin starts
// the transaction on the journal's database, by any connection. The result is a journal.Tx from the store's package
// (sqlite.Tx, postgres.Pgx, postgres.SQL). LocalStep commits the transaction, or rolls it back. Any other step without
// [WithLocalUndo] ignores this option.
func WithTransaction[T any](begin func(context.Context) (journal.Tx, error)) StepOption[T] {
	return func(o *stepOptions[T]) { o.begin = begin }
}
