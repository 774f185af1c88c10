package format

import (
	"database/sql/driver"
	"encoding/binary"
)

const (
	// BlockSize is how many operations make a block, at most. A look-up reads a whole
	// one; what the last page of a block leaves empty makes smaller ones cost more disk.
	BlockSize = 8
	// BlockBytes is how many bytes they have, at most, unless it is one alone.
	BlockBytes = 64 << 10
)

// A block begins with its format and a list of its operations' handles, as distances,
// and of their records' lengths; the records follow. That makes a row of its own for
// every operation, and an index entry, unnecessary, and leaves little of a page empty.

// BlockEncoder makes blocks, one after the other, in the same memory.
type BlockEncoder struct{ head, body encoder }

// Encode makes the block of the row first of operations, which are sorted by handle and
// not none. It stands until the next one is made.
func (e *BlockEncoder) Encode(first int64, ops []*Record) []byte {
	head, body := &e.head, &e.body
	head.buf, body.buf = head.buf[:0], body.buf[:0]
	head.byte(version)
	head.int(int64(len(ops)))
	before := int64(0)
	for _, k := range ops {
		start := len(body.buf)
		body.record(k, WithEverything)
		head.int(k.Op.Handle - before)
		head.int(int64(len(body.buf) - start))
		before = k.Op.Handle
	}
	head.buf = append(head.buf, body.buf...)
	head.buf = binary.LittleEndian.AppendUint32(head.buf, sumFrom(first, head.buf))
	return head.buf
}

// EachOfBlock decodes those operations of the block of the row first that want says.
func EachOfBlock(first int64, data []byte, want func(handle int64) bool, f func(*Record) error) error {
	n := len(data) - SumSize
	if n < 1 || SumIn(data) != sumFrom(first, data[:n]) {
		return ErrDamaged
	}
	return eachOfUnsealed(data[:n:n], func(handle int64, _ []byte) bool { return want(handle) }, f)
}

// Glimpse is what is read of an operation to tell whether the rest of it is of use.
type Glimpse struct {
	Scope, Provider []byte
}

// EachGlimpsed is EachOfBlock for the operations that want selects by a glimpse. Decoding one takes about fifty times
// as long as a glimpse.
func EachGlimpsed(first int64, data []byte, want func(handle int64, g Glimpse) bool, f func(*Record) error) error {
	n := len(data) - SumSize
	if n < 1 || SumIn(data) != sumFrom(first, data[:n]) {
		return ErrDamaged
	}
	return eachOfUnsealed(data[:n:n], func(handle int64, record []byte) bool {
		d := decoder{buf: record}
		d.int()
		d.byte()
		d.byte()
		g := Glimpse{Scope: d.bytes()}
		d.bytes()
		d.bytes()
		g.Provider = d.bytes()
		return d.failed || want(handle, g) // who decodes it sees that it is damaged
	}, f)
}

func eachOfUnsealed(data []byte, want func(handle int64, record []byte) bool, f func(*Record) error) error {
	head := decoder{buf: data}
	head.format()
	n := head.count()
	if head.failed || n < 0 || n > len(data) {
		return ErrDamaged
	}
	list := head
	for range n {
		head.int()
		head.int()
	}
	handle, records := int64(0), head.buf
	for range n {
		handle += list.int()
		size := list.int()
		if list.failed || head.failed || size < 0 || size > int64(len(records)) {
			return ErrDamaged
		}
		if want(handle, records[:size:size]) {
			d := decoder{buf: records[:size:size]}
			k := d.record(func(int64) *Record { return nil })
			if err := d.end(); err != nil {
				return err
			}
			if err := f(k); err != nil {
				return err
			}
		}
		records = records[size:]
	}
	if len(records) > 0 {
		return ErrDamaged
	}
	return nil
}

// All is for EachOfBlock: it wants every operation.
func All(int64) bool { return true }

// FindInBlock decodes the operation with this handle from a row of blocks, its first and its
// data; nil: it is not there.
func FindInBlock(v []driver.Value, handle int64) (found *Record, err error) {
	data, _ := v[1].([]byte)
	err = EachOfBlock(v[0].(int64), data, func(h int64) bool { return h == handle }, func(k *Record) error {
		found = k
		return nil
	})
	return found, err
}
