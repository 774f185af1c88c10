package rows

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Scan implements rowstore.Reader.
func (r *reader) Scan(ctx context.Context, scan rowstore.Scan) (page []rowstore.Position, err error) {
	c := conditionOf(&scan)
	column, order, after := "0", "handle", "handle > ?"
	args := append(c.args, scan.After.Handle)
	if by := orderOf(scan.Index); by != "" {
		column, order, after = by, by+", handle", "("+by+" > ? OR "+by+" = ? AND handle > ?)"
		args = append(c.args, scan.After.Key, scan.After.Key, scan.After.Handle)
		if scan.After == (rowstore.Position{}) {
			after, args = "TRUE", c.args
		}
	}
	if scan.Newest {
		order += " DESC"
	}
	bytes := "0"
	if scan.Index == rowstore.Settled {
		bytes = bytesOfBodies
	}
	err = r.query(ctx, columns.Into(&page, columns.Position), "SELECT "+column+", handle, "+bytes+" FROM {{s}}.operations FORCE INDEX ("+c.index+") WHERE "+c.where+" AND "+after+" ORDER BY "+order+" LIMIT ?", append(args, scan.Limit)...)
	return page, err
}

const bytesOfBodies = `coalesce((SELECT octet_length(body) FROM {{s}}.requests q WHERE q.handle = operations.handle), 0) +
	coalesce((SELECT octet_length(body) FROM {{s}}.answers a WHERE a.handle = operations.handle), 0)`

// orderOf returns the column by which an index is ordered, "" for the handle alone.
func orderOf(i rowstore.Index) string {
	switch i {
	case rowstore.PendingByWake, rowstore.LookDue:
		return "wake_at"
	case rowstore.Settled:
		return "reap_at"
	}
	return ""
}

// condition is what a scan selects, and by which index. An index of the primary key's is named PRIMARY.
type condition struct {
	index, where string
	args         []any
}

func conditionOf(s *rowstore.Scan) condition {
	providers := func(or string) (string, []any) {
		switch {
		case s.Providers == nil:
			return "", nil
		case len(s.Providers) == 0:
			return " AND (" + or + "FALSE)", nil
		}
		return " AND (" + or + "provider IN " + places(len(s.Providers)) + ")", anys(s.Providers)
	}
	pending, inFlight, unknown, cancelled := uint8(journal.StatePending), uint8(journal.StateInFlight), uint8(journal.StateUnknown), uint8(journal.StateCancelled)
	switch s.Index {
	case rowstore.Pending:
		of, args := providers("")
		return condition{"wake, opened", "open_state = ? AND wake_at BETWEEN ? AND ?" + of, append([]any{pending, -s.By, s.By}, args...)}
	case rowstore.PendingByWake:
		return condition{"wake", "open_state = ? AND wake_at > 0", []any{pending}}
	case rowstore.HeldBy:
		of, args := providers("state > 2 OR ")
		return condition{"holder", "holder = ?" + of, append([]any{s.Holder}, args...)}
	case rowstore.Undelivered:
		return condition{"untold", "untold = 1 AND holder IS NULL", nil}
	case rowstore.LookDue:
		return condition{"wake", "open_state = ? AND wake_at > 0 AND wake_at <= ?", []any{unknown, s.By}}
	case rowstore.Unanswered:
		return condition{"opened, PRIMARY", "open_state IS NOT NULL", nil}
	case rowstore.InFlight:
		return condition{"opened", "open_state = ? AND holder IS NOT NULL", []any{inFlight}}
	case rowstore.Settled:
		return condition{"reap", "reap_at <= ?", []any{s.By}}
	case rowstore.Unknown:
		return condition{"opened", "open_state = ?", []any{unknown}}
	case rowstore.Sought:
		return condition{"opened", "open_state = ? AND wake_at > ? AND wake_at > settled_at", []any{unknown, s.By}}
	case rowstore.Cancelled:
		return condition{"opened", "open_state = ?", []any{cancelled}}
	case rowstore.InFlightSince:
		return condition{"opened", "open_state = ? AND holder IS NOT NULL AND wake_at <= ?", []any{inFlight, s.By}}
	case rowstore.Untold:
		return condition{"untold", "untold = 1 AND (state <> ? OR wake_at IS NULL OR wake_at <= settled_at)", []any{unknown}}
	case rowstore.Flagged:
		return condition{"wake", "(open_state IS NULL OR open_state = ?) AND wake_at = 0", []any{cancelled}}
	}
	before := s.Before
	if before == 0 {
		before = math.MaxInt64
	}
	return condition{"PRIMARY", "handle < ?", []any{before}}
}

