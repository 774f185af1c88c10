package rows

import (
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// mostText is the size of a statement's values after which another statement begins.
const mostText = 1 << 20

// values are the rows of statements that begin and end alike. No statement gets much larger than mostText.
type values struct {
	rows [][]any
}

// queue adds statements: before, the rows' values, and after.
func (v *values) queue(p *pipeline, before, after string) {
	for len(v.rows) > 0 {
		n, size := 0, 0
		var args []any
		for n < len(v.rows) && (n == 0 || size < mostText) {
			for _, arg := range v.rows[n] {
				if b, is := arg.([]byte); is {
					size += len(b)
				}
				size += 16
			}
			args = append(args, v.rows[n]...)
			n++
		}
		one := places(len(v.rows[0]))
		p.queue(nil, before+strings.TrimSuffix(strings.Repeat(one+",", n), ",")+after, args...)
		v.rows = v.rows[n:]
	}
}

func (v *values) add(row ...any) { v.rows = append(v.rows, row) }

// rowArgs are the columns of a row. The last three stand for partial indexes.
func rowArgs(r *rowstore.Row) []any {
	completed := journal.State(r.State) == journal.StateCompleted
	untold := !r.Told && journal.State(r.State) > journal.StateInFlight
	return []any{
		r.Handle, r.State, orNull(r.Holder != "", r.Holder), orNull(r.HasWake, r.Wake), orNull(r.Settled != 0, r.Settled), r.Told, r.Reaped, []byte(r.Provider), r.Record,
		orNull(!completed, r.State), orNull(untold, true), orNull(r.Told && !r.Reaped && r.Settled != 0, r.Settled),
	}
}

const (
	insertRows = "INSERT INTO {{s}}.operations (handle, state, holder, wake_at, settled_at, delivered, tombstone, provider, facts, open_state, untold, reap_at) VALUES "
	// orUpdate makes insertRows an update of rows that the transaction has locked.
	orUpdate = ` ON DUPLICATE KEY UPDATE state = VALUES(state), holder = VALUES(holder), wake_at = VALUES(wake_at), settled_at = VALUES(settled_at), delivered = VALUES(delivered),
		tombstone = VALUES(tombstone), provider = VALUES(provider), facts = VALUES(facts), open_state = VALUES(open_state), untold = VALUES(untold), reap_at = VALUES(reap_at)`
)

// parts are new parts, and the handles of those that go.
type parts struct {
	gone []any
	new  values
}

func (l *parts) add(handle int64, p *rowstore.Part) {
	if p == nil {
		l.gone = append(l.gone, handle)
		return
	}
	l.new.add(handle, p.Head, p.Body)
}

func (l *parts) queue(p *pipeline, table string) {
	if len(l.gone) > 0 {
		p.queue(nil, "DELETE FROM {{s}}."+table+" WHERE handle IN "+places(len(l.gone)), l.gone...)
	}
	l.new.queue(p, "INSERT INTO {{s}}."+table+" (handle, head, body) VALUES ", " ON DUPLICATE KEY UPDATE head = VALUES(head), body = VALUES(body)")
}

// pairs are values with a handle each, to be removed.
type pairs []any

func (l *pairs) add(of any, handle int64) { *l = append(*l, of, handle) }

func (l pairs) queue(p *pipeline, table, column string) {
	if len(l) > 0 {
		p.queue(nil, "DELETE FROM {{s}}."+table+" WHERE "+strings.TrimSuffix(strings.Repeat("("+column+" = ? AND handle = ?) OR ", len(l)/2), " OR "), l...)
	}
}

// queueChanges adds statements for each table and kind of change, removals first. Names come before rows, since a name that
// exists fails.
func queueChanges(p *pipeline, changes []*rowstore.Change) {
	var inserted, updated, names, marks values
	var removed []any
	var requests, answers parts
	var noNames, noMarks pairs
	for _, c := range changes {
		r := c.Row
		switch {
		case c.Remove:
			removed = append(removed, r.Handle)
			requests.add(r.Handle, nil)
			answers.add(r.Handle, nil)
		case c.Insert:
			inserted.add(rowArgs(r)...)
		default:
			updated.add(rowArgs(r)...)
		}
		if c.Request {
			requests.add(r.Handle, r.Request)
		}
		if c.Answer {
			answers.add(r.Handle, r.Answer)
		}
		for i := range c.AddNames {
			names.add(c.AddNames[i][:], r.Handle)
		}
		for i := range c.RemoveNames {
			noNames.add(c.RemoveNames[i][:], r.Handle)
		}
		for _, m := range c.AddMarks {
			marks.add(m, r.Handle)
		}
		for _, m := range c.LeaveMarks {
			marks.add(m, int64(0))
		}
		for _, m := range c.RemoveMarks {
			noMarks.add(m, r.Handle)
		}
	}
	if len(removed) > 0 {
		p.queueFor(len(removed), "DELETE FROM {{s}}.operations WHERE handle IN "+places(len(removed)), removed...)
	}
	noNames.queue(p, "names", "digest")
	noMarks.queue(p, "marks", "mark")
	names.queue(p, "INSERT INTO {{s}}.names (digest, handle) VALUES ", "")
	inserted.queue(p, insertRows, "")
	updated.queue(p, insertRows, orUpdate)
	requests.queue(p, "requests")
	answers.queue(p, "answers")
	marks.queue(p, "INSERT INTO {{s}}.marks (mark, handle) VALUES ", " ON DUPLICATE KEY UPDATE handle = VALUES(handle)")
}
