package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/onceward/onceward/journal"
)

// localDatabases are database/sql handles on the files that are open, by path: for
// transactions that hold the application's writes beside a step's record. They are
// opened when they are needed.
type localDatabase struct {
	once sync.Once
	db   *sql.DB
	err  error
}

// BeginTx starts a transaction of the journal's database that holds its write lock
// from the beginning (BEGIN IMMEDIATE), in WAL mode with synchronous=FULL. The
// application's own tables may be in that database. Nothing is recorded by anybody
// until it is ended: keep it short, and ask the journal for nothing in it.
func (j *Journal) BeginTx(ctx context.Context) (*sql.Tx, error) {
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	db, err := j.file.local.open(j.file.path, j.file.writer.timeout.Milliseconds())
	if err != nil {
		return nil, explain(j.file.path, "open for local steps", err)
	}
	tx, err := db.BeginTx(ctx, nil)
	return tx, explain(j.file.path, "begin a local step", err)
}

func (d *localDatabase) open(path string, busyMilliseconds int64) (*sql.DB, error) {
	d.once.Do(func() {
		settings := url.Values{"_txlock": {"immediate"}, "_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busyMilliseconds), "synchronous(FULL)", "wal_autocheckpoint(0)", "trusted_schema(OFF)", "foreign_keys(ON)",
		}}
		d.db, d.err = sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+settings.Encode())
	})
	return d.db, d.err
}

// close ends the connections, and keeps others from being made.
func (d *localDatabase) close() error {
	d.once.Do(func() { d.err = journal.ErrClosed })
	if d.db == nil {
		return nil
	}
	return d.db.Close()
}

// ApplyFlowTx records ev, of kind FlowRecord, within tx, which must be a transaction
// of the journal's database: one of BeginTx, or the application's own on the same
// file. It is recorded if tx commits.
func (j *Journal) ApplyFlowTx(ctx context.Context, tx *sql.Tx, ev journal.FlowEvent) (journal.FlowResult, error) {
	if err := j.open(ctx); err != nil {
		return journal.FlowResult{}, err
	}
	if ev.Kind != journal.FlowRecord || ev.At.IsZero() {
		return journal.FlowResult{}, &journal.FlowEventError{Kind: ev.Kind, Reason: "ApplyFlowTx needs a record and the asker's clock"}
	}
	f, err := flowIn(ctx, tx, ev)
	if err != nil {
		return journal.FlowResult{}, explain(j.file.path, "record a local step; is the transaction one of the journal's database?", err)
	}
	next, decision, err := journal.NextFlow(f, false, ev)
	if err != nil || decision != journal.Recorded {
		return journal.FlowResult{Flow: next, Decision: decision}, err
	}
	for _, step := range ev.Steps {
		if _, err := tx.ExecContext(ctx, insertStep+stepValues, stepArgs(f.Handle, step)...); err != nil {
			return journal.FlowResult{}, explain(j.file.path, "record a local step", err)
		}
	}
	return journal.FlowResult{Flow: next, Decision: decision}, nil
}

// flowIn reads the flow that ev names, as tx sees it.
func flowIn(ctx context.Context, tx *sql.Tx, ev journal.FlowEvent) (journal.Flow, error) {
	where, args := " WHERE handle = ?", []any{ev.Handle}
	if ev.Handle == 0 {
		where, args = " WHERE id = ? AND scope = ? AND parent = ?", []any{ev.Ref.ID, ev.Ref.Scope, ev.Ref.Parent}
	}
	v := make([]any, 14)
	into := make([]any, len(v))
	for i := range v {
		into[i] = &v[i]
	}
	if err := tx.QueryRowContext(ctx, selectFlow+where, args...).Scan(into...); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Flow{}, nil
		}
		return journal.Flow{}, err
	}
	values := make([]driver.Value, len(v))
	for i := range v {
		values[i] = v[i]
	}
	var f journal.Flow
	err := take(func(values []driver.Value) (err error) {
		f, err = readFlow(values)
		return err
	}, values)
	return f, err
}
