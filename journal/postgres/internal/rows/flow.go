package rows

import (
	"context"
	"fmt"
	"math"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

const (
	flowColumns = "handle, name, scope, parent, id, function, version, state, coalesce(holder, ''), due_at, ended_at, tombstone, claim, facts, input"
	insertFlow  = `INSERT INTO {{s}}.flows (handle, name, scope, parent, id, function, version, state, holder, due_at, ended_at, tombstone, claim, facts, input)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT (name) DO NOTHING`
	updateFlow = `UPDATE {{s}}.flows SET scope = $3, parent = $4, id = $5, function = $6, version = $7, state = $8, holder = $9, due_at = $10, ended_at = $11,
		tombstone = $12, claim = $13, facts = $14, input = $15 WHERE handle = $1 AND name = $2`
	addStep     = "INSERT INTO {{s}}.flow_steps VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING"
	selectSteps = "SELECT seq, kind, name, position, parallel, at, result, sum FROM {{s}}.flow_steps WHERE flow = $1 ORDER BY seq"
	countFlows  = `SELECT (SELECT coalesce(max(handle), 0) FROM {{s}}.flows), (SELECT count(*) FROM {{s}}.flows WHERE state = 1),
		(SELECT count(*) FROM {{s}}.flows WHERE state = 2), (SELECT count(*) FROM {{s}}.flows WHERE state = 5),
		(SELECT count(*) FROM {{s}}.flows WHERE state = 2 AND due_at <= $1)`
)

// Flow implements rowstore.Reader. The lock is a separate statement, so the next statement sees the changes of the last
// holder.
func (r *reader) Flow(ctx context.Context, handle int64, name rowstore.Digest, lock rowstore.Lock) (f *rowstore.Flow, err error) {
	return r.flow(ctx, r.pipeline(), handle, name, lock)
}

// flow reads a flow behind what the pipeline has.
func (r *reader) flow(ctx context.Context, p *pipeline, handle int64, name rowstore.Digest, lock rowstore.Lock) (f *rowstore.Flow, err error) {
	where, arg := "name = $1", any(name[:])
	if handle != 0 {
		where, arg = "handle = $1", handle
	}
	locked := lock == rowstore.NoLock
	how := map[rowstore.Lock]string{rowstore.TryLock: " FOR UPDATE SKIP LOCKED", rowstore.WaitLock: " FOR UPDATE", rowstore.ShareLock: " FOR SHARE"}[lock]
	if !locked {
		p.queue(func(rows columns.Row) error {
			var handle int64
			locked = true
			return rows.Scan(&handle)
		}, "SELECT handle FROM {{s}}.flows WHERE "+where+how, arg)
	}
	p.queue(func(rows columns.Row) (err error) {
		f, err = columns.Flow(rows)
		return err
	}, "SELECT "+flowColumns+" FROM {{s}}.flows WHERE "+where, arg)
	_, err = p.send(ctx, r.c)
	switch {
	case err != nil || f == nil || locked:
		return f, meaning(err)
	case lock >= rowstore.WaitLock:
		return nil, rowstore.ErrMissed // it came after the lock
	}
	return &rowstore.Flow{Handle: f.Handle, Locked: true}, nil
}

// Steps implements rowstore.Reader.
func (r *reader) Steps(ctx context.Context, handle int64) (steps []rowstore.Step, err error) {
	p := r.pipeline()
	p.queue(columns.Into(&steps, columns.Step), selectSteps, handle)
	_, err = p.send(ctx, r.c)
	return steps, meaning(err)
}

// Flows implements rowstore.Reader.
func (r *reader) Flows(ctx context.Context, scan rowstore.FlowScan) (page []*rowstore.Flow, err error) {
	var args params
	order := "handle"
	var where string
	after := func(column string) string {
		order = column + ", handle"
		return " AND (" + column + ", handle) > (" + args.add(scan.After.Key) + ", " + args.add(scan.After.Handle) + ")"
	}
	switch scan.Index {
	case rowstore.FlowsByDue:
		where = "state = 2 AND due_at BETWEEN " + args.add(-scan.By) + " AND " + args.add(scan.By) + after("due_at")
	case rowstore.FlowsEnded:
		where = "ended_at IS NOT NULL AND NOT tombstone AND ended_at <= " + args.add(scan.By) + after("ended_at")
	default:
		before := scan.Before
		if before == 0 {
			before = math.MaxInt64
		}
		where = map[rowstore.FlowIndex]string{rowstore.FlowsRunning: "state = 1 AND ", rowstore.FlowsAside: "state = 5 AND "}[scan.Index] +
			"handle > " + args.add(scan.After.Handle) + " AND handle < " + args.add(before)
	}
	if scan.Newest {
		order += " DESC"
	}
	p := r.pipeline()
	p.queue(columns.Into(&page, columns.Flow), fmt.Sprintf("SELECT %s FROM {{s}}.flows WHERE %s ORDER BY %s LIMIT %s", flowColumns, where, order, args.add(int64(scan.Limit))), args...)
	_, err = p.send(ctx, r.c)
	return page, meaning(err)
}

// CountFlows implements rowstore.Reader.
func (r *reader) CountFlows(ctx context.Context, late int64) (n rowstore.FlowCount, err error) {
	err = r.c.QueryRow(ctx, r.d.in(countFlows), late).Scan(&n.Begun, &n.Running, &n.Waiting, &n.Aside, &n.Late)
	return n, meaning(err)
}

// FlowHandle implements rowstore.Tx.
func (t *tx) FlowHandle(ctx context.Context) (int64, error) {
	return t.d.flows.take(ctx, t.d, t.sequences())
}

// PutFlow implements rowstore.Tx.
func (t *tx) PutFlow(ctx context.Context, f *rowstore.Flow, insert bool) error {
	var holder *string
	var due, ended *int64
	if f.Holder != "" {
		holder = &f.Holder
	}
	if f.HasDue {
		due = &f.Due
	}
	if f.HasEnded {
		ended = &f.Ended
	}
	text := updateFlow
	if insert {
		text = insertFlow
	}
	return t.writeOne(ctx, text, f.Handle, f.Name[:], []byte(f.Ref.Scope), []byte(f.Ref.Parent), []byte(f.Ref.ID), []byte(f.Function.Name), int64(f.Function.Version),
		int16(f.State), holder, due, ended, f.Tombstone, f.Claim, f.Facts, f.Input)
}

// AddSteps implements rowstore.Tx.
func (t *tx) AddSteps(ctx context.Context, handle int64, steps []rowstore.Step) error {
	p := t.pipeline()
	for _, s := range steps {
		p.queue(nil, addStep, handle, int64(s.Seq), int16(s.Kind), []byte(s.Name), int64(s.Position), s.Parallel, s.At.UnixMilli(), s.Result, s.Sum)
	}
	return t.sendLater(ctx, p)
}

// RemoveSteps implements rowstore.Tx.
func (t *tx) RemoveSteps(ctx context.Context, handle int64) error {
	p := t.pipeline()
	p.queue(nil, "DELETE FROM {{s}}.flow_steps WHERE flow = $1", handle)
	return t.sendLater(ctx, p)
}
