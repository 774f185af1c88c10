package rows

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// reader has the reading statements, on one connection or in one transaction.
type reader struct {
	prepare                                                        preparer
	path                                                           string                                             // of the file
	gap                                                            func(ctx context.Context, h *head) (string, error) // why the file may lack commits; nil: the transaction knows
	head, headSum, backup, name, light, whole, heads, mark, holder stmt
	begin, end                                                     stmt // of a transaction that reads; nil in one
	known                                                          *heads
	scans                                                          map[string]stmt
}

const columns = "o.handle, o.state, o.holder, o.wake_at, o.settled_at, o.told, o.reaped, o.provider, o.record"

const withParts = ` FROM onceward_rows o LEFT JOIN onceward_requests q ON q.handle = o.handle LEFT JOIN onceward_answers a ON a.handle = o.handle
	WHERE o.handle = ?`

func newReader(prepare preparer, path string, known *heads) *reader {
	r := &reader{prepare: prepare, path: path, known: known, scans: make(map[string]stmt)}
	prepareAll(prepare, []toPrepare{
		{&r.head, selectHead}, {&r.headSum, selectHeadSum}, {&r.backup, selectBackup},
		{&r.name, "SELECT handle FROM onceward_names WHERE digest = ?"},
		{&r.light, "SELECT " + columns + " FROM onceward_rows o WHERE o.handle = ?"},
		{&r.whole, "SELECT " + columns + ", q.head, q.body, a.head, a.body" + withParts},
		{&r.heads, "SELECT " + columns + ", q.head, NULL, a.head, NULL" + withParts},
		{&r.mark, "SELECT handle FROM onceward_marks WHERE mark = ?"},
		{&r.holder, "SELECT holder FROM onceward_rows INDEXED BY onceward_rows_held WHERE holder > ? ORDER BY holder LIMIT 1"},
	})
	return r
}

func (r *reader) readHead() (head, error) { return r.known.read(r.headSum, r.head, r.readSealed) }

// readSealed reads the keys that have sealed payloads.
func (r *reader) readSealed() (keys string, err error) {
	found := false
	err = r.each(context.Background(), "SELECT keys, sum FROM onceward_sealed", nil, func(v []driver.Value) error {
		if keys, found = v[0].(string), true; v[1] != int64(format.Sum([]byte(keys))) {
			return format.ErrSum
		}
		return nil
	})
	if err == nil && !found {
		err = format.ErrDamaged
	}
	return keys, err
}

// Head implements rowstore.Reader.
func (r *reader) Head(ctx context.Context) (rowstore.Head, error) {
	h, err := r.readHead()
	if err == nil && h.Restored == "" {
		h.Restored, err = r.gap(ctx, &h)
	}
	return h.Head, err
}

// Restored implements rowstore.Reader.
func (r *reader) Restored(ctx context.Context) (string, error) {
	h, err := r.Head(ctx)
	return h.Restored, err
}

// alone makes each Find see one state of the file if no transaction has begun.
func (r *reader) alone() {
	prepareAll(r.prepare, []toPrepare{{&r.begin, "BEGIN"}, {&r.end, "COMMIT"}})
}

// Find implements rowstore.Reader. The writer has the file's lock, so no row is locked for itself.
func (r *reader) Find(_ context.Context, keys rowstore.Keys) (found rowstore.Found, err error) {
	if r.begin != nil {
		if _, err := r.begin.Exec(); err != nil {
			return found, err
		}
		defer func() {
			_, ended := r.end.Exec()
			err = errors.Join(err, ended)
		}()
	}
	return r.find(keys)
}

