package rows

import (
	"database/sql"
	"slices"
	"time"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// The guard goes before the first statements of each transaction, also of one that will write nothing. A transaction may go on if
//   - the lane's row is as the lane knows it, and no other lane of the process lacks a commit,
//   - the process and its sessions live,
//   - commits are durable, and the server is no replica.
//
// A process that ends sessions of another one raises the tenure of that one's lanes first. So sessions that a lane has seen alive
// live until the tenure is raised. The guard locks nothing: the commit fails if the lane's row has changed since. It also reads
// the server's time and the head, with the clock of all lanes: the latest time, the jump that was seen last, and the least margin.
const (
	sound = "SELECT " + nowSQL + ", NOT @@global.read_only, " + server.DurableSQL + ", "
	alive = "(SELECT count(*) FROM {{s}}.sessions WHERE epoch = ? AND buried_at IS NULL AND (id = ? OR expires_at > " + nowSQL + ") AND id IN "
	// clocks has aggregates beside the columns of the only journal: no mode of the journal's sessions forbids that, and the server
	// needs no temporary table.
	clocks = `coalesce(max(l.seq), 0), coalesce(max(l.last_at), 0), coalesce((SELECT jumped_at FROM {{s}}.lanes ORDER BY seq DESC LIMIT 1), 0),
		min(nullif(l.least_margin, 0)), (SELECT min(least_margin) FROM {{s}}.margins), coalesce(max(l.ahead_at), 0),
		hooked, naming, leaps, restored, j.epoch, coalesce(deployment, ''), sealed FROM {{s}}.journal j LEFT JOIN {{s}}.lanes l ON TRUE`

	// commitLane moves the row of a lane to the next batch, or changes no row if another process has fenced the lane off. Its
	// place is a later one than that of any commit that the transaction has seen.
	commitLane = "UPDATE {{s}}.lanes SET batch = batch + 1, last_at = ?, jumped_at = ?, least_margin = ?, ahead_at = ?, seq = greatest(? + 1, " + nowSQL + ")" + ofLane
	// commitQuietly is commitLane for a transaction that sees no caller's clock.
	commitQuietly = "UPDATE {{s}}.lanes SET batch = batch + 1" + ofLane
	ofLane        = " WHERE process = ? AND lane = ? AND batch = ? AND tenure = ?"

	// fenceLanes has each transaction that was decided before this commit fail, of all processes. resetLanes also sets the
	// clock back.
	fenceLanes = "UPDATE {{s}}.lanes SET tenure = tenure + 1 WHERE NOT (process = ? AND lane = ?) ORDER BY process, lane"
	resetLanes = "UPDATE {{s}}.lanes SET tenure = tenure + 1, last_at = least(last_at, ?), jumped_at = 0 WHERE NOT (process = ? AND lane = ?) ORDER BY process, lane"
	// setSealed excludes releases that know no seal: none, up to now.
	setSealed = "UPDATE {{s}}.journal SET sealed = ? WHERE sealed = ?"
	// setLeaps goes before fenceLanes or resetLanes: a new lane waits for its row.
	setLeaps = "UPDATE {{s}}.journal SET leaps = ? WHERE leaps = ?"
)

// guard is what the guard has read.
type guard struct {
	lanes, mustLanes int // that are as they have to be, and how many have to be
	alive, mustLive  int // likewise the process and the sessions that the transaction needs
	writes, durable  bool
	now              int64
}

// queueGuard queues the guard of the lane's next transaction: one statement, since the server sends each result by itself.
func (t *tx) queueGuard(p *pipeline, g *guard) {
	l := t.lane
	text, args := sound+"coalesce(sum(l.process = ? AND (l.lane = ? AND l.batch = ? AND l.tenure = ?", []any{l.Member.ID, l.Number, l.Batch, l.Tenure}
	g.mustLanes = 1
	for number, batch := range t.d.Acknowledged.Of(l.Member) {
		if number != l.Number {
			text, args = text+" OR l.lane = ? AND l.batch >= ?", append(args, number, batch)
			g.mustLanes++
		}
	}
	text += ")), 0), "
	if l.Living == nil || !slices.Equal(l.Living, t.needs) {
		g.mustLive = len(t.needs) + 1
		text += alive + places(g.mustLive) + "), "
		args = append(append(args, l.Member.Epoch, l.Member.ID, l.Member.ID), anys(t.needs)...)
	} else {
		text += "0, "
	}
	p.queue(func(rows columns.Row) (err error) {
		t.recorded, err = t.d.scanHead(rows, &t.read, &g.now, &g.writes, &g.durable, &g.lanes, &g.alive)
		return err
	}, text+clocks, args...)
}

// passed reports whether the transaction may go on.
func (t *tx) passed(g *guard) bool {
	passed := g.lanes == g.mustLanes && g.alive == g.mustLive && t.read.Epoch == t.lane.Member.Epoch && (g.durable || !t.d.opts.Durable)
	if passed {
		t.lane.Living = t.needs
	}
	return passed
}

// scanHead reads some values and then the row of clocks. A journal counts as restored even if only this process has found out.
// recorded is why the journal counts as restored for all processes.
func (d *Driver) scanHead(rows columns.Row, head *rowstore.Head, first ...any) (recorded string, err error) {
	var last, jumped, ahead int64
	var margin, apart sql.NullInt64 // apart is of the application's transactions
	var restored sql.NullString
	err = rows.Scan(append(first, &head.Number, &last, &jumped, &margin, &apart, &ahead, &head.Hook, &head.Naming, &head.Leaps, &restored, &head.Epoch, &head.Deployment, &head.Sealed)...)
	if !margin.Valid || apart.Valid && apart.Int64 < margin.Int64 {
		margin = apart
	}
	head.Clock.Last, head.Clock.Jumped, head.Clock.Ahead, head.Clock.LeastMargin = format.Moment(last), format.Moment(jumped), format.Moment(ahead), time.Duration(margin.Int64)
	head.Restored = d.whyOf(restored)
	return restored.String, err
}

// whyOf returns Head.Restored by the column of the journal.
func (d *Driver) whyOf(restored sql.NullString) string {
	switch {
	case restored.Valid:
		return restored.String
	case d.opts.Existing:
		return d.Why()
	}
	return ""
}
