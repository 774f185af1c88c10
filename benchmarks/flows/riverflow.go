package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
)

// flowArgs are the arguments of a job that makes all steps, and keeps their results in the application's table.
type flowArgs struct {
	Flow string `json:"flow"`
}

func (flowArgs) Kind() string { return "flow" }

type flowWorker struct {
	river.WorkerDefaults[flowArgs]
	*riverEngine
}

func openRiverFlow(ctx context.Context, p place) (engine, error) {
	return openRiver(ctx, p, func(flow string) river.JobArgs { return flowArgs{flow} }, func(e *riverEngine) *river.Workers {
		workers := river.NewWorkers()
		river.AddWorker(workers, &flowWorker{riverEngine: e})
		return workers
	})
}

func (w *flowWorker) Work(ctx context.Context, job *river.Job[flowArgs]) error {
	flow := job.Args.Flow
	known, err := w.recorded(ctx, flow)
	if err != nil {
		return err
	}
	var r receipt
	for i, step := range steps {
		previous, ok := r, false
		if r, ok = known[step]; ok {
			continue
		}
		if r, err = w.call(ctx, flow, step, previous, stepKey(flow, step)); err != nil {
			return err
		}
		if err := w.inTx(ctx, func(tx *sql.Tx) error {
			if err := record(ctx, tx, flow, step, r); err != nil || i < len(steps)-1 {
				return err
			}
			_, err := river.JobCompleteTx[*riversqlite.Driver](ctx, tx, job)
			return err
		}); err != nil {
			return err
		}
	}
	w.end(flow)
	return nil
}

func record(ctx context.Context, tx *sql.Tx, flow, step string, r receipt) error {
	result, err := json.Marshal(r)
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO step VALUES (?, ?, ?)", flow, step, result)
	}
	return err
}

// recorded are the steps that an earlier attempt of the job has made.
func (w *flowWorker) recorded(ctx context.Context, flow string) (known map[string]receipt, err error) {
	rows, err := w.db.QueryContext(ctx, "SELECT name, result FROM step WHERE flow = ?", flow)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Err(), rows.Close()) }()
	known = map[string]receipt{}
	for rows.Next() {
		var step string
		var result []byte
		var r receipt
		if err := rows.Scan(&step, &result); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(result, &r); err != nil {
			return nil, err
		}
		known[step] = r
	}
	return known, nil
}
