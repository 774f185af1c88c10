package rows

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Scan implements rowstore.Reader.
func (r *reader) Scan(ctx context.Context, scan rowstore.Scan) (page []rowstore.Position, err error) {
	p := r.pipeline()
	text, args := selection(&scan)
	p.queue(columns.Into(&page, columns.Position), text, args...)
	_, err = p.send(ctx, r.c)
	return page, meaning(err)
}

// params are a statement's arguments.
type params []any

// add returns an argument's parameter.
func (p *params) add(arg any) string {
	*p = append(*p, arg)
	return fmt.Sprint("$", len(*p))
}

// bytesOfBodies reads no body: the server keeps a large value's size beside the row.
const bytesOfBodies = `coalesce((SELECT octet_length(body) FROM {{s}}.requests q WHERE q.handle = operations.handle), 0)::bigint +
	coalesce((SELECT octet_length(body) FROM {{s}}.answers a WHERE a.handle = operations.handle), 0)::bigint`

// fewDue is up to how many due operations are sorted by age. If more are due, pending ones are walked by age, since many
// of these are due.
const fewDue = 500

// pending returns the statement for a Pending scan, and its arguments.
func pending(s *rowstore.Scan) (string, []any) {
	var args params
	where := "state = 1 AND handle > " + args.add(s.After.Handle) + of(s.Providers, "", &args)
	by, most, limit := args.add(s.By)+"::bigint", args.add(int64(fewDue)), args.add(int64(s.Limit))
	return `WITH due AS MATERIALIZED (SELECT handle FROM {{s}}.operations WHERE ` + where + " AND wake_at BETWEEN -" + by + " AND " + by + " ORDER BY wake_at, handle LIMIT " + most + `)
		SELECT 0::bigint, handle, 0::bigint FROM (SELECT handle FROM due WHERE (SELECT count(*) FROM due) < ` + most + `
			UNION ALL (SELECT handle FROM {{s}}.operations WHERE ` + where + " AND wake_at + 0 BETWEEN -" + by + " AND " + by + " AND (SELECT count(*) FROM due) >= " + most + ` ORDER BY handle LIMIT ` + limit + `)) d
		ORDER BY handle LIMIT ` + limit, args
}

// selection returns a scan's statement, and its arguments.
func selection(s *rowstore.Scan) (string, []any) {
	if s.Index == rowstore.Pending {
		return pending(s)
	}
	var args params
	column, order := "0::bigint", "handle"
	if by := orderOf(s.Index); by != "" {
		column, order = by, by+", handle"
	}
	if s.Newest {
		order += " DESC"
	}
	where := condition(s, &args)
	bytes := "0::bigint"
	if s.Index == rowstore.Settled {
		bytes = bytesOfBodies
	}
	return "SELECT " + column + ", handle, " + bytes + " FROM {{s}}.operations WHERE " + where + " ORDER BY " + order + " LIMIT " + args.add(int64(s.Limit)), args
}

// orderOf returns the column by which an index is ordered, "" for the handle alone.
func orderOf(i rowstore.Index) string {
	switch i {
	case rowstore.PendingByWake, rowstore.LookDue:
		return "wake_at"
	case rowstore.Settled:
		return "settled_at"
	}
	return ""
}

// condition is what a scan selects after its last place.
func condition(s *rowstore.Scan, args *params) string {
	where := conditionOf(s, args)
	if by := orderOf(s.Index); by != "" {
		return where + " AND (" + by + ", handle) > (" + args.add(s.After.Key) + ", " + args.add(s.After.Handle) + ")"
	}
	return where + " AND handle > " + args.add(s.After.Handle)
}

func conditionOf(s *rowstore.Scan, args *params) string {
	by := func() string { return args.add(s.By) + "::bigint" }
	switch s.Index {
	case rowstore.Pending:
		return "state = 1 AND wake_at BETWEEN -" + by() + " AND " + by() + of(s.Providers, "", args)
	case rowstore.PendingByWake:
		return "state = 1 AND wake_at > 0"
	case rowstore.HeldBy:
		return "holder = " + args.add(s.Holder) + of(s.Providers, "state > 2 OR ", args)
	case rowstore.Undelivered:
		return "NOT delivered AND state > 2 AND holder IS NULL"
	case rowstore.LookDue:
		return "state = 4 AND wake_at > 0 AND wake_at <= " + by()
	case rowstore.Unanswered:
		return "state <> 3"
	case rowstore.InFlight:
		return "holder IS NOT NULL AND state = 2"
	case rowstore.Settled:
		return "delivered AND NOT tombstone AND settled_at IS NOT NULL AND settled_at <= " + by()
	case rowstore.Unknown:
		return "state = 4"
	case rowstore.Sought:
		return "state = 4 AND wake_at > " + by() + " AND wake_at > settled_at"
	case rowstore.Cancelled:
		return "state <> 3 AND state = 5"
	case rowstore.InFlightSince:
		return "holder IS NOT NULL AND state = 2 AND wake_at <= " + by()
	case rowstore.Untold:
		return `handle IN (SELECT handle FROM {{s}}.operations WHERE holder IS NOT NULL AND state > 2 AND NOT delivered
			UNION ALL SELECT handle FROM {{s}}.operations WHERE NOT delivered AND state > 2 AND holder IS NULL)
			AND (state <> 4 OR wake_at IS NULL OR wake_at <= settled_at)`
	case rowstore.Flagged:
		return "state > 2 AND state <> 4 AND wake_at = 0"
	}
	before := s.Before
	if before == 0 {
		before = math.MaxInt64
	}
	return "handle < " + args.add(before)
}

