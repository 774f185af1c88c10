package postgres

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

var _ journal.HookKeeper = (*laneJournal)(nil)

// KeepHook records whether outcomes are for a hook, in a transaction of its own. It needs version 3 of the schema (Migrate).
func (j *laneJournal) KeepHook(ctx context.Context, kept bool) error {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return j.tx(ctx, ask{doing: "record that there is a hook"}, func(t *tx) error {
		var there bool
		if err := t.one(hasColumn).Scan(&there); err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("%w: it can't record that there is a hook: run postgres.Migrate, or set Options.Migrate", journal.ErrVersion)
		}
		_, err := t.exec("UPDATE "+j.schema+".journal SET hooked = $1", kept)
		return err
	})
}

// Before version 3 of the schema, the row has no such column.
const (
	hasColumn = "SELECT to_jsonb(j) ? 'hooked' FROM {{schema}}.journal j"
	hasHook   = "SELECT coalesce((to_jsonb(j) ->> 'hooked')::boolean, false) FROM {{schema}}.journal j"
)

// HasHook reports whether outcomes are for a hook.
func (j *laneJournal) HasHook(ctx context.Context) (kept bool, err error) {
	err = j.reader()(ctx, func(row record.Scanner) error { return row.Scan(&kept) }, hasHook)
	return kept, err
}
