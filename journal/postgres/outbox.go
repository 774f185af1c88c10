package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/check"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

var (
	_ journal.Outbox     = (*laneJournal)(nil)
	_ journal.LocalFlows = (*laneJournal)(nil)
)

// BeginTx starts a transaction of the journal's database on one of the journal's own connections. Its Driver is a
// pgx.Tx. It is durable once it commits, regardless of its settings. Its Commit resets settings of the session, except
// behind a pooler (Options.Pooled). The application's own tables may be in that database. At most four are open at a
// time, and further callers wait. Transactions of the application's own connections work too: see Pgx and SQL.
func (j *laneJournal) BeginTx(ctx context.Context) (journal.Tx, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	a := &j.app
	a.once.Do(func() {
		if a.pool, a.err = j.dialer.Pool(context.WithoutCancel(ctx), appConns, asMade); a.err == nil {
			context.AfterFunc(j.background, a.pool.Close)
		}
	})
	if a.err != nil {
		return nil, explain("begin a transaction", a.err)
	}
	tx, err := a.pool.BeginTx(ctx, pgx.TxOptions{
		BeginQuery:  connection.BeginSQL + "; SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')",
		CommitQuery: j.forget() + connection.SoundCommit + "; COMMIT"})
	if err != nil {
		return nil, explainTheirs(ctx, "begin a transaction", err)
	}
	return apptx.NewOwn(tx), nil
}

// forget returns the statements that reset the session after a transaction of the application's. The next one on that
// connection may be another tenant's, and begins as the first did. Behind a pooler forget returns "": the sessions
// are the pooler's, and its clients must not change them.
func (j *laneJournal) forget() string {
	if j.opts.Pooled {
		return ""
	}
	return "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; "
}

// theirs returns a tx in a transaction of the application's. It sees the caller's clock, but moves nothing by it.
func (j *laneJournal) theirs(ctx context.Context, tx journal.Tx, ev journal.Event) (*tx, error) {
	c, err := apptx.RunnerOf(tx)
	if err != nil {
		return nil, err
	}
	if err := j.checkTime(ev.At); err != nil {
		return nil, err
	}
	t := j.inTheir(ctx, c, ev)
	t.own, _ = tx.(*apptx.Own)
	return t, nil
}

func (j *laneJournal) inTheir(ctx context.Context, c apptx.Runner, ev journal.Event) *tx {
	return &tx{j: j, ctx: ctx, conn: c, at: ev.At, alive: make(map[string]bool), clock: j.seen(ev.At)}
}

// seen returns the journal's clock once it has seen the caller's. If the caller's clock has jumped, only the returned
// copy sees it.
func (j *laneJournal) seen(at time.Time) store.Clock {
	clock, still := j.clock.Glance(at)
	if !still {
		clock.See(at)
	}
	return clock
}

// EnqueueTx applies ev, of kind EventEnqueue, within tx, a transaction of the journal's database: by Pgx, SQL or
// BeginTx. It is recorded if tx commits. Until then, other callers of that name wait for the end of tx. The server may
// refuse it in a transaction that is serializable, or of repeatable reads (SQLSTATE 40001). Then repeat the whole
// transaction.
func (j *laneJournal) EnqueueTx(ctx context.Context, tx journal.Tx, ev journal.Event) (journal.Result, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return journal.Result{}, err
	}
	defer leave()
	if err := store.CheckEnqueue(ev); err != nil {
		return journal.Result{}, err
	}
	if err := j.fleet.Refusal(); err != nil {
		return journal.Result{}, err
	}
	t, err := j.theirs(ctx, tx, ev)
	if err != nil {
		return journal.Result{}, err
	}
	if err := t.isOurs(); err != nil {
		return journal.Result{}, explainTheirs(ctx, "enqueue", err)
	}
	for {
		result, err := t.enqueue(ev)
		if !errors.Is(err, errLost) {
			return result, explainTheirs(ctx, "enqueue", err)
		}
	}
}

