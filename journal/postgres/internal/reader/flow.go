package reader

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// GetFlow returns the whole flow, or journal.ErrNotFound.
func (read Reader) GetFlow(ctx context.Context, ref journal.Ref) (f journal.Flow, err error) {
	err = read(ctx, func(row record.Scanner) error {
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
	if err := read.addSteps(ctx, flows); err != nil {
		return journal.Flow{}, err
	}
	return flows[0], nil
}

// addSteps reads the steps of flows.
func (read Reader) addSteps(ctx context.Context, flows []journal.Flow) error {
	of := make(map[int64]*journal.Flow, len(flows))
	handles := make([]int64, 0, len(flows))
	for i := range flows {
		of[flows[i].Handle] = &flows[i]
		handles = append(handles, flows[i].Handle)
	}
	return read(ctx, func(row record.Scanner) error {
		var flow int64
		step, err := record.ScanStep(row, &flow)
		if err == nil {
			of[flow].Steps = append(of[flow].Steps, step)
		}
		return err
	}, record.StepsOfFlows, handles)
}

// ListFlows yields flows in pages: between two of them nothing is open, so that a slow reader pins nothing.
func (read Reader) ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return store.FlowsInPages(filter, pageSize, func(where string, args []any) (page []journal.Flow, err error) {
		query, args := flowPage(where, args)
		err = read(ctx, func(row record.Scanner) error {
			f, err := record.ScanFlow(row)
			page = append(page, f)
			return err
		}, query, args...)
		if err == nil && len(page) > 0 {
			err = read.addSteps(ctx, page)
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
