package rowstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// NameDigest returns the digest under which an operation with this name is found.
func NameDigest(key *format.HashKey, ref journal.Ref) (d Digest) {
	b := append(make([]byte, 0, 256), key[:]...)
	for _, part := range [...]string{ref.ID, ref.Scope, ref.Parent} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	hash := sha256.Sum256(b)
	copy(d[:], hash[:])
	return d
}

// item is an operation as read or as to be written. An item never changes, except that fill adds parts.
type item struct {
	op                    journal.Operation // without Request and Answer
	request, answer       *Part             // nil if there is none, or it was not read
	requestSum, answerSum uint32
	told                  uint32 // the number of the latest leap of the clock that the operation was told
	box                   []byte // the private fields, as they are stored; nil if they are in clear, or have changed
	whole                 bool   // both parts were read
}

// names returns the digests of the item's names.
func (it *item) names(key *format.HashKey) []Digest {
	if it == nil {
		return nil
	}
	names := []Digest{NameDigest(key, it.op.Ref)}
	if it.op.Alias != (journal.Ref{}) && it.op.Alias != it.op.Ref {
		names = append(names, NameDigest(key, it.op.Alias))
	}
	return names
}

// isNamedAs reports whether both items are there and have the same names.
func (it *item) isNamedAs(other *item) bool {
	return it != nil && other != nil && it.op.Ref == other.op.Ref && it.op.Alias == other.op.Alias
}

// marks returns the hashes by which look-ups and evidence find the item. An operation in flight that has only a key
// has no mark, since FindBy reads all operations in flight.
func (it *item) marks(key *format.HashKey) (marks []int64) {
	if it == nil || !store.Marked(&it.op) || onlyKeyInFlight(&it.op) {
		return nil
	}
	for _, m := range store.AllMarks(&it.op) {
		marks = append(marks, key.OfMark(byte(m.By), m.Value))
	}
	return marks
}

func onlyKeyInFlight(op *journal.Operation) bool {
	return op.State == journal.StateInFlight && op.Reference == "" && op.Object == "" && len(op.Evidence) == 0 && len(op.Rounds) == 0
}

// encode returns the item's row, with the parts that were read or are new.
func (it *item) encode(c format.Codec) *Row {
	r := columns(&it.op)
	r.Request, r.Answer = it.request, it.answer
	b := c.AppendOperation(make([]byte, 0, 384+len(it.op.Fingerprint)+len(it.box)), &it.op, it.box)
	b = binary.LittleEndian.AppendUint32(b, it.told)
	b = binary.LittleEndian.AppendUint32(b, it.requestSum)
	b = binary.LittleEndian.AppendUint32(b, it.answerSum)
	r.Record = binary.LittleEndian.AppendUint32(b, format.Sum(b))
	return &r
}

// columns returns an operation row's columns.
func columns(op *journal.Operation) Row {
	r := Row{Handle: op.Handle, State: uint8(op.State), Holder: op.Holder, Told: op.Delivered, Reaped: op.Tombstone, Provider: op.Provider}
	if wake := format.Wake(op); !wake.IsZero() {
		r.HasWake, r.Wake = true, wake.UnixMilli()
	}
	if !op.SettledAt.IsZero() {
		r.Settled = op.SettledAt.UnixMilli()
	}
	return r
}

// decode reads a row. decode returns ErrDamaged if the record, or a column beside the record, differs from the
// written one.
func decode(c format.Codec, r *Row) (*item, error) {
	it, err := decodeRecord(c, r)
	if err == nil && !it.isIn(r) {
		return nil, damaged(r.Handle, format.ErrSum)
	}
	return it, err
}

// isIn reports whether the row's columns equal the item's.
func (it *item) isIn(r *Row) bool {
	is := columns(&it.op)
	return is.State == r.State && is.Holder == r.Holder && is.HasWake == r.HasWake && is.Wake == r.Wake &&
		is.Settled == r.Settled && is.Told == r.Told && is.Reaped == r.Reaped && is.Provider == r.Provider
}

// decodeRecord is decode without a look at the columns.
func decodeRecord(c format.Codec, r *Row) (*item, error) {
	n := len(r.Record) - 4*format.SumSize
	if n < 0 || format.SumIn(r.Record) != format.Sum(r.Record[:n+3*format.SumSize]) {
		return nil, damaged(r.Handle, format.ErrSum)
	}
	op, box, err := c.ReadOperation(r.Record[:n:n])
	numbers := r.Record[n:]
	it := &item{op: op, box: box, told: binary.LittleEndian.Uint32(numbers), requestSum: binary.LittleEndian.Uint32(numbers[4:]), answerSum: binary.LittleEndian.Uint32(numbers[8:])}
	if err == nil && it.op.Handle != r.Handle {
		err = format.ErrSum // it is another's
	}
	if err != nil {
		return nil, damaged(r.Handle, err)
	}
	return it, nil
}

func damaged(handle int64, err error) error { return fmt.Errorf("operation %d: %w", handle, err) }

// fill adds the parts, if they belong to the record.
func (it *item) fill(r *Row) error {
	if err := it.fillHeads(r); err != nil {
		return err
	}
	for _, part := range []*Part{r.Request, r.Answer} {
		if !it.op.Tombstone && format.Lacks(part.bytes()) {
			return damaged(r.Handle, format.ErrDamaged)
		}
	}
	it.whole = true
	return nil
}

// fillHeads is like fill, for parts that may lack their bodies.
func (it *item) fillHeads(r *Row) error {
	request, _ := r.Request.bytes()
	answer, _ := r.Answer.bytes()
	if format.SumIn(request) != it.requestSum || format.SumIn(answer) != it.answerSum {
		return damaged(r.Handle, format.ErrDamaged)
	}
	it.request, it.answer = r.Request, r.Answer
	return nil
}

func (p *Part) bytes() (head, body []byte) {
	if p == nil {
		return nil, nil
	}
	return p.Head, p.Body
}

// operation returns the operation with its parts, which must have been read. If c lacks a key, Operation.SealedBy has it.
func (it *item) operation(c format.Codec, bodies bool) (journal.Operation, error) {
	k := format.Record{Codec: c, Op: it.op}
	k.Request, k.Body = it.request.bytes()
	k.Answer, k.AnswerBody = it.answer.bytes()
	read := k.WithoutBodies
	if bodies {
		read = k.Operation
	}
	op, err := read()
	if err != nil {
		err = damaged(it.op.Handle, err)
	}
	return op, err
}
