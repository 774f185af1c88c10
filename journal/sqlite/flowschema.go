package sqlite

import (
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// flowStatements are the writer's, for flows.
type flowStatements struct {
	byHandle, byRef, steps                     *conn.Stmt
	insert, update, insertStep, insertDeferred *conn.Stmt
	reap, dropSteps                            *conn.Stmt
	nextHolder, heldBy, due, ended             *conn.Stmt
	dueAfter                                   *conn.Stmt
	nextHandle                                 *conn.Stmt
}

func newFlowStatements(c *conn.Conn) (*flowStatements, error) {
	s := new(flowStatements)
	for _, p := range []struct {
		stmt **conn.Stmt
		text string
	}{
		{&s.byHandle, read.SelectFlow + " WHERE handle = ?"},
		{&s.byRef, read.SelectFlow + " WHERE id = ? AND scope = ? AND parent = ?"},
		{&s.steps, read.SelectSteps},
		{&s.nextHandle, "SELECT coalesce(max(handle), 0) + 1 FROM onceward_flows"},
		{&s.insert, `INSERT INTO onceward_flows (handle, scope, parent, id, function, version, state, holder, claim, tombstone, facts, input)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)`},
		{&s.update, "UPDATE onceward_flows SET state = ?, holder = ?, claim = ?, due_at = ?, ended_at = ?, facts = ? WHERE handle = ?"},
		{&s.insertStep, insertStep + stepValues},
		{&s.insertDeferred, insertStep + ` SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
			WHERE EXISTS (SELECT 1 FROM onceward_flows WHERE handle = ?1 AND state = 1 AND claim = ?10)`},
		{&s.reap, "UPDATE onceward_flows SET tombstone = 1, input = NULL, facts = ? WHERE handle = ?"},
		{&s.dropSteps, "DELETE FROM onceward_flow_steps WHERE flow = ?"},
		{&s.nextHolder, "SELECT holder FROM onceward_flows INDEXED BY onceward_flows_held WHERE holder > ? ORDER BY holder LIMIT 1"},
		{&s.heldBy, "SELECT handle, function, version FROM onceward_flows INDEXED BY onceward_flows_held WHERE holder = ? ORDER BY handle"},
		{&s.due, "SELECT handle, function, version FROM onceward_flows INDEXED BY onceward_flows_due WHERE state = 2 AND due_at BETWEEN -?1 AND ?1 ORDER BY due_at"},
		{&s.dueAfter, "SELECT handle FROM onceward_flows INDEXED BY onceward_flows_due WHERE state = 2 AND (due_at > ?1 OR due_at < -?1)"},
		{&s.ended, "SELECT handle FROM onceward_flows INDEXED BY onceward_flows_ended WHERE ended_at <= ? AND tombstone = 0 ORDER BY ended_at LIMIT ?"},
	} {
		var err error
		if *p.stmt, err = c.Prepare(p.text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

const (
	// A step that is recorded already stays as it is.
	insertStep = "INSERT OR IGNORE INTO onceward_flow_steps (flow, seq, kind, name, position, parallel, at, result, sum)"
	stepValues = " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
