package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"slices"
	"time"

	"github.com/onceward/onceward/journal/internal/store"
)

// logged is a row of the log that may have to stay.
type logged struct {
	seq     int64
	highest int64 // handle that it speaks of
}

// pruneAt is how many rows of the log are removed at a time.
const pruneAt = 32

// record has the batch's row of the log say what an operation has become.
func (b *batch) record(k *kept, parts byte) {
	b.wrote = true
	e := encoder{buf: b.records}
	start := len(e.buf)
	e.buf = append(e.buf, 0, 0, 0, 0)
	e.record(k, parts)
	binary.LittleEndian.PutUint32(e.buf[start:], uint32(len(e.buf)-start-4))
	b.records = e.buf
	b.highest = max(b.highest, k.op.Handle)
	b.recent.put(k)
}

// appendToLog writes the batch's row of the log, by which it is numbered, too.
func (b *batch) appendToLog() error {
	b.numbered = b.number
	if b.restored == nil { // else it would catch up with its sidecar
		b.numbered++
	}
	sealed := seal(b.records)
	_, err := b.sql.appendLog.exec(b.seq+1, fromTime(b.clock.Last), int64(b.clock.LeastMargin), b.newest, b.folded, b.numbered, sealed)
	b.records = sealed[:0] // its memory
	return err
}

// prune removes the log's first rows, which speak only of what is elsewhere, where
// there are that many.
func (b *batch) prune(least int) error {
	n := 0
	for n < len(b.log) && b.log[n].highest <= b.folded {
		n++
	}
	if n < least {
		return nil
	}
	if err := b.write(b.sql.pruneLog, b.log[n-1].seq); err != nil {
		return err
	}
	b.log = slices.Delete(b.log, 0, n)
	return nil
}

// readLog takes over what others have appended to the log since; or all of it, where
// what follows upon that is not there any more, or reset is set.
func (w *writer) readLog(reset bool) error {
	if reset {
		w.recent.reset()
		w.seq, w.log = 0, nil
	}
	known, before := len(w.log), w.seq
	var records [][]byte
	err := w.sql.readLog.each(func(v []driver.Value) error {
		w.seq = v[0].(int64)
		w.durable = store.Clock{Last: toTime(v[1]), LeastMargin: time.Duration(v[2].(int64))}
		w.newest, w.folded, w.number = v[3].(int64), v[4].(int64), v[5].(int64)
		w.begun = w.newest
		blob, _ := v[6].([]byte)
		blob, err := unseal(blob)
		if err != nil {
			return err
		}
		records = append(records, blob)
		w.log = append(w.log, logged{seq: w.seq})
		return nil
	}, w.seq)
	if err != nil {
		return err
	}
	if !reset && len(records) > 0 && w.log[known].seq != before+1 {
		return w.readLog(true)
	}
	for _, s := range w.recent.slots {
		if s.now.op.Handle <= w.folded {
			w.recent.bytes -= s.now.size() // another folded it
		}
	}
	w.recent.commit(w.recent.seq, w.folded) // what is put next may follow upon that
	for i, blob := range records {
		if w.log[known+i].highest, err = w.replay(blob); err != nil {
			return err
		}
	}
	if w.recent.newest(w.folded) < w.newest || w.folded > w.newest || w.folded < w.newest && w.recent.at(w.folded+1) == nil {
		return errFormat
	}
	w.recent.commit(w.seq, w.folded)
	return nil
}

// replay puts what the records of a row say, but for operations that were folded
// since.
func (w *writer) replay(records []byte) (highest int64, err error) {
	return eachRecord(records, w.folded, w.recent.at, func(k *kept) error {
		if k.op.Handle > w.recent.newest(w.folded)+1 {
			return errFormat // the one before it is missing
		}
		w.recent.put(k)
		return nil
	})
}

// eachRecord calls f for what the records of a row say of operations after folded,
// where find is what is known of them so far, and returns the highest handle that they
// speak of.
func eachRecord(records []byte, folded int64, find func(handle int64) *kept, f func(*kept) error) (highest int64, err error) {
	for len(records) > 0 {
		if len(records) < 4 {
			return 0, errFormat
		}
		size := int64(binary.LittleEndian.Uint32(records))
		if size > int64(len(records)-4) {
			return 0, errFormat
		}
		handle, _ := binary.Varint(records[4 : 4+size])
		highest = max(highest, handle)
		if handle > folded {
			d := decoder{buf: records[4 : 4+size]}
			k := d.record(find)
			if err := d.end(); err != nil {
				return 0, err
			}
			if err := f(k); err != nil {
				return 0, err
			}
		}
		records = records[4+size:]
	}
	return highest, nil
}
