package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"iter"
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/format"
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

// ListFlows yields flows in pages: between two of them nothing is open, so that a
// slow reader pins nothing.
func (j *Journal) ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return func(yield func(journal.Flow, error) bool) {
		var due, handle int64 = -1 << 63, 0
		for left := filter.Limit; ; {
			size := pageSize
			if filter.Limit > 0 {
				size = min(size, left)
			}
			query, args := flowPage(filter, due, handle, size)
			var page []journal.Flow
			err := j.open(ctx)
			if err == nil {
				err = j.flushFlows()
			}
			if err == nil {
				err = j.file.readers.read(ctx, func(r *reader) error { return r.flows(query, args, &page) })
			}
			if err != nil {
				yield(journal.Flow{}, err)
				return
			}
			for _, f := range page {
				if !yield(f, nil) {
					return
				}
				due, handle = f.DueAt.UnixMilli(), f.Handle
			}
			left -= len(page)
			if len(page) < size || left == 0 {
				return
			}
		}
	}
}

// flowPage is the query for the flows after the given one.
func flowPage(f journal.FlowFilter, due, handle int64, size int) (string, []any) {
	var where []string
	var args []any
	if len(f.States) > 0 {
		var either []string
		for _, state := range f.States {
			either = append(either, fmt.Sprintf("state = %d", state))
		}
		where = append(where, "("+strings.Join(either, " OR ")+")")
	}
	if f.Scope != nil {
		where, args = append(where, "scope = ?"), append(args, *f.Scope)
	}
	if len(f.Functions) > 0 {
		var either []string
		for _, function := range f.Functions {
			either = append(either, "function = ? AND version = ?")
			args = append(args, function.Name, function.Version)
		}
		where = append(where, "("+strings.Join(either, " OR ")+")")
	}
	order := "handle"
	if f.ByDue {
		where, args = append(where, "state = 2", "(due_at, handle) > (?, ?)"), append(args, due, handle)
		order = "due_at, handle"
	} else {
		where, args = append(where, "handle > ?"), append(args, handle)
	}
	return selectFlow + " WHERE " + strings.Join(where, " AND ") + " ORDER BY " + order + " LIMIT ?", append(args, int64(size))
}

// flows reads a page, without inputs and results.
func (r *reader) flows(query string, args []any, page *[]journal.Flow) error {
	err := r.each(query, func(v []driver.Value) error {
		f, err := format.ReadFlow(v)
		f.Input = nil
		*page = append(*page, f)
		return err
	}, args...)
	for i := range *page {
		if err == nil {
			err = r.stepsOf(&(*page)[i])
		}
		for k := range (*page)[i].Steps {
			(*page)[i].Steps[k].Result = nil
		}
	}
	return err
}
