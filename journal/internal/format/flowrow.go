package format

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
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
	return binary.LittleEndian.AppendUint32(encoded, sumOfFlow(encoded, &f, Due(&f)))
}

// Due is the time in a flow's column due_at. A flow that is put off for long has its due time mirrored at 1970, as in Wake.
func Due(f *journal.Flow) time.Time {
	if f.PutOff() {
		return mirrored(f.DueAt)
	}
	return f.DueAt
}

// sumOfFlow is the sum of facts and of everything else that is in the flow's row.
func sumOfFlow(facts []byte, f *journal.Flow, due time.Time) uint32 {
	e := encoder{buf: make([]byte, 0, 256+len(f.Input))}
	e.int(f.Handle)
	for _, s := range [...]string{f.Scope, f.Parent, f.ID, f.Function.Name, f.Holder} {
		e.string(s)
	}
	e.int(int64(f.Function.Version))
	e.byte(byte(f.State))
	e.bools(f.Tombstone)
	e.int(f.Claim)
	e.time(due)
	e.time(f.EndedAt)
	e.bytes(f.Input)
	return crc32.Update(Sum(facts), castagnoli, e.buf)
}

// DecodeFlow adds the facts to a flow with the values of its columns. DueAt is the column's, see Due. If the checksum is
// wrong, DecodeFlow adds the facts all the same, and returns ErrSum.
func DecodeFlow(f *journal.Flow, sealed []byte) error {
	encoded := sealed[:max(0, len(sealed)-SumSize)]
	whole := SumIn(sealed) == sumOfFlow(encoded, f, f.DueAt)
	var facts flowFacts
	if err := json.Unmarshal(encoded, &facts); err != nil {
		return errors.Join(ErrDamaged, err)
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
		return ErrSum
	}
	return nil
}

// StepSum is the checksum of a step's row.
func StepSum(flow int64, s journal.StepRecord) int64 {
	e := encoder{buf: make([]byte, 0, 64+len(s.Name)+len(s.Result))}
	for _, n := range [...]int64{flow, int64(s.Seq), int64(s.Kind), int64(s.Position), s.At.UnixMilli()} {
		e.int(n)
	}
	e.bools(s.Parallel)
	e.string(s.Name)
	e.bytes(s.Result)
	return int64(Sum(e.buf))
}
