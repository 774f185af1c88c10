package statements

import (
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// InsertStep and StepValues insert what format.StepArgs returns. A step that is recorded already stays as it is.
const (
	InsertStep = "INSERT OR IGNORE INTO onceward_flow_steps (flow, seq, kind, name, position, parallel, at, result, sum)"
	StepValues = " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// NewestFlow selects the latest handle of a flow. InsertFlow inserts a flow.
const (
	NewestFlow = "SELECT coalesce(max(handle), 0) FROM onceward_flows"
	InsertFlow = `INSERT INTO onceward_flows (handle, scope, parent, id, function, version, state, holder, claim, due_at, tombstone, facts, input)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)`
)

// InsertFlowArgs are the arguments of InsertFlow.
func InsertFlowArgs(f *journal.Flow) []any {
	return []any{f.Handle, f.Scope, f.Parent, f.ID, f.Function.Name, f.Function.Version, int64(f.State), format.Nullable(f.Holder),
		f.Claim, format.FromTime(format.Due(f)), format.EncodeFlowFacts(*f), f.Input}
}

// Flows are the writer's statements for flows.
type Flows struct {
	ByHandle, HandleOf, Steps                  *conn.Stmt
	Insert, Update, InsertStep, InsertDeferred *conn.Stmt
	Reap, DropSteps                            *conn.Stmt
	NextHolder, HeldBy, Due, Ended             *conn.Stmt
	DueAfter                                   *conn.Stmt
	Newest                                     *conn.Stmt
}

// NewFlows prepares them on a connection.
func NewFlows(c *conn.Conn) (*Flows, error) {
	s := new(Flows)
	for _, p := range []struct {
		stmt **conn.Stmt
		text string
	}{
		{&s.ByHandle, read.SelectFlow + " WHERE handle = ?"},
		{&s.HandleOf, "SELECT handle FROM onceward_flows WHERE id = ? AND scope = ? AND parent = ?"},
		{&s.Steps, read.SelectSteps},
		{&s.Newest, NewestFlow},
		{&s.Insert, InsertFlow},
		{&s.Update, "UPDATE onceward_flows SET state = ?, holder = ?, claim = ?, due_at = ?, ended_at = ?, facts = ? WHERE handle = ?"},
		{&s.InsertStep, InsertStep + StepValues},
		{&s.InsertDeferred, InsertStep + ` SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?
			WHERE EXISTS (SELECT 1 FROM onceward_flows WHERE handle = ? AND state = 1 AND claim = ?)`},
		{&s.Reap, "UPDATE onceward_flows SET tombstone = 1, input = NULL, facts = ? WHERE handle = ?"},
		{&s.DropSteps, "DELETE FROM onceward_flow_steps WHERE flow = ?"},
		{&s.NextHolder, "SELECT holder FROM onceward_flows INDEXED BY onceward_flows_held WHERE holder > ? ORDER BY holder LIMIT 1"},
		{&s.HeldBy, "SELECT handle, function, version FROM onceward_flows INDEXED BY onceward_flows_held WHERE holder = ? ORDER BY handle"},
		{&s.Due, "SELECT handle, function, version FROM onceward_flows INDEXED BY onceward_flows_due WHERE state = 2 AND due_at BETWEEN -?1 AND ?1 ORDER BY due_at"},
		{&s.DueAfter, "SELECT handle FROM onceward_flows INDEXED BY onceward_flows_due WHERE state = 2 AND (due_at > ?1 OR due_at < -?1)"},
		{&s.Ended, "SELECT handle FROM onceward_flows INDEXED BY onceward_flows_ended WHERE ended_at <= ? AND tombstone = 0 ORDER BY ended_at LIMIT ?"},
	} {
		var err error
		if *p.stmt, err = c.Prepare(p.text); err != nil {
			return nil, err
		}
	}
	return s, nil
}