// of is a condition that selects providers, or else what or says. No providers select nothing else.
func of(providers []string, or string, args *params) string {
	if providers == nil {
		return ""
	}
	all := make([][]byte, len(providers))
	for i, p := range providers {
		all[i] = []byte(p)
	}
	return " AND (" + or + "provider = ANY(" + args.add(all) + "))"
}

// Count implements rowstore.Reader. It is one statement, which sees one database state.
func (r *reader) Count(ctx context.Context, scans []rowstore.Scan) ([]rowstore.Count, error) {
	var args params
	texts := make([]string, len(scans))
	for i := range scans {
		texts[i] = fmt.Sprint("SELECT ", i, ", count(*), coalesce(min(settled_at), 0) FROM {{s}}.operations WHERE ", condition(&scans[i], &args))
	}
	counts := make([]rowstore.Count, len(scans))
	p := r.pipeline()
	p.queue(columns.Count(counts), strings.Join(texts, " UNION ALL "), args...)
	_, err := p.send(ctx, r.c)
	return counts, meaning(err)
}

// Head implements rowstore.Reader.
func (r *reader) Head(ctx context.Context) (rowstore.Head, error) {
	head := rowstore.Head{Identity: r.d.Identity, Key: r.d.Key}
	p := r.pipeline()
	p.queue(func(rows columns.Row) error { _, err := r.d.scanHead(rows, &head); return err }, "SELECT "+clocks)
	_, err := p.send(ctx, r.c)
	return head, meaning(err)
}

// Restored implements rowstore.Reader.
func (r *reader) Restored(ctx context.Context) (string, error) {
	if r.restored != nil {
		return *r.restored, nil
	}
	var restored, promoted *string
	err := r.c.QueryRow(ctx, r.d.in("SELECT restored, promoted FROM {{s}}.journal")).Scan(&restored, &promoted)
	return r.d.why(restored, promoted), meaning(err)
}

// totals counts handed-out handles: those before the blocks in use now, and the latest handle of a row.
const totals = `SELECT greatest((SELECT max(handle) - (max(handle) >> 40 << 40) FROM {{s}}.operations), (SELECT CASE WHEN is_called THEN last_value - (last_value >> 40 << 40) - 1 ELSE 0 END FROM {{s}}.handles)),
	(SELECT count(*) FROM {{s}}.sessions WHERE id <> process AND buried_at IS NULL), coalesce((SELECT max(last_at) FROM {{s}}.lanes), 0),
	(SELECT sum(pg_total_relation_size(to_regclass($1 || '.' || t)))::bigint FROM pg_catalog.unnest(ARRAY['operations', 'names', 'requests', 'answers', 'marks', 'heard']) t)`

// Totals implements rowstore.Reader.
func (r *reader) Totals(ctx context.Context) (t rowstore.Totals, err error) {
	var last int64
	err = r.c.QueryRow(ctx, r.d.in(totals), r.d.schema).Scan(&t.Begun, &t.Sessions, &last, &t.FileBytes)
	t.Last = format.Moment(last)
	return t, meaning(err)
}

// holders goes from one holder to the next by the index, past all that one holds.
const holders = `WITH RECURSIVE h (id) AS (SELECT min(holder) FROM {{s}}.operations WHERE holder IS NOT NULL
	UNION ALL SELECT (SELECT min(holder) FROM {{s}}.operations WHERE holder > h.id) FROM h WHERE h.id IS NOT NULL) SELECT id FROM h WHERE id IS NOT NULL`

// Holders implements rowstore.Reader.
func (r *reader) Holders(ctx context.Context) (all []string, err error) {
	p := r.pipeline()
	p.queue(columns.Into(&all, columns.Text), holders)
	_, err = p.send(ctx, r.c)
	return all, meaning(err)
}

// Names implements rowstore.Reader.
func (r *reader) Names(ctx context.Context, after []byte, limit int) (page []rowstore.Name, err error) {
	p := r.pipeline()
	p.queue(columns.Into(&page, columns.Name), "SELECT digest, handle FROM {{s}}.names WHERE digest > $1 ORDER BY digest LIMIT $2", after, limit)
	_, err = p.send(ctx, r.c)
	return page, meaning(err)
}

// Marks implements rowstore.Reader.
func (r *reader) Marks(ctx context.Context, after rowstore.Mark, limit int) (page []rowstore.Mark, err error) {
	p := r.pipeline()
	p.queue(columns.Into(&page, columns.Mark), "SELECT mark, handle FROM {{s}}.marks WHERE (mark, handle) > ($1, $2) ORDER BY mark, handle LIMIT $3", after.Mark, after.Handle, limit)
	_, err = p.send(ctx, r.c)
	return page, meaning(err)
}
