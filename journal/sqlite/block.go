package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"hash/crc32"

	"github.com/onceward/onceward/journal"
)

const (
	// blockSize is how many operations make a block, at most. A look-up reads a whole
	// one; what the last page of a block leaves empty makes smaller ones cost more disk.
	blockSize = 8
	// blockBytes is how many bytes they have, at most, unless it is one alone.
	blockBytes = 64 << 10
)

// A block begins with its format and a list of its operations' handles, as distances,
// and of their records' lengths; the records follow. That makes a row of its own for
// every operation, and an index entry, unnecessary, and leaves little of a page empty.

// blockEncoder has the memory for it, which is used again.
type blockEncoder struct{ head, body encoder }

// encode makes the block of the row first of operations, which are sorted by handle and
// not none. It stands until the next one is made.
func (e *blockEncoder) encode(first int64, ops []*kept) []byte {
	head, body := &e.head, &e.body
	head.buf, body.buf = head.buf[:0], body.buf[:0]
	head.byte(format)
	head.int(int64(len(ops)))
	before := int64(0)
	for _, k := range ops {
		start := len(body.buf)
		body.record(k, withEverything)
		head.int(k.op.Handle - before)
		head.int(int64(len(body.buf) - start))
		before = k.op.Handle
	}
	head.buf = append(head.buf, body.buf...)
	head.buf = binary.LittleEndian.AppendUint32(head.buf, sumOfBlock(first, head.buf))
	return head.buf
}

// sumOfBlock is the sum of a row of blocks: one that is found in another's place is not
// believed.
func sumOfBlock(first int64, data []byte) uint32 {
	var e encoder
	e.int(first)
	return crc32.Update(sum(data), castagnoli, e.buf)
}

// eachOfBlock decodes those operations of the block of the row first that want says.
func eachOfBlock(first int64, data []byte, want func(handle int64) bool, f func(*kept) error) error {
	n := len(data) - sumSize
	if n < 1 || sumIn(data) != sumOfBlock(first, data[:n]) {
		return errFormat
	}
	return eachOfUnsealed(data[:n:n], want, f)
}

func eachOfUnsealed(data []byte, want func(handle int64) bool, f func(*kept) error) error {
	head := decoder{buf: data}
	head.format()
	n := head.count()
	if head.failed || n < 0 || n > len(data) {
		return errFormat
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
			return errFormat
		}
		if want(handle) {
			d := decoder{buf: records[:size:size]}
			k := d.record(func(int64) *kept { return nil })
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
		return errFormat
	}
	return nil
}

// all is for eachOfBlock.
func all(int64) bool { return true }

// blockOf selects the block in which a handle would be.
const blockOf = "SELECT first, data FROM onceward_blocks WHERE first <= ? ORDER BY first DESC LIMIT 1"

// blockAndLog is blockOf with the latest row of the log.
const blockAndLog = "SELECT first, data, (SELECT max(seq) FROM onceward_log) FROM onceward_blocks WHERE first <= ? ORDER BY first DESC LIMIT 1"

// findInBlock decodes the operation with this handle from a row of blockOf; nil:
// it is not there.
func findInBlock(v []driver.Value, handle int64) (found *kept, err error) {
	data, _ := v[1].([]byte)
	err = eachOfBlock(v[0].(int64), data, func(h int64) bool { return h == handle }, func(k *kept) error {
		found = k
		return nil
	})
	return found, err
}

// inBlock finds an operation in its block, nil if it is in none.
func (b *batch) inBlock(handle int64) (k *kept, err error) {
	err = b.read(b.sql.blockOf, func(v []driver.Value) error {
		k, err = findInBlock(v, handle)
		return err
	}, handle)
	return k, err
}

// unpack moves an operation from its block to a row of its own, since it changes.
func (b *batch) unpack(k *kept) error {
	_, err := b.rewriteBlock(k.op.Handle, func(k2 *kept) (bool, error) {
		if k2.op.Handle != k.op.Handle {
			return true, nil
		}
		return false, b.insertRow(k2)
	})
	return err
}

// rewriteBlock leaves in the block around a handle what stays says, and returns how
// many went.
func (b *batch) rewriteBlock(around int64, stays func(*kept) (bool, error)) (gone int, err error) {
	var first int64
	var left []*kept
	err = b.read(b.sql.blockOf, func(v []driver.Value) error {
		first = v[0].(int64)
		data, _ := v[1].([]byte)
		return eachOfBlock(first, data, all, func(k *kept) error {
			left = append(left, k)
			return nil
		})
	}, around)
	if err != nil {
		return 0, err
	}
	all := left
	left = nil
	for _, k := range all {
		stay, err := stays(k)
		if err != nil {
			return 0, err
		}
		if stay {
			left = append(left, k)
		} else {
			gone++
		}
	}
	if gone > 0 {
		if err := b.write(b.sql.wipeBlock, first); err != nil {
			return 0, err
		}
	}
	switch {
	case gone == 0:
		return 0, nil
	case len(left) == 0:
		return gone, b.write(b.sql.removeBlock, first)
	}
	return gone, b.write(b.sql.updateBlock, b.encoder.encode(first, left), first)
}

// reapBlock applies ev to the archived operations of the block that begins with first,
// at most limit.
func (b *batch) reapBlock(ev journal.Event, first int64, limit int, archived ripe) (reaped int, err error) {
	ev.Last, ev.Unconfirmed = b.clock.Last, b.clock.Unconfirmed(ev.At)
	return b.rewriteBlock(first, func(k *kept) (bool, error) {
		if reaped == limit || !archived.has(&k.op) {
			return true, nil
		}
		next, decision, err := journal.Next(k.op, false, ev)
		if err != nil || decision != journal.Recorded {
			return true, err
		}
		reaped++
		if next.State == journal.Absent {
			b.gone = append(b.gone, k.op.Handle)
			return false, nil
		}
		tomb := &kept{row: k.row}
		tomb.op, tomb.request = next, nil
		return false, b.insertRow(tomb)
	})
}
