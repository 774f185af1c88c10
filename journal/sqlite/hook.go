package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
)

var _ journal.HookKeeper = (*logJournal)(nil)

// KeepHook records whether outcomes are for a hook, in a transaction of its own. The first call makes the table.
func (j *logJournal) KeepHook(ctx context.Context, kept bool) error {
	tx, err := j.BeginTx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after Commit it does nothing
	t, err := ours(tx)
	if err == nil {
		_, err = t.ExecContext(ctx, schema.HookTable)
	}
	if err == nil {
		_, err = t.ExecContext(ctx, "INSERT OR REPLACE INTO onceward_hook VALUES (1, ?1)", kept)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	return conn.Explain(j.file.path, "record that there is a hook", err)
}

// HasHook reports whether outcomes are for a hook.
func (j *logJournal) HasHook(ctx context.Context) (kept bool, err error) {
	err = j.file.readers.Read(ctx, func(r *read.Reader) error {
		made := false
		err := r.Each("SELECT 1 FROM sqlite_schema WHERE name = 'onceward_hook'", func([]driver.Value) error {
			made = true
			return nil
		})
		if kept = false; err != nil || !made {
			return err
		}
		return r.Each("SELECT kept FROM onceward_hook", func(v []driver.Value) error {
			kept = v[0] == int64(1)
			return nil
		})
	})
	return kept, conn.Explain(j.file.path, "read whether there is a hook", err)
}
