package main

import (
	"context"
	"database/sql"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
)

// stepArgs are the arguments for a job that makes one step, and inserts the next step's job in the completing
// transaction.
type stepArgs struct {
	Flow     string  `json:"flow"`
	Step     int     `json:"step"`
	Previous receipt `json:"previous"`
}

func (stepArgs) Kind() string { return "step" }

type stepWorker struct {
	river.WorkerDefaults[stepArgs]
	*riverEngine
}

func openRiverStep(ctx context.Context, p place) (engine, error) {
	return openRiver(ctx, p, func(flow string) river.JobArgs { return stepArgs{Flow: flow} }, func(e *riverEngine) *river.Workers {
		workers := river.NewWorkers()
		river.AddWorker(workers, &stepWorker{riverEngine: e})
		return workers
	})
}

func (w *stepWorker) Work(ctx context.Context, job *river.Job[stepArgs]) error {
	flow, step := job.Args.Flow, steps[job.Args.Step]
	r, err := w.call(ctx, flow, step, job.Args.Previous, stepKey(flow, step))
	if err != nil {
		return err
	}
	next := stepArgs{Flow: flow, Step: job.Args.Step + 1, Previous: r}
	last := next.Step == len(steps)
	if err := w.inTx(ctx, func(tx *sql.Tx) error {
		if _, err := river.JobCompleteTx[*riversqlite.Driver](ctx, tx, job); err != nil || last {
			return err
		}
		_, err := w.client.InsertTx(ctx, tx, next, nil)
		return err
	}); err != nil {
		return err
	}
	if last {
		w.end(flow)
	}
	return nil
}
