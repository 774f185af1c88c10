package format

import "encoding/binary"

// Removed has a bit for each operation of a segment: 1 if it was removed.
type Removed []byte

// RemovedSize is how many bytes it has.
const RemovedSize = SegmentSize / 8

// Has tells whether the operation with this offset was removed. A nil r has none.
func (r Removed) Has(offset int64) bool { return r != nil && r[offset/8]&(1<<(offset%8)) != 0 }

// Seal appends the sum of the whole row to them.
func (r Removed) Seal(first int64) []byte {
	return binary.LittleEndian.AppendUint32(r, sumFrom(first, r))
}

// DecodeRemoved reads what Seal made, of the segment that begins with first, into memory of
// its own.
func DecodeRemoved(first int64, sealed []byte) (Removed, error) {
	if len(sealed) != RemovedSize+SumSize || SumIn(sealed) != sumFrom(first, sealed[:RemovedSize]) {
		return nil, ErrDamaged
	}
	return append(Removed(nil), sealed[:RemovedSize]...), nil
}
