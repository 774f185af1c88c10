package rows

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

const (
	flowColumns = "handle, name, scope, parent, id, function, version, state, holder, due_at, ended_at, tombstone, claim, facts, input"
	insertFlow  = "INSERT INTO onceward_flows (" + flowColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
	updateFlow  = `UPDATE onceward_flows SET scope = ?3, parent = ?4, id = ?5, function = ?6, version = ?7, state = ?8, holder = ?9, due_at = ?10, ended_at = ?11,
		tombstone = ?12, claim = ?13, facts = ?14, input = ?15 WHERE handle = ?1 AND name = ?2`
	addStep     = "INSERT INTO onceward_steps (flow, seq, kind, name, position, parallel, at, result, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
	selectSteps = "SELECT seq, kind, name, position, parallel, at, result, sum FROM onceward_steps WHERE flow = ? ORDER BY seq"
	countFlows  = `SELECT (SELECT coalesce(max(handle), 0) FROM onceward_flows), (SELECT count(*) FROM onceward_flows WHERE state = 1),
		(SELECT count(*) FROM onceward_flows WHERE state = 2), (SELECT count(*) FROM onceward_flows WHERE state = 5),
		(SELECT count(*) FROM onceward_flows WHERE state = 2 AND due_at <= ?)`
)

// flowOf reads flowColumns. A flow with another column type has no facts, and so is damaged.
func flowOf(v []driver.Value) *rowstore.Flow {
	f := &rowstore.Flow{Handle: v[0].(int64)}
	f.Due, _ = v[9].(int64)
	f.Ended, _ = v[10].(int64)
	_ = conn.Take(func(v []driver.Value) error {
		copy(f.Name[:], format.ToBytes(v[1]))
		f.Ref = journal.Ref{Scope: v[2].(string), Parent: v[3].(string), ID: v[4].(string)}
		f.Function, f.State = journal.FlowFunction{Name: v[5].(string), Version: int(v[6].(int64))}, uint8(v[7].(int64))
		f.Holder, _ = v[8].(string)
		f.HasDue, f.HasEnded, f.Tombstone, f.Claim = v[9] != nil, v[10] != nil, flag(v[11]), v[12].(int64)
		f.Facts, f.Input = format.ToBytes(v[13]), format.ToBytes(v[14])
		return nil
	}, v)
	return f
}

// Flow implements rowstore.Reader. The writer has the file's lock, so no row is locked for itself.
func (r *reader) Flow(ctx context.Context, handle int64, name rowstore.Digest, _ rowstore.Lock) (f *rowstore.Flow, err error) {
	text, arg := "SELECT "+flowColumns+" FROM onceward_flows WHERE name = ?", any(name[:])
	if handle != 0 {
		text, arg = "SELECT "+flowColumns+" FROM onceward_flows WHERE handle = ?", handle
	}
	err = r.each(ctx, text, []any{arg}, func(v []driver.Value) error {
		f = flowOf(v)
		return nil
	})
	return f, err
}

// Steps implements rowstore.Reader.
func (r *reader) Steps(ctx context.Context, handle int64) (steps []rowstore.Step, err error) {
	err = r.each(ctx, selectSteps, []any{handle}, func(v []driver.Value) error {
		steps = append(steps, rowstore.Step{StepRecord: journal.StepRecord{
			Seq: int(v[0].(int64)), Kind: journal.StepKind(v[1].(int64)), Name: v[2].(string), Position: int(v[3].(int64)), Parallel: v[4] == int64(1),
			At: format.ToTime(v[5]), Result: append([]byte(nil), format.ToBytes(v[6])...),
		}, Sum: v[7].(int64)})
		return nil
	})
	return steps, err
}

