package sqlite

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// SQLite does not notice where a bit has flipped on the disk
// (https://sqlite.org/cksumvfs.html, section 1). So what the journal stores as bytes
// ends with its CRC-32C, and is not believed without it. The rows of operations, flows
// and steps have one over all that is in them.

// errSum is for a row that can be read, and is not as it was written.
var errSum = fmt.Errorf("%w: its sum is another", errFormat)

// sumSize is how many bytes a sum has.
const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// seal appends the sum of b to it. Of nothing, it makes nothing.
func seal(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return binary.LittleEndian.AppendUint32(b, sum(b))
}

// unseal returns what was sealed, nil for nil, or errFormat.
func unseal(sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	n := len(sealed) - sumSize
	if n < 1 || binary.LittleEndian.Uint32(sealed[n:]) != sum(sealed[:n]) {
		return nil, errFormat
	}
	return sealed[:n:n], nil
}

// lacks tells whether the body of a request or an answer, encoded, is not there where
// it was read: its sum, which stands behind two bytes, is not that of nothing.
func lacks(encoded, stored []byte) bool {
	return len(stored) == 0 && len(encoded) >= 2+sumSize && binary.LittleEndian.Uint32(encoded[2:]) != 0
}

// sumIn is the one that a value was sealed with, 0 for nil.
func sumIn(sealed []byte) uint32 {
	if len(sealed) < sumSize {
		return 0
	}
	return binary.LittleEndian.Uint32(sealed[len(sealed)-sumSize:])
}

// sumOf is the sum of facts and of everything else that is in the row of operations
// which has them.
func sumOf(facts []byte, r row) uint32 {
	op := &r.op
	e := encoder{buf: make([]byte, 0, 192)}
	e.int(op.Handle)
	e.byte(byte(op.Naming))
	e.byte(byte(op.State))
	e.bools(r.identified, op.Delivered, op.Tombstone)
	for _, s := range [...]string{op.Scope, op.Parent, op.ID, op.Provider, op.Holder} {
		e.string(s)
	}
	e.time(op.WakeAt)
	e.time(op.SettledAt)
	e.buf = binary.LittleEndian.AppendUint32(e.buf, sumIn(r.request))
	return crc32.Update(sum(facts), castagnoli, e.buf)
}