// isOurs returns an error if the transaction is not one of the journal's database, or if that has gone back. The
// application connects by itself. If it reaches a server that this process has not checked, isOurs checks the server
// of the journal's own connections again. If the two differ, it returns errElsewhere.
func (t *tx) isOurs() error {
	sql, args := t.ours()
	return t.isOursBy(t.conn.QueryRow(t.ctx, sql, args...))
}

// ours returns the statement whose row isOursBy decides by.
func (t *tx) ours() (sql string, args []any) {
	return t.j.in("SELECT coalesce(restored, 'the server was promoted to ' || promoted), " + t.j.startHere() + " FROM {{schema}}.journal WHERE id = $1"), []any{t.j.fleet.ID()}
}

// startHere is an expression for when the server was started, as far as it can tell.
func (j *laneJournal) startHere() string {
	if j.fleet.Started() == nil {
		return noStart
	}
	return check.StartSQL
}

// noStart is the expression for a server that does not tell when it was started.
const noStart = "NULL::timestamptz"

// isOursBy is isOurs by the row of ours.
func (t *tx) isOursBy(row record.Scanner) error {
	var why *string
	var started *time.Time
	err := row.Scan(&why, &started)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: the transaction is not one of the journal's database", ErrDeployment)
	case err != nil:
		return err
	case why != nil:
		return fmt.Errorf("%w: %s", journal.ErrRestored, *why)
	case started == nil || check.SameStart(started, t.j.fleet.Started()):
		return nil
	}
	own, err := t.j.fleet.Dial(t.ctx, nil)
	if err != nil {
		return err
	}
	connection.HangUp(own)
	if err := t.j.fleet.Refusal(); err != nil {
		return err
	}
	if !check.SameStart(started, t.j.fleet.Started()) {
		return errElsewhere
	}
	return nil
}

// errElsewhere means that the commit may be lost, with a server that the others have left.
var errElsewhere = errors.New("postgres: enqueue: the transaction is on another server than the journal's connections reach: roll it back, and begin another")

func (t *tx) enqueue(ev journal.Event) (journal.Result, error) {
	r, err := t.find(&ev)
	if err != nil {
		return journal.Result{}, err
	}
	result, _, err := t.next(r, ev)
	return result, err
}

// errHandler means that the function of a DeliverTx failed. Its error is returned instead.
var errHandler = errors.New("postgres: the handler failed")

// errSlowHandler says what to do about a handler that took too long. Otherwise each retry of the delivery would end
// the same way.
var errSlowHandler = errors.New("postgres: deliver: the handler took longer than 25 seconds, and nothing is recorded: let it only write, and do slow work elsewhere")

// DeliverTx applies ev, of kind EventDeliver, and calls f to write in the same transaction, by a Tx whose Driver is a
// pgx.Tx. After f, it resets settings of the session, such as a role or a search_path, except behind a pooler
// (Options.Pooled). After 25 seconds f's context ends and nothing is recorded. Four handlers run at a time, and delay
// only each other. f is called again, in another transaction, if the first could not be committed, as after a broken
// connection. Until f has returned, other callers of that operation wait, and so does Close.
func (j *laneJournal) DeliverTx(ctx context.Context, ev journal.Event, f func(context.Context, journal.Tx) error) (result journal.Result, err error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return journal.Result{}, err
	}
	defer leave()
	if err := store.CheckDeliver(ev); err != nil {
		return journal.Result{}, err
	}
	if err := j.left.Wait(ctx, ev.Ref); err != nil {
		return journal.Result{}, err
	}
	var failed error
	var panicked any
	err = j.tx(ctx, ask{doing: "deliver", at: ev.At, handles: true}, func(t *tx) error {
		failed = nil
		r, err := t.find(&ev)
		if err != nil {
			return err
		}
		if result, _, err = t.next(r, ev); err != nil || result.Decision != journal.Recorded {
			return err
		}
		panicked, failed = t.handle(ctx, f)
		if failed != nil || panicked != nil {
			return errHandler
		}
		return nil
	})
	switch {
	case panicked != nil:
		panic(panicked)
	case failed != nil:
		return journal.Result{}, failed
	case err != nil:
		return journal.Result{}, err
	}
	return result, nil
}

