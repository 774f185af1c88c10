package rows

import (
	"fmt"
	"strings"

	"github.com/onceward/onceward/journal/internal/rowstore"
)

// each ends a WITH statement whose first array has elements of that type. The statement fails, and with it the
// transaction, unless a row changed for each.
func each(of string) string {
	return " RETURNING 1) SELECT 1 / (count(*) = pg_catalog.cardinality($1::" + of + "[]))::int FROM w"
}

// unnest is parameters, arrays with these types, as a table's columns. It names the function in full, since another
// schema of the application's may have one.
func unnest(types ...string) string {
	for i, t := range types {
		types[i] = fmt.Sprintf("pg_catalog.unnest($%d::%s[])", i+1, t)
	}
	return "ROWS FROM (" + strings.Join(types, ", ") + ")"
}

// rowList is rows as columns.
type rowList struct {
	handle         []int64
	state          []int16
	holder         []*string
	wake, settled  []*int64
	told, reaped   []bool
	provider, text [][]byte
}

func (l *rowList) add(r *rowstore.Row) {
	l.handle, l.state = append(l.handle, r.Handle), append(l.state, int16(r.State))
	var holder *string
	var wake, settled *int64
	if r.Holder != "" {
		holder = &r.Holder
	}
	if r.HasWake {
		wake = &r.Wake
	}
	if r.Settled != 0 {
		settled = &r.Settled
	}
	l.holder, l.wake, l.settled = append(l.holder, holder), append(l.wake, wake), append(l.settled, settled)
	l.told, l.reaped = append(l.told, r.Told), append(l.reaped, r.Reaped)
	l.provider, l.text = append(l.provider, []byte(r.Provider)), append(l.text, r.Record)
}

func (l *rowList) args() []any {
	return []any{l.handle, l.state, l.holder, l.wake, l.settled, l.told, l.reaped, l.provider, l.text}
}

var (
	unnested = unnest("bigint", "smallint", "text", "bigint", "bigint", "boolean", "boolean", "bytea", "bytea")
	update   = `WITH w AS (UPDATE {{s}}.operations o SET state = c.state, holder = c.holder, wake_at = c.wake_at, settled_at = c.settled_at, delivered = c.delivered,
		tombstone = c.tombstone, provider = c.provider, facts = c.facts FROM ` + unnested + ` c (handle, state, holder, wake_at, settled_at, delivered, tombstone, provider, facts) WHERE o.handle = ANY($1) AND o.handle = c.handle`
)

// partList is new parts as columns, and the handles of the removed parts.
type partList struct {
	handle, gone []int64
	head, body   [][]byte
}

func (l *partList) add(handle int64, p *rowstore.Part) {
	if p == nil {
		l.gone = append(l.gone, handle)
		return
	}
	l.handle, l.head, l.body = append(l.handle, handle), append(l.head, p.Head), append(l.body, p.Body)
}

func (l *partList) queue(p *pipeline, table string) {
	if len(l.gone) > 0 {
		p.queue(nil, "DELETE FROM {{s}}."+table+" WHERE handle = ANY($1)", l.gone)
	}
	if len(l.handle) > 0 {
		p.queue(nil, "INSERT INTO {{s}}."+table+" SELECT * FROM "+unnest("bigint", "bytea", "bytea")+" ON CONFLICT (handle) DO UPDATE SET head = excluded.head, body = excluded.body",
			l.handle, l.head, l.body)
	}
}

// pairs are values with a handle each.
type pairs[T any] struct {
	of     []T
	handle []int64
}

func (l *pairs[T]) add(of []T, handle int64) {
	for _, v := range of {
		l.of, l.handle = append(l.of, v), append(l.handle, handle)
	}
}

// queueChanges adds one statement for each table and kind of change, removals first.
func queueChanges(p *pipeline, changes []*rowstore.Change) {
	var inserted, updated rowList
	var removed []int64
	var requests, answers partList
	var names, noNames pairs[[]byte]
	var marks, noMarks pairs[int64]
	for _, c := range changes {
		r := c.Row
		switch {
		case c.Remove:
			removed = append(removed, r.Handle)
			requests.add(r.Handle, nil)
			answers.add(r.Handle, nil)
		case c.Insert:
			inserted.add(r)
		default:
			updated.add(r)
		}
		if c.Request {
			requests.add(r.Handle, r.Request)
		}
		if c.Answer {
			answers.add(r.Handle, r.Answer)
		}
		names.add(bytesOf(c.AddNames), r.Handle)
		noNames.add(bytesOf(c.RemoveNames), r.Handle)
		marks.add(c.AddMarks, r.Handle)
		noMarks.add(c.RemoveMarks, r.Handle)
		marks.add(c.LeaveMarks, 0)
	}
	if len(removed) > 0 {
		p.queue(nil, "WITH w AS (DELETE FROM {{s}}.operations WHERE handle = ANY($1)"+each("bigint"), removed)
	}
	if len(noNames.of) > 0 {
		p.queue(nil, "DELETE FROM {{s}}.names n USING "+unnest("bytea", "bigint")+" c (digest, handle) WHERE n.digest = ANY($1) AND n.digest = c.digest AND n.handle = c.handle", noNames.of, noNames.handle)
	}
	if len(noMarks.of) > 0 {
		p.queue(nil, "DELETE FROM {{s}}.marks m USING "+unnest("bigint", "bigint")+" c (mark, handle) WHERE m.mark = ANY($1) AND m.mark = c.mark AND m.handle = c.handle", noMarks.of, noMarks.handle)
	}
	if len(names.of) > 0 {
		p.queue(nil, "WITH w AS (INSERT INTO {{s}}.names SELECT * FROM "+unnest("bytea", "bigint")+" c (digest, handle) ORDER BY digest ON CONFLICT DO NOTHING"+each("bytea"), names.of, names.handle)
	}
	if len(inserted.handle) > 0 {
		p.queue(nil, "WITH w AS (INSERT INTO {{s}}.operations (handle, state, holder, wake_at, settled_at, delivered, tombstone, provider, facts) SELECT * FROM "+unnested+each("bigint"), inserted.args()...)
	}
	if len(updated.handle) > 0 {
		p.queue(nil, update+each("bigint"), updated.args()...)
	}
	requests.queue(p, "requests")
	answers.queue(p, "answers")
	if len(marks.of) > 0 {
		p.queue(nil, "INSERT INTO {{s}}.marks SELECT * FROM "+unnest("bigint", "bigint")+" ON CONFLICT DO NOTHING", marks.of, marks.handle)
	}
}

func bytesOf(names []rowstore.Digest) (all [][]byte) {
	for i := range names {
		all = append(all, names[i][:])
	}
	return all
}
