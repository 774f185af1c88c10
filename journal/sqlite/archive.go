package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// archive writes the operations that ev would reap, at most limit, from rows of their own and from blocks. An
// operation that cannot be read whole stays, and is damaged.
func (j *logJournal) archive(ctx context.Context, ev journal.Event, blocks, handles []int64, limit int) (archived store.Archived, damaged, err error) {
	if j.file.archive == nil {
		return nil, nil, nil
	}
	var ops []journal.Operation
	take := func(handle int64, op journal.Operation, err error) error {
		if errors.Is(err, format.ErrDamaged) {
			damaged = fmt.Errorf("operation %d is passed over: %w", handle, err)
			return nil
		}
		if err != nil || len(ops) == limit {
			return err
		}
		if _, decision, _ := journal.Next(op, false, ev); decision == journal.Recorded {
			ops = append(ops, op)
		}
		return nil
	}
	err = j.file.readers.Read(ctx, func(r *read.Reader) error {
		for _, first := range blocks {
			err := r.Each("SELECT first, data FROM onceward_blocks WHERE first = ?", func(v []driver.Value) error {
				data, _ := v[1].([]byte)
				return format.EachOfBlock(first, data, format.All, func(k *format.Record) error {
					op, err := k.Operation()
					return take(k.Op.Handle, op, err)
				})
			}, first)
			if err != nil {
				return err
			}
		}
		for _, handle := range handles {
			op, found, err := read.Row(r, "o.handle = ?", handle)
			if !found && err == nil {
				continue
			}
			if err := take(handle, op, err); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	archived, err = j.file.archive.Write(ops)
	if err != nil {
		return nil, nil, fmt.Errorf("journal %s: %w", j.file.path, err)
	}
	return archived, damaged, nil
}