func (r *reader) find(keys rowstore.Keys) (found rowstore.Found, err error) {
	found = rowstore.Found{Names: make(map[rowstore.Digest]int64, len(keys.Names)), Marks: make(map[int64][]int64, len(keys.Marks))}
	read := make(map[int64]bool, len(keys.Names)+len(keys.Handles))
	row := func(handle int64, parts stmt) error {
		if read[handle] {
			return nil
		}
		read[handle] = true
		return r.row(&found, handle, parts)
	}
	named, handled := r.whole, r.light
	switch {
	case keys.Heads:
		named, handled = r.heads, r.heads
	case keys.Whole:
		handled = r.whole
	}
	for _, name := range keys.Names {
		is, err := r.name.First(func(v []driver.Value) error { found.Names[name] = v[0].(int64); return nil }, name[:])
		if err == nil && is {
			err = row(found.Names[name], named)
		}
		if err != nil {
			return found, err
		}
	}
	for _, handle := range keys.Handles {
		if err := row(handle, handled); err != nil {
			return found, err
		}
	}
	for _, mark := range keys.Marks {
		err := r.mark.Each(func(v []driver.Value) error {
			found.Marks[mark] = append(found.Marks[mark], v[0].(int64))
			return nil
		}, mark)
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// row adds a handle's row, if there is one, by the statement that reads the row's parts.
func (r *reader) row(found *rowstore.Found, handle int64, parts stmt) error {
	_, err := parts.First(func(v []driver.Value) error {
		row := &rowstore.Row{Handle: v[0].(int64), State: uint8(v[1].(int64)), Told: flag(v[5]), Reaped: flag(v[6]),
			Provider: v[7].(string), Record: format.ToBytes(v[8]), HasWake: v[3] != nil, Whole: parts == r.whole}
		row.Holder, _ = v[2].(string)
		row.Wake, _ = v[3].(int64)
		row.Settled, _ = v[4].(int64)
		if parts != r.light {
			row.Request, row.Answer = part(v[9], v[10]), part(v[11], v[12])
		}
		found.Rows = append(found.Rows, row)
		return nil
	}, handle)
	if errors.Is(err, format.ErrDamaged) { // a column of another type: a row without its record is damaged
		found.Rows, err = append(found.Rows, &rowstore.Row{Handle: handle}), nil
	}
	return err
}

// flag reads 0 or 1. Another number is damaged, like a value with another type (see conn.Take).
func flag(v driver.Value) bool {
	n := v.(int64)
	if n != 0 && n != 1 {
		return v.(bool) // which no number is
	}
	return n == 1
}

func part(head, body driver.Value) *rowstore.Part {
	if head == nil {
		return nil
	}
	return &rowstore.Part{Head: format.ToBytes(head), Body: format.ToBytes(body)}
}

// Scan implements rowstore.Reader.
func (r *reader) Scan(ctx context.Context, scan rowstore.Scan) (page []rowstore.Position, err error) {
	text, args := selection(&scan)
	err = r.each(ctx, text, args, func(v []driver.Value) error {
		page = append(page, rowstore.Position{Key: v[0].(int64), Handle: v[1].(int64), Bytes: v[2].(int64)})
		return nil
	})
	if err == nil {
		err = inOrder(page, scan.After, scan.Before, scan.Newest, func(p rowstore.Position) rowstore.Position { return p })
	}
	return page, err
}

// inOrder refuses a scan's page that is out of order. The next scan would return the same rows again, without end.
func inOrder[T any](page []T, after rowstore.Position, handle int64, newest bool, place func(T) rowstore.Position) error {
	if newest {
		after = rowstore.Position{Handle: before(handle)}
	}
	return ascend(page, after, func(was rowstore.Position, row T) (rowstore.Position, bool) {
		is := place(row)
		order := cmp.Or(cmp.Compare(is.Key, was.Key), cmp.Compare(is.Handle, was.Handle))
		return is, order != 0 && order < 0 == newest
	})
}

// ascend reports damage unless each row of a page comes after the one before. In a damaged b-tree, SQLite finds rows where they
// are not.
func ascend[T, P any](page []T, at P, after func(P, T) (P, bool)) error {
	for _, row := range page {
		var is bool
		if at, is = after(at, row); !is {
			return fmt.Errorf("rows of the file are out of order: %w", format.ErrDamaged)
		}
	}
	return nil
}

// each runs a statement that is prepared once.
func (r *reader) each(ctx context.Context, text string, args []any, f func([]driver.Value) error) error {
	return r.prepared(text).EachContext(ctx, f, args...)
}

func (r *reader) prepared(text string) stmt {
	s := r.scans[text]
	if s == nil {
		s = r.prepare(text)
		r.scans[text] = s
	}
	return s
}

// bytesOfBodies reads no body: SQLite knows a value's length by the row's header.
const bytesOfBodies = `coalesce((SELECT length(body) FROM onceward_requests q WHERE q.handle = onceward_rows.handle), 0) +
	coalesce((SELECT length(body) FROM onceward_answers a WHERE a.handle = onceward_rows.handle), 0)`

// selection returns a scan's statement, and the statement's arguments.
func selection(s *rowstore.Scan) (text string, args []any) {
	column, order := "0", "handle"
	if by := orderOf(s.Index); by != "" {
		column, order = by, by+", handle"
	}
	if s.Newest {
		order += " DESC"
	}
	where, args := condition(s)
	bytes := "0"
	if s.Index == rowstore.Settled {
		bytes = bytesOfBodies
	}
	return "SELECT " + column + ", handle, " + bytes + " FROM onceward_rows WHERE " + where + " ORDER BY " + order + " LIMIT ?", append(args, int64(s.Limit))
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

// condition returns the condition for a scan's rows after the scan's last place.
func condition(s *rowstore.Scan) (where string, args []any) {
	where, args = conditionOf(s)
	if by := orderOf(s.Index); by != "" {
		return where + " AND (" + by + ", handle) > (?, ?)", append(args, s.After.Key, s.After.Handle)
	}
	return where + " AND handle > ?", append(args, s.After.Handle)
}

func conditionOf(s *rowstore.Scan) (where string, args []any) {
	switch s.Index {
	case rowstore.Pending:
		where, args = of(s.Providers, "")
		return "state = 1 AND wake_at BETWEEN ? AND ?" + where, append([]any{-s.By, s.By}, args...)
	case rowstore.PendingByWake:
		return "state = 1 AND wake_at > 0", nil
	case rowstore.HeldBy:
		where, args = of(s.Providers, "state > 2 OR ")
		return "holder = ?" + where, append([]any{s.Holder}, args...)
	case rowstore.Undelivered:
		return "told = 0 AND state > 2 AND holder IS NULL", nil
	case rowstore.LookDue:
		return "state = 4 AND wake_at > 0 AND wake_at <= ?", []any{s.By}
	case rowstore.Unanswered:
		return `handle IN (SELECT handle FROM onceward_rows WHERE state = 1 UNION ALL SELECT handle FROM onceward_rows WHERE state > 3
			UNION ALL SELECT handle FROM onceward_rows WHERE holder IS NOT NULL AND state = 2)`, nil
	case rowstore.InFlight:
		return "holder IS NOT NULL AND state = 2", nil
	case rowstore.Settled:
		return "told = 1 AND reaped = 0 AND settled_at IS NOT NULL AND settled_at <= ?", []any{s.By}
	case rowstore.Unknown:
		return "state = 4", nil
	case rowstore.Sought:
		return "state = 4 AND wake_at > ? AND wake_at > settled_at", []any{s.By}
	case rowstore.Cancelled:
		return "state > 3 AND state = 5", nil
	case rowstore.InFlightSince:
		return "holder IS NOT NULL AND state = 2 AND wake_at <= ?", []any{s.By}
	case rowstore.Untold:
		return `handle IN (SELECT handle FROM onceward_rows WHERE holder IS NOT NULL AND state > 2 AND told = 0
			UNION ALL SELECT handle FROM onceward_rows WHERE told = 0 AND state > 2 AND holder IS NULL)
			AND (state <> 4 OR wake_at IS NULL OR wake_at <= settled_at)`, nil
	case rowstore.Flagged:
		return "state > 2 AND state <> 4 AND wake_at = 0", nil
	}
	return "handle < ?", []any{before(s.Before)}
}

func before(handle int64) int64 {
	if handle == 0 {
		return math.MaxInt64
	}
	return handle
}

// of returns a condition that selects the rows with these providers, and the rows selected by or. If providers is
// empty, only or selects rows. Nil means no condition.
func of(providers []string, or string) (where string, args []any) {
	if providers == nil {
		return "", nil
	}
	for _, p := range providers {
		args = append(args, p)
	}
	return " AND (" + or + "provider IN (" + strings.TrimPrefix(strings.Repeat(", ?", len(providers)), ", ") + "))", args
}

// Count implements rowstore.Reader.
func (r *reader) Count(ctx context.Context, scans []rowstore.Scan) (counts []rowstore.Count, err error) {
	var texts []string
	var args []any
	for i := range scans {
		where, own := condition(&scans[i])
		texts, args = append(texts, "SELECT count(*), min(settled_at) FROM onceward_rows WHERE "+where), append(args, own...)
	}
	err = r.each(ctx, strings.Join(texts, " UNION ALL "), args, func(v []driver.Value) error {
		c := rowstore.Count{Rows: v[0].(int64)}
		c.Settled, _ = v[1].(int64)
		counts = append(counts, c)
		return nil
	})
	return counts, err
}

const totals = `SELECT newest, last_at, (SELECT count(*) FROM onceward_sessions),
	(SELECT page_size FROM pragma_page_size) * (SELECT page_count FROM pragma_page_count) FROM onceward_head`

// Totals implements rowstore.Reader.
func (r *reader) Totals(ctx context.Context) (t rowstore.Totals, err error) {
	err = r.each(ctx, totals, nil, func(v []driver.Value) error {
		t = rowstore.Totals{Begun: v[0].(int64), Last: format.Moment(v[1].(int64)), Sessions: v[2].(int64), FileBytes: v[3].(int64)}
		return nil
	})
	if err != nil {
		return t, err
	}
	wal, err := sizeOf(r.path + "-wal")
	t.WALBytes = max(wal, 0)
	return t, conn.Explain(r.path, "look at the WAL", err)
}

// Holders implements rowstore.Reader.
func (r *reader) Holders(context.Context) (all []string, err error) {
	for holder := ""; ; all = append(all, holder) {
		found, err := r.holder.First(func(v []driver.Value) error { holder = v[0].(string); return nil }, holder)
		if err != nil || !found {
			return all, err
		}
	}
}

// Names implements rowstore.Reader.
func (r *reader) Names(ctx context.Context, after []byte, limit int) (page []rowstore.Name, err error) {
	err = r.each(ctx, "SELECT digest, handle FROM onceward_names WHERE digest > ? ORDER BY digest LIMIT ?", []any{after, limit}, func(v []driver.Value) error {
		n := rowstore.Name{Handle: v[1].(int64)}
		copy(n.Digest[:], format.ToBytes(v[0]))
		page = append(page, n)
		return nil
	})
	if err == nil {
		err = ascend(page, after, func(was []byte, n rowstore.Name) ([]byte, bool) {
			return n.Digest[:], bytes.Compare(was, n.Digest[:]) < 0
		})
	}
	return page, err
}

// Marks implements rowstore.Reader.
func (r *reader) Marks(ctx context.Context, after rowstore.Mark, limit int) (page []rowstore.Mark, err error) {
	const text = "SELECT mark, handle FROM onceward_marks WHERE (mark, handle) > (?, ?) ORDER BY mark, handle LIMIT ?"
	err = r.each(ctx, text, []any{after.Mark, after.Handle, limit}, func(v []driver.Value) error {
		page = append(page, rowstore.Mark{Mark: v[0].(int64), Handle: v[1].(int64)})
		return nil
	})
	if err == nil {
		err = ascend(page, after, func(was, m rowstore.Mark) (rowstore.Mark, bool) {
			return m, cmp.Or(cmp.Compare(was.Mark, m.Mark), cmp.Compare(was.Handle, m.Handle)) < 0
		})
	}
	return page, err
}
