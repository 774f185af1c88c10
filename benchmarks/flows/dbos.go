package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // what DBOS needs to understand SQLite's errors
)

const dbosModule = "github.com/dbos-inc/dbos-transact-golang"

// dbosEngine runs each flow as a workflow in this process, which is what DBOS does fastest: no queue lies between.
type dbosEngine struct {
	place
	db  *sql.DB
	ctx dbos.Context
}

// dbosConnections is what DBOS opens by itself.
const dbosConnections = 8

func openDBOS(ctx context.Context, p place) (engine, error) {
	// Our own database, since the one that DBOS would open has synchronous=NORMAL.
	db, err := openDatabase(p.folder, dbosConnections)
	if err != nil {
		return nil, err
	}
	e := &dbosEngine{place: p, db: db}
	e.ctx, err = dbos.NewContext(ctx, dbos.Config{AppName: "flows", SQLiteSystemDB: db, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		dbos.RegisterWorkflow(e.ctx, e.booking, dbos.WithWorkflowName("booking"))
		err = dbos.Launch(e.ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return e, nil
}

func (e *dbosEngine) booking(ctx dbos.Context, flow string) (r receipt, err error) {
	for _, step := range steps {
		previous := r
		if r, err = dbos.RunAsStep(ctx, func(ctx context.Context) (receipt, error) {
			return e.call(ctx, flow, step, previous, stepKey(flow, step))
		}, dbos.WithStepName(step)); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (e *dbosEngine) run(_ context.Context, flow string) error {
	handle, err := dbos.RunWorkflow(e.ctx, e.booking, flow, dbos.WithWorkflowID(flow))
	if err != nil {
		return err
	}
	_, err = handle.GetResult()
	return err
}

func (e *dbosEngine) close() error {
	return errors.Join(dbos.Shutdown(e.ctx, time.Minute), e.db.Close())
}
