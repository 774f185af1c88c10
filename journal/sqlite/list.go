package sqlite

import (
	"context"
	"iter"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/list"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// pageSize is how many operations List reads at a time.
const pageSize = 200

// List yields operations without bodies, in pages. Nothing is open between two pages, so a slow reader pins
// nothing.
func (j *logJournal) List(ctx context.Context, filter journal.Filter) iter.Seq2[journal.Operation, error] {
	return func(yield func(journal.Operation, error) bool) {
		if err := j.open(ctx); err != nil {
			yield(journal.Operation{}, err)
			return
		}
		if err := j.takenIn(ctx); err != nil {
			yield(journal.Operation{}, err)
			return
		}
		at := list.New(filter, j.file.writer.segments.Key)
		store.InPages(filter, pageSize, func(size int) ([]journal.Operation, bool, error) {
			err := ctx.Err()
			if err == nil && j.closed.Load() {
				err = journal.ErrClosed
			}
			if err == nil {
				at, err = j.readPage(ctx, at, size)
			}
			if err != nil {
				return nil, false, err
			}
			return at.Ops, at.Last, nil
		})(yield)
	}
}

// readPage reads the page after at.
func (j *logJournal) readPage(ctx context.Context, at *list.Page, size int) (*list.Page, error) {
	next := new(list.Page)
	err := j.file.readers.Read(ctx, func(r *read.Reader) error {
		*next = *at
		return r.Snapshot(func() error {
			if err := next.Seek(r); err != nil {
				return err
			}
			recent, err := j.file.writer.unfolded(r)
			if err != nil {
				return err
			}
			return next.ReadSpans(r, recent, size)
		})
	})
	return next, err
}
