package postgres

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// stepsOfFlows selects the steps of some flows, with their flow before them.
const stepsOfFlows = `SELECT flow, seq, kind, name, position, parallel, at, result, sum FROM {{schema}}.flow_steps WHERE flow = ANY($1) ORDER BY flow, seq`

// GetFlow returns the whole flow, or journal.ErrNotFound.
func (j *Journal) GetFlow(ctx context.Context, ref journal.Ref) (f journal.Flow, err error) {
	err = j.read(ctx, func(row record.Scanner) error {
		f, err = record.ScanFlow(row)
		return err
	}, record.SelectFlow+" WHERE identity = $1", record.Digest(ref))
	switch {
	case err != nil:
		return journal.Flow{}, err
	case f.Handle == 0:
		return journal.Flow{}, journal.ErrNotFound
	}
	flows := []journal.Flow{f}
	if err := j.addSteps(ctx, flows); err != nil {
		return journal.Flow{}, err
	}
	return flows[0], nil
}

// addSteps reads the steps of flows.
func (j *Journal) addSteps(ctx context.Context, flows []journal.Flow) error {
	of := make(map[int64]*journal.Flow, len(flows))
	handles := make([]int64, 0, len(flows))
	for i := range flows {
		of[flows[i].Handle] = &flows[i]
		handles = append(handles, flows[i].Handle)
	}
	return j.read(ctx, func(row record.Scanner) error {
		var flow int64
		step, err := record.ScanStep(row, &flow)
		if err == nil {
			of[flow].Steps = append(of[flow].Steps, step)
		}
		return err
	}, stepsOfFlows, handles)
}

// ListFlows yields flows in pages: between two of them nothing is open, so that a slow reader pins nothing.
func (j *Journal) ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return store.FlowsInPages(filter, pageSize, func(where string, args []any) (page []journal.Flow, err error) {
		query, args := flowPage(where, args)
		err = j.read(ctx, func(row record.Scanner) error {
			f, err := record.ScanFlow(row)
			page = append(page, f)
			return err
		}, query, args...)
		if err == nil && len(page) > 0 {
			err = j.addSteps(ctx, page)
		}
		return page, err
	})
}

// flowPage returns the query for a page. Names are bytes in this store.
func flowPage(where string, args []any) (string, []any) {
	for i, arg := range args {
		where = strings.Replace(where, "?", fmt.Sprintf("$%d", i+1), 1)
		if name, ok := arg.(string); ok {
			args[i] = []byte(name)
		}
	}
	return record.SelectFlow + where, args
}
