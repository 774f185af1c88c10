package record

import (
	"database/sql/driver"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// Statements for the rows of flows and their steps. {{schema}} stands for the schema's quoted name.
const (
	SelectFlow = `SELECT handle, scope, parent, id, function, version, state, holder, due_at, ended_at, tombstone, facts, input, claim
		FROM {{schema}}.flows`
	// A step that is recorded already stays as it is.
	InsertStep = `INSERT INTO {{schema}}.flow_steps (flow, seq, kind, name, position, parallel, at, result, sum)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (flow, seq) DO NOTHING`
	InsertFlow = `INSERT INTO {{schema}}.flows (identity, scope, parent, id, function, version, state, holder, claim, due_at, tombstone, facts, input)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, false, $11, $12) ON CONFLICT (identity) DO NOTHING RETURNING handle`
	UpdateFlow = `UPDATE {{schema}}.flows SET state = $3, holder = $4, claim = $5, due_at = $6, ended_at = $7, facts = $8 WHERE handle = $1 AND identity = $2`
	ReapFlow   = `UPDATE {{schema}}.flows SET tombstone = true, input = NULL, facts = $3 WHERE handle = $1 AND identity = $2`
	DropSteps  = `DELETE FROM {{schema}}.flow_steps WHERE flow = $1`
)

// ScanFlow reads a row of SelectFlow.
func ScanFlow(row Scanner) (journal.Flow, error) {
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

// FlowFacts returns the flow's facts, with the sum of its row.
func FlowFacts(f journal.Flow) []byte {
	f.Handle = 0
	return format.EncodeFlowFacts(f)
}

// ScanStep reads a row of a step, with the handle of its flow before it.
func ScanStep(row Scanner, flow *int64) (journal.StepRecord, error) {
	var seq, kind, position, at, sum int64
	var name, result []byte
	var parallel bool
	if err := row.Scan(flow, &seq, &kind, &name, &position, &parallel, &at, &result, &sum); err != nil {
		return journal.StepRecord{}, err
	}
	return format.ReadStep(*flow, []driver.Value{seq, kind, string(name), position, number(parallel), at, result, sum})
}

// StepArgs returns the arguments of InsertStep.
func StepArgs(flow int64, s journal.StepRecord) []any {
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
