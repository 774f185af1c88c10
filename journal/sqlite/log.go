package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"time"

	"github.com/onceward/onceward/journal/internal/store"
)

// logged is a row of the log that may have to stay.
type logged struct {
	seq     int64
	highest int64 // handle that it speaks of
}

// logRow is a row of the log, without its records.
type logRow struct {
	seq         int64
	last        time.Time
	jumped      time.Time // zero: it has not
	leastMargin time.Duration
	newest      int64
	folded      int64
	number      int64
}

const logColumns = "seq, last_at, jumped_at, least_margin, newest, folded, number, records"

// latestLogRow selects it.
const latestLogRow = "SELECT " + logColumns + " FROM onceward_log ORDER BY seq DESC LIMIT 1"

// seal appends the sum of the whole row to its records.
func (r logRow) seal(records []byte) []byte {
	return binary.LittleEndian.AppendUint32(records, r.sum(records))
}

func (r logRow) sum(records []byte) uint32 {
	e := encoder{buf: make([]byte, 0, 64)}
	e.int(r.seq)
	e.time(r.last)
	e.time(r.jumped)
	for _, n := range [...]int64{int64(r.leastMargin), r.newest, r.folded, r.number} {
		e.int(n)
	}
	return crc32.Update(sum(records), castagnoli, e.buf)
}

// readLogRow reads logColumns, and returns errFormat for a row that is not as it was
// written.
func readLogRow(v []driver.Value) (r logRow, records []byte, err error) {
	r = logRow{v[0].(int64), toTime(v[1]), toTime(v[2]), time.Duration(v[3].(int64)), v[4].(int64), v[5].(int64), v[6].(int64)}
	sealed := v[7].([]byte)
	n := len(sealed) - sumSize
	if n < 0 || sumIn(sealed) != r.sum(sealed[:n]) {
		return r, nil, errFormat
	}
	return r, sealed[:n:n], nil
}

// pruneAt is how many rows of the log are removed at a time, where they are small. The
// pages of a large one are the next one's, at once: what is free is overwritten, and
// would be written twice.
const pruneAt = 32

// pruneLeast is by the rows that are written now.
func (b *batch) pruneLeast() int {
	if b.rowBytes > pageBytes {
		return 1
	}
	return pruneAt
}

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
	row := logRow{b.seq + 1, b.clock.Last, b.clock.Jumped, b.clock.LeastMargin, b.newest, b.folded, b.numbered}
	b.records = row.seal(b.records)
	b.rowBytes = len(b.records)
	_, err := b.sql.appendLog.exec(row.seq, fromTime(row.last), fromTime(row.jumped), int64(row.leastMargin), row.newest, row.folded, row.number, b.records)
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
		row, blob, err := readLogRow(v)
		if err != nil {
			return err
		}
		if len(records) > 0 && row.seq != w.seq+1 {
			return errFormat // one is missing
		}
		w.seq = row.seq
		w.wasReset = w.wasReset || row.last.Before(w.durable.Last) && (known > 0 || len(records) > 0)
		w.durable = store.Clock{Last: row.last, Jumped: row.jumped, LeastMargin: row.leastMargin}
		w.newest, w.folded, w.number = row.newest, row.folded, row.number
		w.begun = w.newest
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
