package format

import (
	"encoding/binary"
)

// AppendRecord appends what an operation has become to others,
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
