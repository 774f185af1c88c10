package format

import (
	"database/sql/driver"
	"encoding/binary"
	"hash/crc32"
	"time"
)

// LogRow is a row of the log, without its records.
type LogRow struct {
	Seq         int64
	Last        time.Time
	Jumped      time.Time // zero: it has not
	LeastMargin time.Duration
	Newest      int64
	Folded      int64
	Number      int64
}

// LogColumns are what ReadLogRow reads, in its order.
const LogColumns = "seq, last_at, jumped_at, least_margin, newest, folded, number, records"

// Seal appends the sum of the whole row to its records.
func (r LogRow) Seal(records []byte) []byte {
	return binary.LittleEndian.AppendUint32(records, r.sum(records))
}

func (r LogRow) sum(records []byte) uint32 {
	e := encoder{buf: make([]byte, 0, 64)}
	e.int(r.Seq)
	e.time(r.Last)
	e.time(r.Jumped)
	for _, n := range [...]int64{int64(r.LeastMargin), r.Newest, r.Folded, r.Number} {
		e.int(n)
	}
	return crc32.Update(Sum(records), castagnoli, e.buf)
}

// ReadLogRow reads LogColumns, and returns ErrDamaged for a row that is not as it was
// written.
func ReadLogRow(v []driver.Value) (r LogRow, records []byte, err error) {
	r = LogRow{
		Seq: v[0].(int64), Last: ToTime(v[1]), Jumped: ToTime(v[2]), LeastMargin: time.Duration(v[3].(int64)),
		Newest: v[4].(int64), Folded: v[5].(int64), Number: v[6].(int64),
	}
	sealed := v[7].([]byte)
	n := len(sealed) - SumSize
	if n < 0 || SumIn(sealed) != r.sum(sealed[:n]) {
		return r, nil, ErrDamaged
	}
	return r, sealed[:n:n], nil
}

// AppendRecord appends what an operation has become to the records of a row of the log,
// behind how long it is.
func AppendRecord(records []byte, k *Record, parts byte) []byte {
	e := encoder{buf: append(records, 0, 0, 0, 0)}
	e.record(k, parts)
	binary.LittleEndian.PutUint32(e.buf[len(records):], uint32(len(e.buf)-len(records)-4))
	return e.buf
}

// EachRecord calls f with each operation that a row's records change after folded. find returns the latest record of
// an operation. EachRecord returns the highest handle in the row.
func EachRecord(records []byte, folded int64, find func(handle int64) *Record, f func(*Record) error) (highest int64, err error) {
	for len(records) > 0 {
		if len(records) < 4 {
			return 0, ErrDamaged
		}
		size := int64(binary.LittleEndian.Uint32(records))
		if size > int64(len(records)-4) {
			return 0, ErrDamaged
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
