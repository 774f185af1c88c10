package sqlite

import (
	"context"
	"database/sql/driver"
	"iter"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// GetFlow returns the whole flow, or journal.ErrNotFound.
func (j *logJournal) GetFlow(ctx context.Context, ref journal.Ref) (f journal.Flow, err error) {
	if err := j.open(ctx); err != nil {
		return journal.Flow{}, err
	}
	if err := j.flushFlows(); err != nil {
		return journal.Flow{}, err
	}
	err = j.file.readers.Read(ctx, func(r *read.Reader) error {
		f = journal.Flow{}
		err := r.Each(read.SelectFlow+" WHERE id = ? AND scope = ? AND parent = ?", func(v []driver.Value) (err error) {
			f, err = format.ReadFlow(v)
			return err
		}, ref.ID, ref.Scope, ref.Parent)
		if err != nil {
			return err
		}
		return r.StepsOf(&f)
	})
	if err == nil && f.Handle == 0 {
		err = journal.ErrNotFound
	}
	if err != nil {
		return journal.Flow{}, err
	}
	return f, nil
}

// ListFlows yields flows in pages. Nothing is open between two pages, so a slow reader pins nothing.
func (j *logJournal) ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return store.FlowsInPages(filter, pageSize, func(where string, args []any) (page []journal.Flow, err error) {
		if err := j.open(ctx); err != nil {
			return nil, err
		}
		if err := j.flushFlows(); err != nil {
			return nil, err
		}
		err = j.file.readers.Read(ctx, func(r *read.Reader) error {
			page, err = r.Flows(read.SelectFlow+where, args)
			return err
		})
		return page, err
	})
}
