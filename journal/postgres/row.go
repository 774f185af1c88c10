package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// row is an operation as it stands in its row, without its bodies and its answer.
type row struct {
	op       journal.Operation // without the bodies of Request, and without Answer
	revision int32
	request  []byte // the request's head, encoded
	sum      uint32 // of the answer
}

// there reports whether the journal has it.
func (r *row) there() bool { return r != nil && r.op.State != journal.StateAbsent }

// columns are those that scan reads, in its order, of operations o and requests r.
const columns = "o.handle, o.scope, o.parent, o.id, o.naming, o.provider, o.state, o.holder, o.wake_at, o.settled_at, " +
	"o.delivered, o.tombstone, o.revision, o.facts, o.identity IS NOT NULL, r.head"

// scan reads one row of columns, and the columns that were selected behind them into more.
func scan(from scanner, more ...any) (*row, error) {
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
		r                    = new(row)
	)
	into := []any{&handle, &scope, &parent, &id, &naming, &provider, &state, &holder, &wakeAt, &settledAt, &delivered, &tombstone,
		&r.revision, &facts, &identified, &r.request}
	if err := from.Scan(append(into, more...)...); err != nil {
		return nil, err
	}
	kept := format.Row{
		Op: journal.Operation{
			Ref:       journal.Ref{Scope: string(scope), Parent: string(parent), ID: string(id)},
			Naming:    journal.Naming(naming),
			Provider:  string(provider),
			State:     journal.State(state),
			SettledAt: timeOf(settledAt),
			Delivered: delivered,
			Tombstone: tombstone,
		},
		Request: r.request, Identified: identified,
	}
	if holder != nil {
		kept.Op.Holder = *holder
	}
	format.SetWake(&kept.Op, timeOf(wakeAt))
	if err := format.DecodeFacts(facts, &kept); err != nil {
		return nil, fmt.Errorf("postgres: operation %s: %w", refString(kept.Op.Ref), err)
	}
	// The handle is given by the insert itself, and is not in the sum.
	kept.Op.Handle = handle
	r.op, r.sum = kept.Op, kept.AnswerSum
	return r, nil
}

func refString(ref journal.Ref) string { return fmt.Sprintf("%q", ref.ID) }

func timeOf(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms).UTC()
}

// scanWhole reads a row of columns with the bodies and the answer behind them.
func scanWhole(from scanner) (*row, error) {
	var body, answer, answerBody []byte
	r, err := scan(from, &body, &answer, &answerBody)
	if err != nil {
		return nil, err
	}
	return r, r.fill(body, answer, answerBody)
}

// fill gives the row its request and its answer.
func (r *row) fill(body, answer, answerBody []byte) (err error) {
	if r.op.Request, err = format.DecodeRequest(r.request, body); err != nil {
		return err
	}
	kept := format.Row{Op: r.op, AnswerSum: r.sum}
	if err := kept.GoesWith(answer); err != nil {
		return err
	}
	if answer != nil {
		r.op.Answer, err = format.DecodeAnswer(answer, answerBody)
	}
	return err
}

// scanOperation reads a row of wholeFrom.
func scanOperation(from scanner) (journal.Operation, error) {
	var body, answer, answerBody []byte
	r, err := scan(from, &body, &answer, &answerBody)
	if err != nil {
		return journal.Operation{}, err
	}
	kept := format.Row{Op: r.op, Request: r.request, AnswerSum: r.sum}
	if err := kept.GoesWith(answer); err != nil {
		return journal.Operation{}, err
	}
	return (&format.Record{Row: kept, Body: body, Answer: answer, AnswerBody: answerBody}).Operation()
}

// withoutBodies returns a scanned operation, with its answer's head, without bodies.
func withoutBodies(r *row, answer []byte) (journal.Operation, error) {
	kept := format.Row{Op: r.op, Request: r.request, AnswerSum: r.sum}
	if err := kept.GoesWith(answer); err != nil {
		return journal.Operation{}, err
	}
	return (&format.Record{Row: kept, Answer: answer}).WithoutBodies()
}

// stored has the columns to be written of an operation.
type stored struct {
	identity, alias, facts, request, requestBody, answer, answerBody []byte
	wakeAt, settledAt                                                any
	holder                                                           any
	sum                                                              uint32
}

// encode returns the row of op. was is the row that it replaces, nil for a new one. If the request or the answer did
// not change, it is not encoded again, and is nil.
func encode(op *journal.Operation, was *row, requestChanged, answerChanged bool) stored {
	s := stored{wakeAt: format.FromTime(format.Wake(op)), settledAt: format.FromTime(op.SettledAt), holder: format.Nullable(op.Holder)}
	kept := format.Row{Op: *op, Identified: op.Naming != journal.Generated}
	kept.Op.Handle = 0
	if kept.Identified {
		s.identity = digest(op.Ref)
	}
	if op.Alias != (journal.Ref{}) {
		s.alias = digest(op.Alias)
	}
	if was != nil {
		kept.Request, kept.AnswerSum = was.request, was.sum
	}
	if requestChanged {
		s.request, s.requestBody = nil, nil
		if !op.Tombstone {
			s.request, s.requestBody = format.EncodeRequest(op.Request, false), op.Request.Body
		}
		kept.Request = s.request
	}
	if answerChanged {
		kept.AnswerSum = 0
		if op.Answer != nil {
			s.answer, s.answerBody = format.EncodeAnswer(op.Answer, false), op.Answer.Body
			kept.AnswerSum = format.SumIn(s.answer)
		}
	}
	s.sum = kept.AnswerSum
	s.facts = format.EncodeFacts(kept)
	return s
}

func insertArgs(op *journal.Operation, s *stored) []any {
	return []any{s.identity, s.alias, []byte(op.Scope), []byte(op.Parent), []byte(op.ID), int16(op.Naming), []byte(op.Provider), int16(op.State),
		s.holder, s.wakeAt, s.settledAt, op.Delivered, op.Tombstone, s.facts, s.request, s.requestBody}
}

func updateArgs(before *row, op *journal.Operation, s *stored) []any {
	return []any{before.op.Handle, before.revision, s.identity, []byte(op.Provider), int16(op.State),
		s.holder, s.wakeAt, s.settledAt, op.Delivered, op.Tombstone, s.facts, s.alias}
}

// digest returns the hash that makes an identity unique. An index of hashes takes names of any length, and NUL in
// them.
func digest(ref journal.Ref) []byte {
	b := make([]byte, 0, 128)
	for _, part := range [...]string{ref.Scope, ref.Parent, ref.ID} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// errDamaged is for a row that is not as it was written.
var errDamaged = format.ErrDamaged

// isDamaged reports whether a row was there and could not be read.
func isDamaged(err error) bool { return errors.Is(err, errDamaged) }
