package rows

import (
	"context"
	"os"
	"strings"

	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/schema"
	"github.com/onceward/onceward/journal/postgres/internal/server"
)

const (
	unlessRestored = "SELECT 1 / count(*) FROM (SELECT 1 FROM {{s}}.journal WHERE coalesce(restored, '') = $1 FOR UPDATE) j"
	// foldLanes keeps the clock of lanes that are not used any more in one row. A lane without a process has a margin only.
	foldLanes = `WITH gone AS (DELETE FROM {{s}}.lanes WHERE process IN (SELECT id FROM {{s}}.sessions WHERE buried_at < clock_timestamp() - interval '24 hours') OR process <> '' AND process NOT IN (SELECT id FROM {{s}}.sessions)
			RETURNING seq, last_at, jumped_at, least_margin, ahead_at)
		INSERT INTO {{s}}.lanes AS l (process, lane, seq, last_at, jumped_at, least_margin, ahead_at)
		SELECT '', 0, max(seq), max(last_at), (array_agg(jumped_at ORDER BY seq DESC))[1], coalesce(min(nullif(least_margin, 0)), 0), max(ahead_at) FROM gone HAVING count(*) > 0
		ON CONFLICT (process, lane) DO UPDATE SET seq = greatest(l.seq, excluded.seq), last_at = greatest(l.last_at, excluded.last_at),
			ahead_at = greatest(l.ahead_at, excluded.ahead_at), jumped_at = CASE WHEN excluded.seq > l.seq THEN excluded.jumped_at ELSE l.jumped_at END,
			least_margin = coalesce(least(nullif(l.least_margin, 0), nullif(excluded.least_margin, 0)), 0)`
	// removeDead removes sessions of the dead that no row names any more.
	removeDead = `DELETE FROM {{s}}.sessions d WHERE buried_at < clock_timestamp() - interval '24 hours'
		AND NOT EXISTS (SELECT 1 FROM {{s}}.operations WHERE holder = d.id) AND NOT EXISTS (SELECT 1 FROM {{s}}.lanes WHERE process = d.id)`
	// cutHandles raises a sequence above all handles that a copy can have given.
	cutHandles = "SELECT pg_catalog.setval('{{s}}.{{q}}'::pg_catalog.regclass, greatest((SELECT (epoch << 40) + 1 FROM {{s}}.journal), (SELECT last_value FROM {{s}}.{{q}}) + 1024), false)"
)

// Fenced implements fleet.Database.
func (d *Driver) Fenced(ctx context.Context, f func(context.Context, fleet.Tx) error) error {
	t, err := d.begin(ctx, ownWait, func(*pipeline) {})
	if err != nil {
		return err
	}
	defer t.Rollback()
	if err := f(t.ctx, t); err != nil {
		return meaning(err)
	}
	return t.commit(ctx, &pipeline{d: d}, commitQuietly)
}

// Living implements fleet.Database.
func (d *Driver) Living(ctx context.Context, ids []string) (living []string, err error) {
	err = d.pool.QueryRow(ctx, d.in("SELECT coalesce(array_agg(id), '{}') FROM {{s}}.sessions WHERE id = ANY($1) AND buried_at IS NULL"), ids).Scan(&living)
	return living, err
}

// Waits implements fleet.Database.
func (d *Driver) Waits(ctx context.Context, own string) (waits bool, err error) {
	err = d.pool.QueryRow(ctx, d.in("SELECT EXISTS (SELECT 1 FROM {{s}}.sessions h WHERE buried_at IS NULL AND process <> $1 AND "+server.LeaseOver+
		" AND (EXISTS (SELECT 1 FROM {{s}}.operations WHERE holder = h.id) OR EXISTS (SELECT 1 FROM {{s}}.flows WHERE state = 1 AND holder = h.id)))"), own).Scan(&waits)
	return waits, err
}

// Meaning implements fleet.Database.
func (d *Driver) Meaning(err error) error { return meaning(err) }

// Explain implements fleet.Database.
func (d *Driver) Explain(doing string, err error) error { return pgerr.Explain(doing, err) }

// FateOf implements fleet.Database.
func (d *Driver) FateOf(err error) fleet.Fate {
	return fleet.Fate{Outage: pgerr.FateOf(err) == pgerr.Outage, Rejected: pgerr.IsStatements(err), Locked: pgerr.Code(err) == pgerr.LockNotAvailable, Late: pgerr.IsLate(err)}
}

// run runs a statement.
func (t *tx) run(ctx context.Context, text string, args ...any) error {
	_, err := t.c.Exec(ctx, t.d.in(text), args...)
	return err
}

