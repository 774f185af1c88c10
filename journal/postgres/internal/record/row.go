package record

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// Row is an operation as it stands in its row, without its bodies and its answer.
type Row struct {
	Op       journal.Operation // without the bodies of Request, and without Answer
	Revision int32
	Request  []byte // the request's head, encoded
	Sum      uint32 // of the answer
}

// Exists reports whether the journal has it.
func (r *Row) Exists() bool { return r != nil && r.Op.State != journal.StateAbsent }

// Columns are those that Scan reads, in its order, of operations o and requests r.
const Columns = "o.handle, o.scope, o.parent, o.id, o.naming, o.provider, o.state, o.holder, o.wake_at, o.settled_at, " +
	"o.delivered, o.tombstone, o.revision, o.facts, o.identity IS NOT NULL, r.head"

// Scan reads one row of Columns, and the columns that were selected behind them into more.
func Scan(from Scanner, more ...any) (*Row, error) {
	var (
		handle               int64
		scope, parent, id    []byte
		naming, state        int16
		provider             []byte
		holder               *string
		wakeAt, settledAt    *int64
		delivered, tombstone bool
		identified           bool
		facts                []byte
		r                    = new(Row)
	)
	into := []any{&handle, &scope, &parent, &id, &naming, &provider, &state, &holder, &wakeAt, &settledAt, &delivered, &tombstone,
		&r.Revision, &facts, &identified, &r.Request}
	if err := from.Scan(append(into, more...)...); err != nil {
		return nil, err
	}
	kept := format.Row{
		Op: journal.Operation{
			Ref:       journal.Ref{Scope: string(scope), Parent: string(parent), ID: string(id)},
			Naming:    journal.Naming(naming),
			Provider:  string(provider),
			State:     journal.State(state),
			SettledAt: TimeOf(settledAt),
			Delivered: delivered,
			Tombstone: tombstone,
		},
		Request: r.Request, Identified: identified,
	}
	if holder != nil {
		kept.Op.Holder = *holder
	}
	format.SetWake(&kept.Op, TimeOf(wakeAt))
	if err := format.DecodeFacts(facts, &kept); err != nil {
		return nil, fmt.Errorf("postgres: operation %s: %w", refString(kept.Op.Ref), err)
	}
	// The handle is given by the insert itself, and is not in the sum.
	kept.Op.Handle = handle
	r.Op, r.Sum = kept.Op, kept.AnswerSum
	return r, nil
}

func refString(ref journal.Ref) string { return fmt.Sprintf("%q", ref.ID) }

// TimeOf returns the time of a column of milliseconds, zero for NULL.
func TimeOf(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms).UTC()
}

// ScanWhole reads a row of Columns with the bodies and the answer behind them.
func ScanWhole(from Scanner) (*Row, error) {
	var body, answer, answerBody []byte
	r, err := Scan(from, &body, &answer, &answerBody)
	if err != nil {
		return nil, err
	}
	return r, r.fill(body, answer, answerBody)
}

// fill gives the row its request and its answer.
func (r *Row) fill(body, answer, answerBody []byte) (err error) {
	if r.Op.Request, err = format.DecodeRequest(r.Request, body); err != nil {
		return err
	}
	kept := format.Row{Op: r.Op, AnswerSum: r.Sum}
	if err := kept.GoesWith(answer); err != nil {
		return err
	}
	if answer != nil {
		r.Op.Answer, err = format.DecodeAnswer(answer, answerBody)
	}
	return err
}

// ScanOperation reads a row of Columns with the bodies and the answer behind them, as the operation that a caller gets.
func ScanOperation(from Scanner) (journal.Operation, error) {
	var body, answer, answerBody []byte
	r, err := Scan(from, &body, &answer, &answerBody)
	if err != nil {
		return journal.Operation{}, err
	}
	kept := format.Row{Op: r.Op, Request: r.Request, AnswerSum: r.Sum}
	if err := kept.GoesWith(answer); err != nil {
		return journal.Operation{}, err
	}
	return (&format.Record{Row: kept, Body: body, Answer: answer, AnswerBody: answerBody}).Operation()
}

// WithoutBodies returns a scanned operation, with its answer's head, without bodies.
func WithoutBodies(r *Row, answer []byte) (journal.Operation, error) {
	kept := format.Row{Op: r.Op, Request: r.Request, AnswerSum: r.Sum}
	if err := kept.GoesWith(answer); err != nil {
		return journal.Operation{}, err
	}
	return (&format.Record{Row: kept, Answer: answer}).WithoutBodies()
}

// Stored has the columns to be written of an operation.
type Stored struct {
	Identity, Alias, Facts, Request, RequestBody, Answer, AnswerBody []byte
	WakeAt, SettledAt                                                any
	Holder                                                           any
	Sum                                                              uint32
}

// Encode returns the row of op. was is the row that it replaces, nil for a new one. If the request or the answer did
// not change, it is not encoded again, and is nil.
func Encode(op *journal.Operation, was *Row, requestChanged, answerChanged bool) Stored {
	s := Stored{WakeAt: format.FromTime(format.Wake(op)), SettledAt: format.FromTime(op.SettledAt), Holder: format.Nullable(op.Holder)}
	kept := format.Row{Op: *op, Identified: op.Naming != journal.Generated}
	kept.Op.Handle = 0
	if kept.Identified {
		s.Identity = Digest(op.Ref)
	}
	if op.Alias != (journal.Ref{}) {
		s.Alias = Digest(op.Alias)
	}
	if was != nil {
		kept.Request, kept.AnswerSum = was.Request, was.Sum
	}
	if requestChanged {
		s.Request, s.RequestBody = nil, nil
		if !op.Tombstone {
			s.Request, s.RequestBody = format.EncodeRequest(op.Request, false), op.Request.Body
		}
		kept.Request = s.Request
	}
	if answerChanged {
		kept.AnswerSum = 0
		if op.Answer != nil {
			s.Answer, s.AnswerBody = format.EncodeAnswer(op.Answer, false), op.Answer.Body
			kept.AnswerSum = format.SumIn(s.Answer)
		}
	}
	s.Sum = kept.AnswerSum
	s.Facts = format.EncodeFacts(kept)
	return s
}

// InsertArgs returns the columns of a new row, from identity to facts, and those of its request.
func InsertArgs(op *journal.Operation, s *Stored) []any {
	return []any{s.Identity, s.Alias, []byte(op.Scope), []byte(op.Parent), []byte(op.ID), int16(op.Naming), []byte(op.Provider), int16(op.State),
		s.Holder, s.WakeAt, s.SettledAt, op.Delivered, op.Tombstone, s.Facts, s.Request, s.RequestBody}
}

// UpdateArgs returns the handle, revision and identity of a row to be replaced, and the columns that may change.
func UpdateArgs(before *Row, op *journal.Operation, s *Stored) []any {
	return []any{before.Op.Handle, before.Revision, s.Identity, []byte(op.Provider), int16(op.State),
		s.Holder, s.WakeAt, s.SettledAt, op.Delivered, op.Tombstone, s.Facts, s.Alias}
}

// Digest returns the hash that makes an identity unique. An index of hashes takes names of any length, and NUL in
// them.
func Digest(ref journal.Ref) []byte {
	b := make([]byte, 0, 128)
	for _, part := range [...]string{ref.Scope, ref.Parent, ref.ID} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// ErrDamaged is for a row that is not as it was written.
var ErrDamaged = format.ErrDamaged

// IsDamaged reports whether a row was there and could not be read.
func IsDamaged(err error) bool { return errors.Is(err, ErrDamaged) }
