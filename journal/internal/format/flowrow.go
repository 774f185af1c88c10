package format

import (
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
)

// flowFacts are what is kept of a flow without a column of its own.
type flowFacts struct {
	Key        string                `json:"key"`
	Input      string                `json:"input_digest"`
	Trace      string                `json:"trace,omitempty"`
	Inbound    string                `json:"inbound_endpoint,omitempty"`
	Undoing    bool                  `json:"undoing,omitempty"`
	GivenUpFor string                `json:"given_up_for,omitempty"`
	Cause      string                `json:"cause,omitempty"`
	WaitsFor   *journal.Ref          `json:"waits_for,omitempty"`
	Failures   int                   `json:"failures,omitempty"`
	History    []journal.FlowFailure `json:"history,omitempty"`
	Created    int64                 `json:"created"`
	Updated    int64                 `json:"updated"`
	Parked     int64                 `json:"parked_since,omitempty"`
}

// EncodeFlowFacts encodes what is kept of a flow without a column of its own, and the sum of
// its row.
func EncodeFlowFacts(f journal.Flow) []byte {
	facts := flowFacts{
		Key: f.Key, Input: f.InputDigest, Trace: f.Trace, Inbound: f.InboundEndpoint, Undoing: f.Undoing, GivenUpFor: f.GivenUpFor, Cause: f.Cause,
		Failures: f.Failures, History: f.History, Created: f.CreatedAt.UnixMilli(), Updated: f.UpdatedAt.UnixMilli(),
	}
	if f.WaitsFor != (journal.Ref{}) {
		facts.WaitsFor = &f.WaitsFor
	}
	if !f.ParkedSince.IsZero() {
		facts.Parked = f.ParkedSince.UnixMilli()
	}
	encoded, _ := json.Marshal(facts) // strings, numbers and times: it can't fail
	return binary.LittleEndian.AppendUint32(encoded, sumOfFlow(encoded, f))
}

// Due is the time in a flow's column due_at. A flow that is put off for long has its due time mirrored at 1970, as in Wake.
func Due(f *journal.Flow) time.Time {
	if f.PutOff() {
		return mirrored(f.DueAt)
	}
	return f.DueAt
}

// sumOfFlow is the sum of facts and of everything else that is in the flow's row.
func sumOfFlow(facts []byte, f journal.Flow) uint32 {
	e := encoder{buf: make([]byte, 0, 256+len(f.Input))}
	e.int(f.Handle)
	for _, s := range [...]string{f.Scope, f.Parent, f.ID, f.Function.Name, f.Holder} {
		e.string(s)
	}
	e.int(int64(f.Function.Version))
	e.byte(byte(f.State))
	e.bools(f.Tombstone)
	e.int(f.Claim)
	e.time(Due(&f))
	e.time(f.EndedAt)
	e.bytes(f.Input)
	return crc32.Update(Sum(facts), castagnoli, e.buf)
}

// ReadFlow reads the columns of a flow: handle, scope, parent, ID, name and version of its function, state, holder, due and end
// times, tombstone, facts, input and claim. It returns the flow together with ErrSum if its checksum is wrong, and panics as ToTime does.
func ReadFlow(v []driver.Value) (journal.Flow, error) {
	tombstone := toByte(v[10])
	if tombstone > 1 {
		return journal.Flow{}, ErrDamaged
	}
	f := journal.Flow{
		Handle:    v[0].(int64),
		Ref:       journal.Ref{Scope: v[1].(string), Parent: v[2].(string), ID: v[3].(string)},
		Function:  journal.FlowFunction{Name: v[4].(string), Version: int(v[5].(int64))},
		State:     journal.FlowState(toByte(v[6])),
		Holder:    toString(v[7]),
		DueAt:     ToTime(v[8]),
		EndedAt:   ToTime(v[9]),
		Tombstone: tombstone == 1,
		Claim:     v[13].(int64),
	}
	if input := ToBytes(v[12]); len(input) > 0 {
		f.Input = slices.Clone(input)
	}
	encoded, sealed := ToBytes(v[11]), SumIn(ToBytes(v[11]))
	encoded = encoded[:max(0, len(encoded)-SumSize)]
	whole := sealed == sumOfFlow(encoded, f)
	var facts flowFacts
	if err := json.Unmarshal(encoded, &facts); err != nil {
		return journal.Flow{}, errors.Join(ErrDamaged, err)
	}
	f.Key, f.InputDigest, f.Undoing, f.GivenUpFor = facts.Key, facts.Input, facts.Undoing, facts.GivenUpFor
	f.Trace, f.InboundEndpoint = facts.Trace, facts.Inbound
	f.Cause, f.Failures, f.History = facts.Cause, facts.Failures, facts.History
	f.CreatedAt, f.UpdatedAt = time.UnixMilli(facts.Created).UTC(), time.UnixMilli(facts.Updated).UTC()
	if facts.WaitsFor != nil {
		f.WaitsFor = *facts.WaitsFor
	}
	if facts.Parked != 0 {
		f.ParkedSince = time.UnixMilli(facts.Parked).UTC()
	}
	if f.PutOff() {
		f.DueAt = mirrored(f.DueAt)
	}
	if !whole {
		return f, ErrSum
	}
	return f, nil
}

// StepArgs are the columns of a step: its flow, and what it says of itself.
func StepArgs(flow int64, s journal.StepRecord) []any {
	return append(make([]any, 0, 11), // there is room for the flow and its claim once more
		flow, s.Seq, int64(s.Kind), s.Name, s.Position, s.Parallel, s.At.UnixMilli(), s.Result, int64(sumOfStep(flow, s)))
}

// sumOfStep is the sum of a step's row.
func sumOfStep(flow int64, s journal.StepRecord) uint32 {
	e := encoder{buf: make([]byte, 0, 64+len(s.Name)+len(s.Result))}
	for _, n := range [...]int64{flow, int64(s.Seq), int64(s.Kind), int64(s.Position), s.At.UnixMilli()} {
		e.int(n)
	}
	e.bools(s.Parallel)
	e.string(s.Name)
	e.bytes(s.Result)
	return Sum(e.buf)
}
