package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// preload reads the hashes of all IDs beside the writer, so that whoever is the first to
// ask for an ID that is not new does not wait for it, nor holds up the others. What fails
// here is tried again by the first who asks.
func (f *file) preload(ctx context.Context) {
	var loaded segments
	last := int64(-1)
	err := f.readers.read(ctx, func(r *reader) error {
		return r.each("SELECT "+format.SegmentColumns+" FROM onceward_segments ORDER BY first", func(v []driver.Value) error {
			run, first, err := runAfter(last, v)
			if err == nil && ctx.Err() != nil {
				err = ctx.Err()
			}
			last = first
			loaded.addRun(run)
			return err
		})
	})
	if err != nil || last < 0 {
		return
	}
	_ = f.writer.do(ctx, func(b *batch) error {
		b.segments.take(loaded.runs, last)
		_, err := b.candidates(journal.Ref{}) // with what came since
		return err
	})
}

// take is for what was read up to the segment that begins with last, unless something
// was read before.
func (s *segments) take(runs [][]uint64, last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded < 0 {
		s.runs, s.loaded = runs, last
	}
}
