package format

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/seal"
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
	Box        []byte                `json:"sealed,omitempty"` // Input, GivenUpFor, Cause and History
}

// flowPrivate is what a flow's box has. Undoing is in clear too, and the box says whether the input belongs to it.
type flowPrivate struct {
	HasInput   bool                  `json:"has_input,omitempty"`
	Undoing    bool                  `json:"undoing,omitempty"`
	Input      string                `json:"input_digest"`
	GivenUpFor string                `json:"given_up_for,omitempty"`
	Cause      string                `json:"cause,omitempty"`
	History    []journal.FlowFailure `json:"history,omitempty"`
}

// ofFlow is a flow box's subject.
func ofFlow(ref journal.Ref) subject { return subject{"flow", ref.Scope, ref.Parent, ref.ID, 0} }

// StoredFlow are a flow's private parts as they are stored.
type StoredFlow struct {
	Box   []byte // nil: the fields are in clear
	Input []byte
}

// EncodeFlow returns a flow's facts, with the checksum of its row, and the input. stored has the row's parts
// before, when the flow was was. A part stays in the stored form, also without the part's key, unless the fields have
// changed.
func (c Codec) EncodeFlow(f, was *journal.Flow, stored StoredFlow) (encoded, input []byte) {
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
	if input = f.Input; stored.Box != nil && !f.Tombstone {
		input = stored.Input
	} else if c.Ring != nil {
		input = c.sealBody(input, ofFlow(f.Ref))
	}
	switch {
	case f.Tombstone: // it has none of these fields
	case stored.Box != nil && samePrivateFlow(f, was):
		facts.Box = stored.Box
	case c.Ring != nil:
		private, _ := json.Marshal(flowPrivate{len(input) > 0, f.Undoing, f.InputDigest, f.GivenUpFor, f.Cause, f.History})
		facts.Box = c.seal(nil, private, ofFlow(f.Ref), besideFlow(f))
	}
	if facts.Box != nil {
		facts.Input, facts.GivenUpFor, facts.Cause, facts.History = "", "", "", nil
	}
	encoded, _ = json.Marshal(facts) // strings, numbers and times: it can't fail
	encoded = mark(encoded, facts.Box)
	return binary.LittleEndian.AppendUint32(encoded, sumOfFlow(encoded, f, Due(f), input)), input
}

// besideFlow is what stays as it is beside a flow's box: another function would make other requests of the input.
func besideFlow(f *journal.Flow) []byte {
	e := encoder{}
	e.string(f.Function.Name)
	e.int(int64(f.Function.Version))
	return e.buf
}

// samePrivateFlow reports whether a flow's box stays.
func samePrivateFlow(a, b *journal.Flow) bool {
	return a.Function == b.Function && a.Undoing == b.Undoing && a.InputDigest == b.InputDigest && a.GivenUpFor == b.GivenUpFor && a.Cause == b.Cause && slices.Equal(a.History, b.History)
}

// Due is the time in a flow's column due_at. The due time of a flow that is put off for long is mirrored at 1970, as in
// Wake.
func Due(f *journal.Flow) time.Time {
	if f.PutOff() {
		return mirrored(f.DueAt)
	}
	return f.DueAt
}

// sumOfFlow is the sum over facts and everything else in the flow's row.
func sumOfFlow(facts []byte, f *journal.Flow, due time.Time, input []byte) uint32 {
	e := encoder{buf: make([]byte, 0, 256+len(input))}
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
	e.bytes(input)
	return crc32.Update(Sum(facts), castagnoli, e.buf)
}

// DecodeFlow adds the facts and the input to a flow with the columns' values, and returns the private fields' box, or
// nil. DueAt is the column's, see Due. If the codec lacks a key, f.SealedBy has the key's ID. If the checksum is wrong,
// DecodeFlow adds the clear facts all the same, and returns ErrSum.
func (c Codec) DecodeFlow(f *journal.Flow, summed, input []byte) (box []byte, err error) {
	encoded := summed[:max(0, len(summed)-SumSize)]
	whole := SumIn(summed) == sumOfFlow(encoded, f, f.DueAt, input)
	var facts flowFacts
	if err := unmarshal(encoded, &facts, &facts.Box); err != nil {
		return nil, err
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
	inClear := facts.Input+facts.GivenUpFor+facts.Cause != "" || facts.History != nil
	switch {
	case !whole:
		return facts.Box, ErrSum
	case facts.Box != nil && inClear: // beside the box
		return nil, ErrDamaged
	case facts.Box != nil:
		return facts.Box, c.openFlow(f, facts.Box, input)
	case !c.readsClear() && (inClear || !f.Tombstone): // a tombstone has nothing to seal
		return nil, ErrClear
	}
	f.Input = bytes.Clone(input)
	return nil, nil
}

// openFlow adds a flow's private parts.
func (c Codec) openFlow(f *journal.Flow, box, input []byte) error {
	plain, by, err := c.open(box, ofFlow(f.Ref), besideFlow(f))
	if f.SealedBy = by; err != nil || by != "" {
		return err
	}
	var private flowPrivate
	if json.Unmarshal(plain, &private) != nil || private.Undoing != f.Undoing || private.HasInput && len(input) == 0 {
		return ErrDamaged
	}
	f.InputDigest, f.GivenUpFor, f.Cause, f.History = private.Input, private.GivenUpFor, private.Cause, private.History
	if len(input) > 0 {
		f.Input, f.SealedBy, err = c.open(input, ofFlow(f.Ref).body(), nil)
	}
	return err
}

func ofStep(flow journal.Ref, seq int) subject {
	return subject{"step", flow.Scope, flow.Parent, flow.ID, int64(seq)}
}

// EncodeStep returns a flow step's result as it is stored.
func (c Codec) EncodeStep(flow journal.Ref, s *journal.StepRecord) []byte {
	if c.Ring == nil {
		return s.Result
	}
	return c.seal(nil, s.Result, ofStep(flow, s.Seq), besideStep(s))
}

// besideStep is what stays as it is beside a step's box. A step without a result has a box too, so that no result can be
// taken away.
func besideStep(s *journal.StepRecord) []byte {
	e := encoder{}
	e.byte(byte(s.Kind))
	e.string(s.Name)
	e.int(int64(s.Position))
	e.bools(s.Parallel)
	return e.buf
}

// DecodeStep decodes a flow step's result, in place. If the codec lacks a key, by is the key's ID, and the result
// is nil. No clear result, which is JSON, has the form of a box.
func (c Codec) DecodeStep(flow journal.Ref, s *journal.StepRecord) (by string, err error) {
	_, sealed := seal.KeyOf(s.Result)
	switch {
	case sealed:
		s.Result, by, err = c.open(s.Result, ofStep(flow, s.Seq), besideStep(s))
	case !c.readsClear():
		err = ErrClear
	case len(s.Result) == 0:
		s.Result = nil
	}
	return by, err
}

// StepSum is the checksum of a step's row, whose result is as it is stored.
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
