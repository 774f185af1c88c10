package flow

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// LocalStep makes a step of writes to the application's own tables, in the journal's database. The writes of do by tx and
// the step's record are one commit, so the writes are there if and only if the step is done.
//
// TX is the type of the database's transactions, and follows from do: *sql.Tx with journal/sqlite, pgx.Tx with
// journal/postgres. Any other type is [ErrStep], and so is a journal that lies in no database.
//
// do must not commit or roll back. After an error it is called again, with another transaction. The step fails if a
// statement made the database roll the transaction back, even if do returns nil. SQLite does so for a write that its
// context interrupts. While tx is open, no process records anything in SQLite, so keep do short. A call in do is
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

// WithLocalUndo sets a function that undoes a step, of any kind, by writes to the application's own tables in the
// journal's database. The writes of undo by tx and the record of the undo are one commit. TX, tx and ctx are as in
// [LocalStep], and [WithTransaction] holds too. Otherwise WithLocalUndo works like [WithUndo].
//
// The undo of a flow's first step is the last write of a flow that is given up.
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

// WithTransaction makes a [LocalStep], or a local undo, use a transaction of the application's own. begin starts it on the journal's
// database, by any connection. It returns it as a journal.Tx by the store's package (sqlite.Tx, postgres.Pgx,
// postgres.SQL). LocalStep commits it, or rolls it back. Any other step without [WithLocalUndo] ignores this option.
func WithTransaction[T any](begin func(context.Context) (journal.Tx, error)) StepOption[T] {
	return func(o *stepOptions[T]) { o.begin = begin }
}

// inTransaction calls write, and commits its writes with the step's record. The commit includes the records that
// ride, because the writes may depend on them.
func (st *step) inTransaction(ctx context.Context, begin func(context.Context) (journal.Tx, error), write func(context.Context, journal.Tx) ([]byte, error)) ([]byte, error) {
	r := st.run
	local, ok := r.store.(machine.LocalFlows)
	if !ok {
		return nil, st.misuse("the journal lies in no database", nil)
	}
	if begin == nil {
		begin = local.BeginTx
	}
	tx, err := begin(ctx)
	if err != nil {
		return nil, &Error{Step: st.name, Kind: onceward.ErrJournal, Err: fmt.Errorf("begin a transaction: %w", err)}
	}
	defer grace.Rollback(ctx, tx)
	result, err := write(seam.InTransaction(ctx), tx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.seq++
	rec := journal.StepRecord{Seq: r.seq, Kind: st.kind, Name: st.name, Position: st.position, Parallel: st.parallel, Result: result, At: r.core.Now()}
	noted := len(r.flow.Steps)
	ev := r.underClaim(machine.FlowEvent{Kind: machine.FlowEventRecord, Steps: append(slices.Clone(r.flow.Steps[r.saved:]), rec)})
	r.mu.Unlock()
	commit := func() error {
		if err := st.Begin(); err != nil {
			return err
		}
		defer st.Begun()
		res, err := local.ApplyFlowTx(ctx, tx, ev)
		switch {
		case err != nil:
			return err
		case res.Decision != machine.Recorded:
			return errors.New("the claim is no longer held")
		}
		return tx.Commit(ctx)
	}
	switch err := commit(); {
	case errors.Is(err, journal.ErrTxAborted):
		return nil, err // write overlooked the error of its statement, and the next run would again
	case err != nil:
		st.doubted = true // the next run reads whether it landed
		return nil, &Error{Step: st.name, Kind: onceward.ErrJournal, Err: err}
	}
	st.recorded = true
	r.mu.Lock()
	r.flow.Steps = append(r.flow.Steps, rec)
	if len(r.flow.Steps) == noted+1 {
		noted++ // else parallel steps have noted others meanwhile
	}
	r.saved = max(r.saved, noted)
	r.mu.Unlock()
	r.stepped(rec)
	return result, nil
}