// Flows implements rowstore.Reader.
func (r *reader) Flows(ctx context.Context, scan rowstore.FlowScan) (page []*rowstore.Flow, err error) {
	where, order, args := "handle > ? AND handle < ?", "handle", []any{scan.After.Handle, before(scan.Before)}
	switch scan.Index {
	case rowstore.FlowsByDue:
		where, order = "state = 2 AND due_at BETWEEN ? AND ? AND (due_at, handle) > (?, ?)", "due_at, handle"
		args = []any{-scan.By, scan.By, scan.After.Key, scan.After.Handle}
	case rowstore.FlowsRunning:
		where += " AND state = 1"
	case rowstore.FlowsAside:
		where += " AND state = 5"
	case rowstore.FlowsEnded:
		where, order = "ended_at IS NOT NULL AND tombstone = 0 AND ended_at <= ? AND (ended_at, handle) > (?, ?)", "ended_at, handle"
		args = []any{scan.By, scan.After.Key, scan.After.Handle}
	}
	if scan.Newest {
		order += " DESC"
	}
	text := fmt.Sprintf("SELECT %s FROM onceward_flows WHERE %s ORDER BY %s LIMIT ?", flowColumns, where, order)
	err = r.each(ctx, text, append(args, int64(scan.Limit)), func(v []driver.Value) error {
		page = append(page, flowOf(v))
		return nil
	})
	if err == nil {
		err = inOrder(page, scan.After, scan.Before, scan.Newest, func(f *rowstore.Flow) rowstore.Position {
			at := rowstore.Position{Handle: f.Handle}
			switch scan.Index {
			case rowstore.FlowsByDue:
				at.Key = f.Due
			case rowstore.FlowsEnded:
				at.Key = f.Ended
			}
			return at
		})
	}
	return page, err
}

// CountFlows implements rowstore.Reader.
func (r *reader) CountFlows(ctx context.Context, late int64) (n rowstore.FlowCount, err error) {
	err = r.each(ctx, countFlows, []any{late}, func(v []driver.Value) error {
		n = rowstore.FlowCount{Begun: v[0].(int64), Running: v[1].(int64), Waiting: v[2].(int64), Aside: v[3].(int64), Late: v[4].(int64)}
		return nil
	})
	return n, err
}

// FlowHandle implements rowstore.Tx. No flow's row is ever removed.
func (t *tx) FlowHandle(ctx context.Context) (handle int64, err error) {
	err = t.each(ctx, "SELECT coalesce(max(handle), 0) + 1 FROM onceward_flows", nil, func(v []driver.Value) error {
		handle = v[0].(int64)
		return nil
	})
	return handle, conn.Explain(t.d.path, "read", err)
}

// PutFlow implements rowstore.Tx.
func (t *tx) PutFlow(_ context.Context, f *rowstore.Flow, insert bool) error {
	var due, ended, input any
	if f.HasDue {
		due = f.Due
	}
	if f.HasEnded {
		ended = f.Ended
	}
	if len(f.Input) > 0 {
		input = f.Input
	}
	text := updateFlow
	if insert {
		text = insertFlow
	}
	return one(t.exec(text, f.Handle, f.Name[:], f.Ref.Scope, f.Ref.Parent, f.Ref.ID, f.Function.Name, int64(f.Function.Version), int64(f.State),
		format.Nullable(f.Holder), due, ended, f.Tombstone, f.Claim, f.Facts, input))
}

// AddSteps implements rowstore.Tx.
func (t *tx) AddSteps(_ context.Context, handle int64, steps []rowstore.Step) error {
	for _, s := range steps {
		var result any
		if len(s.Result) > 0 {
			result = s.Result
		}
		if _, err := t.exec(addStep, handle, int64(s.Seq), int64(s.Kind), s.Name, int64(s.Position), s.Parallel, s.At.UnixMilli(), result, s.Sum); err != nil {
			return err
		}
	}
	return nil
}

// RemoveSteps implements rowstore.Tx.
func (t *tx) RemoveSteps(_ context.Context, handle int64) error {
	_, err := t.exec("DELETE FROM onceward_steps WHERE flow = ?", handle)
	return err
}
