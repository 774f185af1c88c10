package rows

import (
	"database/sql"
	"strings"
	"time"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

// The guard goes before the first statements of each transaction, also of one that will write nothing. A transaction may go on if
//   - the lane's row is as the lane knows it, and no other lane of the process lacks a commit,
//   - the process and its sessions live,
//   - commits are durable, and the server is no replica.
//
// It locks the lane's row. So a process that ends this one's sessions waits for the transaction. It also reads the server's time
// and the head, with the clock of all lanes: the latest time, the jump that was seen last, and the least margin.
const (
	lockLane = "SELECT batch, tenure FROM {{s}}.lanes WHERE process = ? AND lane = ? FOR UPDATE"
	lanesOf  = "SELECT lane, batch FROM {{s}}.lanes WHERE process = ?"
	alive    = "(SELECT count(*) FROM {{s}}.sessions WHERE epoch = ? AND buried_at IS NULL AND (id = ? OR expires_at > " + nowSQL + ") AND id IN "
	sound    = "SELECT " + nowSQL + ", NOT @@global.read_only, " + server.DurableSQL + ", "
	// clocks has aggregates beside the columns of the only journal: no mode of the journal's sessions forbids that, and the server
	// needs no temporary table.
	clocks = `coalesce(max(l.seq), 0), coalesce(max(l.last_at), 0), coalesce((SELECT jumped_at FROM {{s}}.lanes ORDER BY seq DESC LIMIT 1), 0),
		coalesce(least(min(nullif(l.least_margin, 0)), (SELECT min(least_margin) FROM {{s}}.margins)), min(nullif(l.least_margin, 0)), (SELECT min(least_margin) FROM {{s}}.margins), 0),
		coalesce(max(l.ahead_at), 0), hooked, naming, leaps, restored, j.epoch, coalesce(deployment, ''), sealed FROM {{s}}.journal j LEFT JOIN {{s}}.lanes l ON TRUE`

	// commitLane moves the row of a lane, which the guard has locked, to the next batch. Its place is a later one than that of
	// any commit that the transaction has seen.
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

// guard is what the guard's statements have read.
type guard struct {
	lane            rowState
	alive           int // of the process and the sessions that it needs
	there, told     int // lanes that have what was acknowledged, and how many were acknowledged
	writes, durable bool
	now             int64
}

func batchesOf(batches map[int]int64) answer {
	return func(rows *sql.Rows) error {
		var number int
		var batch int64
		err := rows.Scan(&number, &batch)
		batches[number] = batch
		return err
	}
}

// queueGuard queues the guard of the lane's next transaction: few statements, since the server sends each result by itself.
func (t *tx) queueGuard(p *pipeline, g *guard) {
	l := t.lane
	p.queue(func(rows *sql.Rows) error { g.lane.there = true; return rows.Scan(&g.lane.Batch, &g.lane.Tenure) }, lockLane, l.member.ID, l.number)
	ids := append([]string{l.member.ID}, t.needs...)
	text, args := sound+alive+places(len(ids))+"), ", append([]any{l.member.Epoch, l.member.ID}, anys(ids)...)
	told := t.d.acknowledged.Of(l.member)
	if g.told = len(told); g.told > 0 {
		text += "(SELECT count(*) FROM {{s}}.lanes WHERE process = ? AND (" + strings.TrimSuffix(strings.Repeat("lane = ? AND batch >= ? OR ", g.told), " OR ") + ")), "
		args = append(args, l.member.ID)
		for number, batch := range told {
			args = append(args, number, batch)
		}
	} else {
		text += "0, "
	}
	p.queue(func(rows *sql.Rows) (err error) {
		t.recorded, err = t.d.scanHead(rows, &t.read, &g.now, &g.writes, &g.durable, &g.alive, &g.there)
		return err
	}, text+clocks, args...)
}

// passed reports whether the transaction may go on.
func (t *tx) passed(g *guard) bool {
	l := t.lane
	return g.lane == rowState{true, l.batch, l.tenure} && g.alive == len(t.needs)+1 && g.there == g.told && g.writes && (g.durable || !t.d.opts.Durable)
}

// scanHead reads the row of clocks, behind some other columns. It counts a journal as restored that only this process has found out about. recorded is why
// the journal counts as restored for all processes.
func (d *Driver) scanHead(rows *sql.Rows, head *rowstore.Head, first ...any) (recorded string, err error) {
	var last, jumped, margin, ahead int64
	var restored sql.NullString
	err = rows.Scan(append(first, &head.Number, &last, &jumped, &margin, &ahead, &head.Hook, &head.Naming, &head.Leaps, &restored, &head.Epoch, &head.Deployment, &head.Sealed)...)
	head.Clock.Last, head.Clock.Jumped, head.Clock.Ahead, head.Clock.LeastMargin = fromColumn(last), fromColumn(jumped), fromColumn(ahead), time.Duration(margin)
	head.Restored = d.whyOf(restored)
	return restored.String, err
}

// whyOf returns Head.Restored by the column of the journal.
func (d *Driver) whyOf(restored sql.NullString) string {
	switch {
	case restored.Valid:
		return restored.String
	case d.opts.Existing:
		return d.why()
	}
	return ""
}
