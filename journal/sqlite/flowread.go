package sqlite

import (
	"context"
	"database/sql/driver"
	"iter"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// GetFlow returns the whole flow, or journal.ErrNotFound.
func (j *Journal) GetFlow(ctx context.Context, ref journal.Ref) (f journal.Flow, err error) {
	if err := j.open(ctx); err != nil {
		return journal.Flow{}, err
	}
	if err := j.flushFlows(); err != nil {
		return journal.Flow{}, err
	}
	err = j.file.readers.read(ctx, func(r *reader) error {
		f = journal.Flow{}
		err := r.each(selectFlow+" WHERE id = ? AND scope = ? AND parent = ?", func(v []driver.Value) (err error) {
			f, err = format.ReadFlow(v)
			return err
		}, ref.ID, ref.Scope, ref.Parent)
		if err != nil {
			return err
		}
		return r.stepsOf(&f)
	})
	if err == nil && f.Handle == 0 {
		err = journal.ErrNotFound
	}
	if err != nil {
		return journal.Flow{}, err
	}
	return f, nil
}

func (r *reader) stepsOf(f *journal.Flow) error {
	return r.each(selectSteps, func(v []driver.Value) error {
		step, err := format.ReadStep(f.Handle, v)
		f.Steps = append(f.Steps, step)
		return err
	}, f.Handle)
}

// ListFlows yields flows in pages. Nothing is open between two pages, so a slow reader pins nothing.
func (j *Journal) ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return store.FlowsInPages(filter, pageSize, func(where string, args []any) (page []journal.Flow, err error) {
		if err := j.open(ctx); err != nil {
			return nil, err
		}
		if err := j.flushFlows(); err != nil {
			return nil, err
		}
		err = j.file.readers.read(ctx, func(r *reader) error {
			page, err = r.flows(selectFlow+where, args)
			return err
		})
		return page, err
	})
}

// flows reads a page.
func (r *reader) flows(query string, args []any) (page []journal.Flow, err error) {
	err = r.each(query, func(v []driver.Value) error {
		f, err := format.ReadFlow(v)
		page = append(page, f)
		return err
	}, args...)
	for i := range page {
		if err == nil {
			err = r.stepsOf(&page[i])
		}
	}
	return page, err
}
