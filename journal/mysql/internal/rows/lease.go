package rows

import (
	"context"
	"os"
	"time"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/leased"
)

// Fenced implements fleet.Database.
func (d *Driver) Fenced(ctx context.Context, f func(context.Context, fleet.Tx) error) error {
	t, err := d.begin(ctx, func(*pipeline) {})
	if err != nil {
		return err
	}
	defer t.Rollback()
	if err := f(t.ctx, t); err != nil {
		return meaning(err)
	}
	return t.commit(ctx, t.pipeline(), commitQuietly)
}

// Living implements fleet.Database.
func (d *Driver) Living(ctx context.Context, ids []string) (living []string, err error) {
	err = d.ask(ctx, columns.Into(&living, columns.Text), "SELECT id FROM {{s}}.sessions WHERE id IN "+places(len(ids))+" AND buried_at IS NULL", anys(ids)...)
	return living, meaning(err)
}

// Waits implements fleet.Database.
func (d *Driver) Waits(ctx context.Context, own string) (waits bool, err error) {
	err = d.ask(ctx, columns.One(&waits), "SELECT EXISTS (SELECT 1 FROM {{s}}.sessions h WHERE buried_at IS NULL AND process <> ? AND "+leaseOver+
		" AND (EXISTS (SELECT 1 FROM {{s}}.operations WHERE holder = h.id) OR EXISTS (SELECT 1 FROM {{s}}.flows WHERE state = 1 AND holder = h.id)))", own)
	return waits, meaning(err)
}

// Join implements fleet.Tx.
func (t *tx) Join(ctx context.Context, id string, m *leased.Member) error {
	return t.query(ctx, nil, "INSERT INTO {{s}}.sessions (id, process, epoch, expires_at, started_at, host, pid) VALUES (?, ?, ?, "+nowSQL+" + ?, "+nowSQL+", ?, ?)",
		id, m.ID, m.Epoch, t.d.ttl(), fleet.Hostname(), os.Getpid())
}

// FenceOff implements fleet.Tx. It locks the journal's row, since a new lane waits for that row.
func (t *tx) FenceOff(ctx context.Context, ids []string, own string) error {
	var processes []string
	err := t.query(ctx, columns.Into(&processes, columns.Text), "SELECT DISTINCT process FROM {{s}}.sessions WHERE id IN "+places(len(ids))+" AND process <> ? ORDER BY process", append(anys(ids), own)...)
	if err != nil || len(processes) == 0 {
		return err
	}
	p := t.pipeline()
	p.queue(ignored, "SELECT one FROM {{s}}.journal FOR UPDATE")
	p.queue(nil, "UPDATE {{s}}.lanes SET tenure = tenure + 1 WHERE process IN "+places(len(processes))+" ORDER BY process, lane", anys(processes)...)
	return t.meaning(p.send(ctx, t.c))
}

// StillDead implements fleet.Tx.
func (t *tx) StillDead(ctx context.Context, id string, beats int64) (still bool, err error) {
	err = t.query(ctx, columns.One(&still), "SELECT count(*) = 1 FROM {{s}}.sessions WHERE id = ? AND beats = ? AND "+leaseOver+" FOR UPDATE", id, beats)
	return still, err
}

// Bury implements fleet.Tx.
func (t *tx) Bury(ctx context.Context, id string) error {
	return t.query(ctx, nil, "UPDATE {{s}}.sessions SET buried_at = "+nowSQL+" WHERE (id = ? OR process = ?) AND buried_at IS NULL", id, id)
}

const (
	// unused is true of a lane without a living process.
	unused = "(process IN (SELECT id FROM {{s}}.sessions WHERE buried_at < " + nowSQL + " - 86400000000) OR process NOT IN (SELECT id FROM {{s}}.sessions))"
	// foldLanes keeps the clock of such lanes in one row.
	foldLanes = `INSERT INTO {{s}}.lanes (process, lane, seq, last_at, jumped_at, least_margin, ahead_at)
		SELECT '', 0, max(seq), max(last_at), (SELECT jumped_at FROM {{s}}.lanes WHERE ` + unused + ` ORDER BY seq DESC LIMIT 1), coalesce(min(nullif(least_margin, 0)), 0), max(ahead_at)
		FROM {{s}}.lanes WHERE ` + unused + ` HAVING count(*) > 0
		ON DUPLICATE KEY UPDATE seq = VALUES(seq), last_at = VALUES(last_at), jumped_at = VALUES(jumped_at), least_margin = VALUES(least_margin), ahead_at = VALUES(ahead_at)`
)

// Tidy implements fleet.Tx.
func (t *tx) Tidy(ctx context.Context) error {
	p := t.pipeline()
	p.queue(nil, foldLanes)
	p.queue(nil, "DELETE FROM {{s}}.lanes WHERE process <> '' AND "+unused)
	p.queue(nil, "DELETE FROM {{s}}.sessions WHERE buried_at < "+nowSQL+" - ? AND NOT EXISTS (SELECT 1 FROM {{s}}.operations WHERE holder = sessions.id) AND NOT EXISTS (SELECT 1 FROM {{s}}.flows WHERE holder = sessions.id) "+
		"AND NOT EXISTS (SELECT 1 FROM {{s}}.lanes WHERE process = sessions.id)", leased.KeepDead.Microseconds())
	return t.meaning(p.send(ctx, t.c))
}

// StillRestored implements fleet.Tx.
func (t *tx) StillRestored(ctx context.Context, why string) error {
	is := false
	err := t.query(ctx, columns.One(&is), "SELECT coalesce(restored, '') = ? FROM {{s}}.journal FOR UPDATE", why)
	if err == nil && !is {
		err = errChanged
	}
	return err
}

// CutOff implements fleet.Tx. It begins with the journal's row, since a new lane waits for that row (see AddLane).
func (t *tx) CutOff(ctx context.Context, word, restored string, told int64) error {
	p := t.pipeline()
	p.queue(nil, "UPDATE {{s}}.journal SET epoch = epoch + 1, restored = nullif(?, ''), place = "+t.d.dialect.Place+", deployment = coalesce(nullif(?, ''), deployment), witnessed = greatest(witnessed + ?, ?), history = concat(history, ?)",
		restored, t.d.opts.Deployment, fleet.WitnessStep, told, note(word))
	p.queue(nil, fenceLanes, t.lane.Member.ID, t.lane.Number)
	p.queue(nil, "UPDATE {{s}}.sessions SET buried_at = "+nowSQL+" WHERE buried_at IS NULL")
	p.queue(nil, "UPDATE {{s}}.handles SET next = greatest((SELECT epoch * 1099511627776 + 1 FROM {{s}}.journal), next + 1024)")
	return t.meaning(p.send(ctx, t.c))
}

// Adopted implements fleet.Tx.
func (t *tx) Adopted(ctx context.Context) error {
	return t.query(ctx, nil, "UPDATE {{s}}.journal SET restored = NULL, history = concat(history, ?)", note("adopted"))
}

// note is a line of the journal's history.
func note(what string) string {
	return time.Now().UTC().Format(time.RFC3339) + " on " + fleet.Hostname() + ": " + what + "\n"
}
