package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/nameindex"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// preload reads the hashes of all IDs beside the writer, so that the first search for an older ID neither
// waits for them nor delays others. After a failure the first search tries again.
func (f *file) preload(ctx context.Context) {
	var loaded nameindex.Index
	last := int64(-1)
	err := f.readers.Read(ctx, func(r *read.Reader) error {
		return r.Each("SELECT "+format.SegmentColumns+" FROM onceward_segments ORDER BY first", func(v []driver.Value) error {
			run, first, err := nameindex.RunAfter(last, v)
			if err == nil && ctx.Err() != nil {
				err = ctx.Err()
			}
			last = first
			loaded.AddRun(run)
			return err
		})
	})
	if err != nil || last < 0 {
		return
	}
	_ = f.writer.do(ctx, func(b *batch) error {
		b.segments.Take(&loaded, last)
		_, err := b.candidates(journal.Ref{}) // with the later ones
		return err
	})
}
