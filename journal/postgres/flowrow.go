package postgres

import (
	"database/sql/driver"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

const (
	selectFlow = `SELECT handle, scope, parent, id, function, version, state, holder, due_at, ended_at, tombstone, facts, input, claim
		FROM {{schema}}.flows`
	// A step that is recorded already stays as it is.
	insertStep = `INSERT INTO {{schema}}.flow_steps (flow, seq, kind, name, position, parallel, at, result, sum)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (flow, seq) DO NOTHING`
	insertFlow = `INSERT INTO {{schema}}.flows (identity, scope, parent, id, function, version, state, holder, claim, tombstone, facts, input)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, false, $10, $11) ON CONFLICT (identity) DO NOTHING RETURNING handle`
	updateFlow = `UPDATE {{schema}}.flows SET state = $3, holder = $4, claim = $5, due_at = $6, ended_at = $7, facts = $8 WHERE handle = $1 AND identity = $2`
	reapFlow   = `UPDATE {{schema}}.flows SET tombstone = true, input = NULL, facts = $3 WHERE handle = $1 AND identity = $2`
	dropSteps  = `DELETE FROM {{schema}}.flow_steps WHERE flow = $1`
)

// scanFlow reads a row of selectFlow.
func scanFlow(row scanner) (journal.Flow, error) {
	var handle, version, state, claim int64
	var scope, parent, id, function, facts, input []byte
	var holder *string
	var due, ended *int64
	var tombstone bool
	if err := row.Scan(&handle, &scope, &parent, &id, &function, &version, &state, &holder, &due, &ended, &tombstone, &facts, &input, &claim); err != nil {
		return journal.Flow{}, err
	}
	// The handle is given by the insert itself, and is not in the sum.
	f, err := format.ReadFlow([]driver.Value{
		int64(0), string(scope), string(parent), string(id), string(function), version, state, nullable(holder), nullable(due), nullable(ended),
		number(tombstone), facts, input, claim,
	})
	f.Handle = handle
	return f, err
}

// flowFacts returns the flow's facts, with the sum of its row.
func flowFacts(f journal.Flow) []byte {
	f.Handle = 0
	return format.EncodeFlowFacts(f)
}

// scanStep reads a row of stepsOfFlows.
func scanStep(row scanner, flow *int64) (journal.StepRecord, error) {
	var seq, kind, position, at, sum int64
	var name, result []byte
	var parallel bool
	if err := row.Scan(flow, &seq, &kind, &name, &position, &parallel, &at, &result, &sum); err != nil {
		return journal.StepRecord{}, err
	}
	return format.ReadStep(*flow, []driver.Value{seq, kind, string(name), position, number(parallel), at, result, sum})
}

// stepArgs returns the arguments of insertStep.
func stepArgs(flow int64, s journal.StepRecord) []any {
	args := format.StepArgs(flow, s)
	args[3] = []byte(s.Name)
	return args
}

// nullable returns the value of a column, nil for NULL.
func nullable[T any](v *T) driver.Value {
	if v == nil {
		return nil
	}
	return *v
}

// number returns a flag in the form of package format.
func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
