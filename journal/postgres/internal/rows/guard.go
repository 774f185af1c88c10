package rows

import (
	"time"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/server"
)

// settings is the first statement of a transaction. Names are PostgreSQL's own, whatever the role's search_path is.
// Each statement has one plan, by indices, however few rows the table has: planning takes longer than execution, and a
// table soon outgrows an early plan. A statement about some rows names the rows as an array, so no join reads a whole
// table.
const settings = connection.Settings + ", set_config('search_path', 'pg_catalog', true), set_config('plan_cache_mode', 'force_generic_plan', true), " +
	"set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_nestloop', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)"

// The guard goes before each transaction's first statements, even if the transaction will write nothing. Unless the
// guard passes, it divides by zero, and the server skips the statements behind the guard. It passes if
//   - the lane's row is as the lane knows it, and no other lane of the process lacks a commit,
//   - the process and its sessions live,
//   - the server is the one that was checked, and commits are durable.
//
// It locks the lane's row. So a process that ends another's sessions first ends a transaction whose client is gone or
// stopped (Server.Evict). It also reads the database's time and the head, with the clock of all lanes: the latest time,
// the last seen jump, and the least margin.
const (
	guard = `SELECT 1 / (EXISTS (SELECT 1 FROM {{s}}.lanes WHERE process = $1 AND lane = $2 AND batch = $3 AND tenure = $4 FOR NO KEY UPDATE)
		AND EXISTS (SELECT 1 FROM {{s}}.sessions WHERE id = $1 AND epoch = $5 AND buried_at IS NULL)
		AND (SELECT count(*) FROM {{s}}.sessions WHERE id = ANY($6) AND epoch = $5 AND buried_at IS NULL AND expires_at > clock_timestamp()) = pg_catalog.cardinality($6)
		AND NOT EXISTS (SELECT 1 FROM ROWS FROM (pg_catalog.unnest($8::int[]), pg_catalog.unnest($9::bigint[])) a (number, least)
			WHERE NOT EXISTS (SELECT 1 FROM {{s}}.lanes WHERE process = $1 AND lane = number AND batch >= least))
		AND ` + connection.SoundSettings + ` AND ` + server.StartSQL + ` = $10)::int, clock_timestamp(), ` + clocks
	clocks = `l.*, j.hooked, j.naming, j.leaps, j.restored, j.promoted, j.epoch, coalesce(j.deployment, ''), j.sealed FROM {{s}}.journal j,
		(SELECT coalesce(max(seq), 0), coalesce(max(last_at), 0), coalesce((array_agg(jumped_at ORDER BY seq DESC))[1], 0),
		coalesce(min(least_margin) FILTER (WHERE least_margin > 0), 0), coalesce(max(ahead_at), 0) FROM {{s}}.lanes) l (seq, last, jumped, margin, ahead)`

	// commitLane moves the row of a lane to the next batch. It divides by zero if another process has fenced the lane off.
	commitLane = "WITH w AS (UPDATE {{s}}.lanes SET batch = batch + 1, seq = pg_catalog.nextval('{{s}}.commits'), last_at = $5, jumped_at = $6, least_margin = $7, ahead_at = $8" + ofLane
	// commitQuietly is commitLane for a transaction that sees no caller's clock.
	commitQuietly = "WITH w AS (UPDATE {{s}}.lanes SET batch = batch + 1" + ofLane
	ofLane        = " WHERE process = $1 AND lane = $2 AND batch = $3 AND tenure = $4 RETURNING 1) SELECT 1 / count(*) FROM w"

	// fenceLanes fails each transaction of any process that was decided before the commit. resetLanes also sets the
	// clock back.
	fenceLanes = "UPDATE {{s}}.lanes l SET tenure = tenure + 1" + ofOthers
	resetLanes = "UPDATE {{s}}.lanes l SET tenure = tenure + 1, last_at = least(last_at, $3), jumped_at = 0" + ofOthers
	ofOthers   = ` FROM (SELECT process, lane FROM {{s}}.lanes WHERE NOT (process = $1 AND lane = $2) ORDER BY process, lane FOR UPDATE) o
		WHERE l.process = o.process AND l.lane = o.lane`
	// setSealed excludes releases that know no seal.
	setSealed = "WITH w AS (UPDATE {{s}}.journal SET sealed = $1, least_writer = greatest(least_writer, 4) WHERE sealed = $2 RETURNING 1) SELECT 1 / count(*) FROM w"
	// setLeaps goes before fenceLanes or resetLanes: addLane waits for its row.
	setLeaps = "WITH w AS (UPDATE {{s}}.journal SET leaps = $1 WHERE leaps = $2 RETURNING 1) SELECT 1 / count(*) FROM w"
)

// queueGuard queues the guard of the lane's next transaction.
func (t *tx) queueGuard(p *pipeline, needs []string, f answer) {
	l, numbers, least := t.lane, []int{}, []int64{}
	for number, batch := range t.d.Acknowledged.Of(l.Member) {
		numbers, least = append(numbers, number), append(least, batch)
	}
	p.queue(f, guard, l.Member.ID, l.Number, l.Batch, l.Tenure, l.Member.Epoch, needs, t.d.Unsafe(), numbers, least, t.d.Started())
}

// scanHead reads some values and then the head. A journal counts as restored even if only this process has found out.
// recorded is the reason why the journal counts as restored for all processes.
func (d *Driver) scanHead(rows columns.Row, head *rowstore.Head, first ...any) (recorded string, err error) {
	var last, jumped, margin, ahead int64
	var restored, promoted *string
	err = rows.Scan(append(first, &head.Number, &last, &jumped, &margin, &ahead, &head.Hook, &head.Naming, &head.Leaps, &restored, &promoted, &head.Epoch, &head.Deployment, &head.Sealed)...)
	head.Clock.Last, head.Clock.Jumped, head.Clock.Ahead, head.Clock.LeastMargin = format.Moment(last), format.Moment(jumped), format.Moment(ahead), time.Duration(margin)
	head.Restored = d.why(restored, promoted)
	return textOf(restored), err
}

// why returns Head.Restored by the columns of the journal.
func (d *Driver) why(restored, promoted *string) string {
	is := fleet.Journal{Restored: textOf(restored), Promoted: textOf(promoted)}
	if why := is.Why(); why != "" || !d.opts.Existing {
		return why
	}
	return d.Why()
}

func textOf(column *string) string {
	if column == nil {
		return ""
	}
	return *column
}