// handle calls f within the transaction. It returns the value of a panic of f, so that the transaction is ended
// first.
func (t *tx) handle(ctx context.Context, f func(context.Context, journal.Tx) error) (panicked any, err error) {
	own := t.conn.(*pgx.Conn) // the slow path's
	ctx, cancel := context.WithTimeoutCause(ctx, t.j.pace.handler, errSlowHandler)
	defer cancel()
	const name = "onceward_handler"
	forget := t.j.forget()
	if !asMade(own) {
		forget = "" // the rest may need its settings
	}
	// It writes to the application's tables, and may wait for their locks longer than for a row of the journal.
	inner, err := own.BeginTx(ctx, pgx.TxOptions{
		BeginQuery: "SET LOCAL lock_timeout = '" + connection.SlowLock + "'; SAVEPOINT " + name,
		// Its settings must neither weaken the commit nor last.
		CommitQuery: "RELEASE SAVEPOINT " + name + "; " + forget + connection.SoundCommit})
	if err != nil {
		return nil, err
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		if panicked = recover(); panicked == nil { // its goroutine ends, as in a test that fails
			connection.HangUp(own)
		}
	}()
	err = f(ctx, Pgx(inner))
	returned = true
	if over := ctx.Err(); over != nil && (err == nil || errors.Is(err, over)) {
		err = context.Cause(ctx)
	}
	if err == nil {
		if err = inner.Commit(ctx); err != nil {
			err = fmt.Errorf("postgres: deliver: the handler has ended the transaction, or a statement of it has failed: %w", explainTheirs(ctx, "deliver", err))
		}
	}
	return nil, err
}

// ApplyFlowTx records ev, of kind FlowEventRecord or FlowEventEnqueue, within tx, a transaction of the journal's database:
// by Pgx, SQL or BeginTx. It is recorded if tx commits. After a record, no other process takes the flow over until tx has
// ended. After an enqueue of a new flow, other callers of its name wait for that.
func (j *laneJournal) ApplyFlowTx(ctx context.Context, tx journal.Tx, ev journal.FlowEvent) (journal.FlowResult, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return journal.FlowResult{}, err
	}
	defer leave()
	if err := store.CheckApplyFlowTx(ev); err != nil {
		return journal.FlowResult{}, err
	}
	t, err := j.theirs(ctx, tx, journal.Event{At: ev.At})
	if err != nil {
		return journal.FlowResult{}, err
	}
	if ev.Kind == journal.FlowEventEnqueue {
		result, err := t.enqueueFlow(ev)
		return result, explainTheirs(ctx, "enqueue a flow", err)
	}
	f, err := t.findFlow(ev, " FOR SHARE") // concurrent steps don't wait for each other
	if err != nil {
		return journal.FlowResult{}, explainTheirs(ctx, "record a local step", err)
	}
	result, err := t.nextFlow(f, ev)
	return result, explainTheirs(ctx, "record a local step", err)
}

// enqueueFlow records a new flow in a transaction of the application's.
func (t *tx) enqueueFlow(ev journal.FlowEvent) (journal.FlowResult, error) {
	if err := t.j.fleet.Refusal(); err != nil {
		return journal.FlowResult{}, err
	}
	if err := t.isOurs(); err != nil {
		return journal.FlowResult{}, err
	}
	for {
		f, err := t.findFlow(ev, "")
		if err != nil {
			return journal.FlowResult{}, err
		}
		next, decision, err := journal.NextFlow(f, false, ev)
		if err == nil && decision == journal.Recorded {
			next, err = t.storeFlow(f, next)
		}
		if !errors.Is(err, errLost) { // another transaction has enqueued it meanwhile
			return journal.FlowResult{Flow: next, Decision: decision}, err
		}
	}
}