// Count implements rowstore.Reader. It is one statement, which sees one database state.
func (r *reader) Count(ctx context.Context, scans []rowstore.Scan) ([]rowstore.Count, error) {
	texts := make([]string, len(scans))
	var args []any
	for i := range scans {
		c := conditionOf(&scans[i])
		texts[i] = fmt.Sprint("SELECT ", i, ", count(*), coalesce(min(settled_at), 0) FROM {{s}}.operations FORCE INDEX ("+c.index+") WHERE ", c.where)
		args = append(args, c.args...)
		if after := scans[i].After; after != (rowstore.Position{}) {
			if by := orderOf(scans[i].Index); by != "" {
				texts[i] += " AND (" + by + " > ? OR " + by + " = ? AND handle > ?)"
				args = append(args, after.Key, after.Key, after.Handle)
			} else {
				texts[i] += " AND handle > ?"
				args = append(args, after.Handle)
			}
		}
	}
	counts := make([]rowstore.Count, len(scans))
	err := r.query(ctx, columns.Count(counts), strings.Join(texts, " UNION ALL "), args...)
	return counts, err
}

// Head implements rowstore.Reader.
func (r *reader) Head(ctx context.Context) (rowstore.Head, error) {
	head := rowstore.Head{Identity: r.d.identity, Key: r.d.key}
	err := r.query(ctx, func(rows columns.Row) error { _, err := r.d.scanHead(rows, &head); return err }, "SELECT "+clocks)
	return head, err
}

// Restored implements rowstore.Reader.
func (r *reader) Restored(ctx context.Context) (string, error) {
	var restored sql.NullString
	err := r.query(ctx, columns.One(&restored), "SELECT restored FROM {{s}}.journal")
	return r.d.whyOf(restored), err
}

// totals counts handles that were given out: those before the blocks that processes use now, and the latest that a row has.
const totals = `SELECT greatest((SELECT coalesce(max(handle) % 1099511627776, 0) FROM {{s}}.operations), (SELECT CASE WHEN next % 1099511627776 > 1024 THEN next % 1099511627776 - 1025 ELSE 0 END FROM {{s}}.handles WHERE name = 'operations')),
	(SELECT count(*) FROM {{s}}.sessions WHERE id <> process AND buried_at IS NULL), (SELECT coalesce(max(last_at), 0) FROM {{s}}.lanes),
	(SELECT coalesce(sum(data_length + index_length), 0) FROM information_schema.tables WHERE table_schema = CONVERT(? USING utf8mb4))`

// Totals implements rowstore.Reader.
func (r *reader) Totals(ctx context.Context) (t rowstore.Totals, err error) {
	var last int64
	err = r.query(ctx, columns.One(&t.Begun, &t.Sessions, &last, &t.FileBytes), totals, strings.Trim(r.d.schema, "`"))
	t.Last = format.Moment(last)
	return t, err
}

// Holders implements rowstore.Reader.
func (r *reader) Holders(ctx context.Context) (all []string, err error) {
	err = r.query(ctx, columns.Into(&all, columns.Text), "SELECT DISTINCT holder FROM {{s}}.operations WHERE holder IS NOT NULL")
	return all, err
}

// Names implements rowstore.Reader.
func (r *reader) Names(ctx context.Context, after []byte, limit int) (page []rowstore.Name, err error) {
	err = r.query(ctx, columns.Into(&page, columns.Name), "SELECT digest, handle FROM {{s}}.names WHERE digest > ? ORDER BY digest LIMIT ?", append([]byte{}, after...), limit)
	return page, err
}

// Marks implements rowstore.Reader.
func (r *reader) Marks(ctx context.Context, after rowstore.Mark, limit int) (page []rowstore.Mark, err error) {
	err = r.query(ctx, columns.Into(&page, columns.Mark), "SELECT mark, handle FROM {{s}}.marks WHERE mark > ? OR mark = ? AND handle > ? ORDER BY mark, handle LIMIT ?", after.Mark, after.Mark, after.Handle, limit)
	return page, err
}

// strays are parts of operations, and steps of flows, without their row.
const strays = `SELECT 0, handle FROM {{s}}.requests r WHERE NOT EXISTS (SELECT 1 FROM {{s}}.operations o WHERE o.handle = r.handle)
	UNION SELECT 0, handle FROM {{s}}.answers a WHERE NOT EXISTS (SELECT 1 FROM {{s}}.operations o WHERE o.handle = a.handle)
	UNION SELECT 1, flow FROM {{s}}.flow_steps s WHERE NOT EXISTS (SELECT 1 FROM {{s}}.flows f WHERE f.handle = s.flow)`

// wrong are rows whose columns for indexes contradict the others.
const wrong = `SELECT handle FROM {{s}}.operations WHERE NOT (open_state <=> CASE WHEN state = 3 THEN NULL ELSE state END)
	OR NOT (untold <=> CASE WHEN NOT delivered AND state > 2 THEN 1 END) OR NOT (reap_at <=> CASE WHEN delivered AND NOT tombstone THEN settled_at END)`

// Check implements rowstore.Source. For the server's own files, use CHECK TABLE.
func (d *Driver) Check(ctx context.Context, found func(journal.Violation)) error {
	return d.Read(ctx, func(r rowstore.Reader) error {
		p := d.pipeline(true)
		p.queue(columns.Stray(found), strays)
		p.queue(func(rows columns.Row) error {
			v := journal.Violation{Invariant: "its columns for indexes are as its state says"}
			err := rows.Scan(&v.Handle)
			found(v)
			return err
		}, wrong)
		return p.send(ctx, r.(*reader).c)
	})
}
