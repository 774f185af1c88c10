package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// archive writes those of the operations with a row of their own, and of those in
// blocks, that ev would reap, at most limit.
func (j *Journal) archive(ctx context.Context, ev journal.Event, blocks, handles []int64, limit int) (store.Archived, error) {
	if j.file.archive == nil {
		return nil, nil
	}
	var ops []journal.Operation
	take := func(op journal.Operation, err error) error {
		if err != nil || len(ops) == limit {
			return err
		}
		if _, decision, _ := journal.Next(op, false, ev); decision == journal.Recorded {
			ops = append(ops, op)
		}
		return nil
	}
	err := j.file.readers.read(ctx, func(r *reader) error {
		for _, first := range blocks {
			err := r.each("SELECT first, data FROM onceward_blocks WHERE first = ?", func(v []driver.Value) error {
				data, _ := v[1].([]byte)
				return format.EachOfBlock(first, data, format.All, func(k *format.Record) error { return take(k.Operation()) })
			}, first)
			if err != nil {
				return err
			}
		}
		for _, handle := range handles {
			op, found, err := getRow(r, "o.handle = ?", handle)
			if !found && err == nil {
				continue
			}
			if err := take(op, err); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	archived, err := j.file.archive.Write(ops)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", j.file.path, err)
	}
	return archived, nil
}
