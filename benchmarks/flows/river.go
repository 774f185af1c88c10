package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

const riverModule = "github.com/riverqueue/river"

// riverEngine is what both ways have in common to run flows by River's jobs.
type riverEngine struct {
	place
	db     *sql.DB
	client *river.Client[*sql.Tx]
	first  func(flow string) river.JobArgs // for the flow's first job

	mu    sync.Mutex
	ended map[string]chan struct{} // by flow
}

// openRiver has workers begin and end the flows.
func openRiver(ctx context.Context, p place, first func(flow string) river.JobArgs, workers func(*riverEngine) *river.Workers) (engine, error) {
	// One connection, as riversqlite's documentation recommends.
	db, err := openDatabase(p.folder, 1)
	if err != nil {
		return nil, err
	}
	e := &riverEngine{place: p, db: db, first: first, ended: map[string]chan struct{}{}}
	if err := e.start(ctx, workers(e)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return e, nil
}

// River waits for 100 ms between two fetches by default, and for up to a second where a transaction inserted a job.
const (
	riverCooldown = time.Millisecond
	riverPoll     = 5 * time.Millisecond
)

func (e *riverEngine) start(ctx context.Context, workers *river.Workers) error {
	driver := riversqlite.New(e.db)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if _, err := e.db.ExecContext(ctx, `CREATE TABLE step (flow TEXT, name TEXT, result BLOB NOT NULL, PRIMARY KEY (flow, name)) WITHOUT ROWID`); err != nil {
		return err
	}
	if e.client, err = river.NewClient(driver, &river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: e.atOnce}},
		FetchCooldown: riverCooldown, FetchPollInterval: riverPoll, Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		return err
	}
	return e.client.Start(context.WithoutCancel(ctx))
}

func (e *riverEngine) run(ctx context.Context, flow string) error {
	ended := make(chan struct{})
	e.mu.Lock()
	e.ended[flow] = ended
	e.mu.Unlock()
	if _, err := e.client.Insert(ctx, e.first(flow), nil); err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end tells who waits for the flow. The end is durable.
func (e *riverEngine) end(flow string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ended, ok := e.ended[flow]; ok {
		close(ended)
		delete(e.ended, flow)
	}
}

// inTx commits what write writes.
func (e *riverEngine) inTx(ctx context.Context, write func(*sql.Tx) error) error {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if err := write(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (e *riverEngine) close() error {
	return errors.Join(e.client.Stop(context.Background()), e.db.Close())
}
