package rows

import (
	"context"
	"math"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

const (
	flowColumns  = "handle, name, scope, parent, id, `function`, version, state, coalesce(holder, ''), due_at, ended_at, tombstone, claim, facts, input"
	insertFlow   = "INSERT INTO {{s}}.flows (handle, name, scope, parent, id, `function`, version, state, holder, due_at, ended_at, tombstone, claim, facts, input, reap_at) VALUES "
	orUpdateFlow = " ON DUPLICATE KEY UPDATE scope = VALUES(scope), parent = VALUES(parent), id = VALUES(id), `function` = VALUES(`function`), version = VALUES(version), state = VALUES(state), holder = VALUES(holder), " +
		"due_at = VALUES(due_at), ended_at = VALUES(ended_at), tombstone = VALUES(tombstone), claim = VALUES(claim), facts = VALUES(facts), input = VALUES(input), reap_at = VALUES(reap_at)"
	countFlows = `SELECT (SELECT coalesce(max(handle), 0) FROM {{s}}.flows), (SELECT count(*) FROM {{s}}.flows WHERE state = 1),
		(SELECT count(*) FROM {{s}}.flows WHERE state = 2), (SELECT count(*) FROM {{s}}.flows WHERE state = 5), (SELECT count(*) FROM {{s}}.flows WHERE state = 2 AND due_at <= ?)`
)

// Flow implements rowstore.Reader. A locking read returns the row as its last holder has left it.
func (r *reader) Flow(ctx context.Context, handle int64, name rowstore.Digest, lock rowstore.Lock) (f *rowstore.Flow, err error) {
	where, arg := "name = ?", any(name[:])
	if handle != 0 {
		where, arg = "handle = ?", handle
	}
	how := map[rowstore.Lock]string{rowstore.TryLock: " FOR UPDATE SKIP LOCKED", rowstore.WaitLock: " FOR UPDATE", rowstore.ShareLock: "{{share}}"}[lock]
	p, exists := r.pipeline(), int64(0)
	p.queue(func(rows columns.Row) (err error) {
		f, err = columns.Flow(rows)
		return err
	}, "SELECT "+flowColumns+" FROM {{s}}.flows WHERE "+where+how, arg)
	if lock == rowstore.TryLock {
		p.queue(columns.One(&exists), "SELECT handle FROM {{s}}.flows WHERE "+where, arg)
	}
	err = p.send(ctx, r.c)
	switch {
	case err != nil || f != nil:
		return f, r.meaning(err)
	case exists != 0:
		return &rowstore.Flow{Handle: exists, Locked: true}, nil
	case handle == 0 && lock == rowstore.TryLock: // another transaction may be inserting the name
		return nil, r.query(ctx, ignored, "SELECT handle FROM {{s}}.flows WHERE name = ?{{share}} NOWAIT", arg)
	}
	return nil, nil
}

// Steps implements rowstore.Reader.
func (r *reader) Steps(ctx context.Context, handle int64) (steps []rowstore.Step, err error) {
	err = r.query(ctx, columns.Into(&steps, columns.Step), "SELECT seq, kind, name, place, beside, noted_at, result, checksum FROM {{s}}.flow_steps WHERE flow = ? ORDER BY seq", handle)
	return steps, err
}

// Flows implements rowstore.Reader.
func (r *reader) Flows(ctx context.Context, scan rowstore.FlowScan) (page []*rowstore.Flow, err error) {
	index, where, order, args := "PRIMARY", "handle > ? AND handle < ?", "handle", []any(nil)
	after := func(column string) {
		where += " AND (" + column + " > ? OR " + column + " = ? AND handle > ?)"
		order = column + ", handle"
		args = append(args, scan.After.Key, scan.After.Key, scan.After.Handle)
	}
	switch scan.Index {
	case rowstore.FlowsByDue:
		index, where, args = "due", "state = 2 AND due_at BETWEEN ? AND ?", []any{-scan.By, scan.By}
		after("due_at")
	case rowstore.FlowsEnded:
		index, where, args = "reap", "reap_at <= ?", []any{scan.By}
		after("reap_at")
	default:
		before := scan.Before
		if before == 0 {
			before = math.MaxInt64
		}
		args = []any{scan.After.Handle, before}
		if state := map[rowstore.FlowIndex]string{rowstore.FlowsRunning: "state = 1 AND ", rowstore.FlowsAside: "state = 5 AND "}[scan.Index]; state != "" {
			index, where = "states", state+where
		}
	}
	if scan.Newest {
		order += " DESC"
	}
	err = r.query(ctx, columns.Into(&page, columns.Flow), "SELECT "+flowColumns+" FROM {{s}}.flows FORCE INDEX ("+index+") WHERE "+where+" ORDER BY "+order+" LIMIT ?", append(args, scan.Limit)...)
	return page, err
}

// CountFlows implements rowstore.Reader.
func (r *reader) CountFlows(ctx context.Context, late int64) (n rowstore.FlowCount, err error) {
	err = r.query(ctx, columns.One(&n.Begun, &n.Running, &n.Waiting, &n.Aside, &n.Late), countFlows, late)
	return n, err
}

// FlowHandle implements rowstore.Tx.
func (t *tx) FlowHandle(ctx context.Context) (int64, error) { return t.d.flows.take(ctx, t.d) }

// PutFlow implements rowstore.Tx. The transaction has locked a row that it updates.
func (t *tx) PutFlow(ctx context.Context, f *rowstore.Flow, insert bool) error {
	text := insertFlow + places(16)
	if !insert {
		text += orUpdateFlow
	}
	p := t.pipeline()
	p.queue(nil, text, f.Handle, f.Name[:], f.Ref.Scope, f.Ref.Parent, f.Ref.ID, f.Function.Name, f.Function.Version, f.State, orNull(f.Holder != "", f.Holder), orNull(f.HasDue, f.Due), orNull(f.HasEnded, f.Ended),
		f.Tombstone, f.Claim, f.Facts, f.Input, orNull(f.HasEnded && !f.Tombstone, f.Ended))
	return t.sendLater(ctx, p)
}

// AddSteps implements rowstore.Tx.
func (t *tx) AddSteps(ctx context.Context, handle int64, steps []rowstore.Step) error {
	var rows values
	for _, s := range steps {
		rows.add(handle, s.Seq, uint8(s.Kind), s.Name, s.Position, s.Parallel, s.At.UnixMilli(), s.Result, s.Sum)
	}
	p := t.pipeline()
	rows.queue(p, "INSERT INTO {{s}}.flow_steps (flow, seq, kind, name, place, beside, noted_at, result, checksum) VALUES ", " ON DUPLICATE KEY UPDATE seq = VALUES(seq)")
	return t.sendLater(ctx, p)
}

// RemoveSteps implements rowstore.Tx.
func (t *tx) RemoveSteps(ctx context.Context, handle int64) error {
	p := t.pipeline()
	p.queue(nil, "DELETE FROM {{s}}.flow_steps WHERE flow = ?", handle)
	return t.sendLater(ctx, p)
}

// sendLater leaves writes to the next read, or to COMMIT. In an application transaction it sends them.
func (t *tx) sendLater(ctx context.Context, p *pipeline) error {
	if t.lane != nil {
		t.later = p
		return nil
	}
	return t.meaning(p.send(ctx, t.c))
}