// Join implements fleet.Tx.
func (t *tx) Join(ctx context.Context, id string, m *leased.Member) error {
	return t.run(ctx, "INSERT INTO {{s}}.sessions (id, process, epoch, expires_at, host, pid) VALUES ($1, $2, $3, clock_timestamp() + $4::interval, $5, $6)",
		id, m.ID, m.Epoch, t.d.opts.Pace.TTL, fleet.Hostname(), os.Getpid())
}

// FenceOff implements fleet.Tx. It begins with the journal's row, since a new lane waits for that row.
func (t *tx) FenceOff(ctx context.Context, ids []string, own string) error {
	err := t.run(ctx, "SELECT FROM {{s}}.journal WHERE EXISTS (SELECT 1 FROM {{s}}.sessions WHERE id = ANY($1) AND process <> $2) FOR NO KEY UPDATE", ids, own)
	if err != nil {
		return err
	}
	return t.run(ctx, "UPDATE {{s}}.lanes l SET tenure = tenure + 1 FROM (SELECT process, lane FROM {{s}}.lanes "+
		"WHERE process IN (SELECT process FROM {{s}}.sessions WHERE id = ANY($1)) AND process <> $2 ORDER BY process, lane FOR UPDATE) o "+
		"WHERE l.process = o.process AND l.lane = o.lane", ids, own)
}

// StillDead implements fleet.Tx. While the journal waits for answers after a promotion, no session is (see Server.Silent).
func (t *tx) StillDead(ctx context.Context, id string, beats int64) (still bool, err error) {
	err = t.c.QueryRow(ctx, t.d.in("SELECT count(*) = 1 FROM (SELECT FROM {{s}}.sessions WHERE id = $1 AND beats = $2 AND "+server.LeaseOver+
		" AND NOT EXISTS (SELECT 1 FROM {{s}}.journal WHERE promoted IS NOT NULL AND restored IS NULL) FOR UPDATE) s"), id, beats).Scan(&still)
	return still, err
}

// Bury implements fleet.Tx.
func (t *tx) Bury(ctx context.Context, id string) error {
	return t.run(ctx, "UPDATE {{s}}.sessions SET buried_at = clock_timestamp() WHERE (id = $1 OR process = $1) AND buried_at IS NULL", id)
}

// Tidy implements fleet.Tx.
func (t *tx) Tidy(ctx context.Context) error {
	if err := t.run(ctx, foldLanes); err != nil {
		return err
	}
	return t.run(ctx, removeDead)
}

// StillRestored implements fleet.Tx.
func (t *tx) StillRestored(ctx context.Context, why string) error {
	return t.run(ctx, unlessRestored, why)
}

// CutOff implements fleet.Tx. It begins with the journal's row, since a new lane waits for that row.
func (t *tx) CutOff(ctx context.Context, word, restored string, told int64) error {
	is := t.d.Place(ctx, t.c)
	err := t.run(ctx, "UPDATE {{s}}.journal SET epoch = epoch + 1, restored = nullif($6, ''), promoted = NULL, system_identifier = $1, database_oid = $2, table_oid = $3, timeline = $4, "+
		"deployment = coalesce(nullif($5, ''), deployment), witnessed = greatest(witnessed + $8, $7)", is.System, is.Database, is.Table, is.Timeline, t.d.opts.Deployment, restored, told, fleet.WitnessStep)
	if err != nil {
		return err
	}
	if err := t.run(ctx, fenceLanes, t.lane.Member.ID, t.lane.Number); err != nil {
		return err
	}
	if err := t.run(ctx, "UPDATE {{s}}.sessions SET buried_at = clock_timestamp() WHERE buried_at IS NULL"); err != nil {
		return err
	}
	for _, sequence := range schema.Sequences {
		if err := t.run(ctx, strings.ReplaceAll(cutHandles, "{{q}}", sequence)); err != nil {
			return err
		}
	}
	return t.note(ctx, word)
}

// Adopted implements fleet.Tx.
func (t *tx) Adopted(ctx context.Context) error {
	if err := t.run(ctx, "UPDATE {{s}}.journal SET restored = NULL"); err != nil {
		return err
	}
	return t.note(ctx, "adopted")
}

// note adds a line to the journal's history.
func (t *tx) note(ctx context.Context, what string) error {
	return t.run(ctx, "UPDATE {{s}}.journal SET history = history || clock_timestamp()::text || ' ' || current_user || ' on ' || $1::text || ': ' || $2::text || E'\\n'", fleet.Hostname(), what)
}
