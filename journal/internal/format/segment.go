package format

import (
	"database/sql/driver"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"time"
)

// SegmentSize is how many handles make a segment.
const SegmentSize = 1024

// EntrySize is that of a hash and an offset, little endian, in onceward_segments.hashes.
const EntrySize = 4 + 2

// SegmentOf is the first handle of the segment that handle is in.
func SegmentOf(handle int64) int64 { return handle - handle%SegmentSize }

// SegmentColumns are what ReadSegment reads, in its order.
const SegmentColumns = "first, began_at, spent, hashes"

// Segment is a row of segments, without its hashes.
type Segment struct {
	First int64
	Began time.Time // 0 once it is spent
	Spent bool
}

// Seal appends the sum of the whole row to its hashes.
func (s Segment) Seal(hashes []byte) []byte {
	return binary.LittleEndian.AppendUint32(hashes, s.sum(hashes))
}

func (s Segment) sum(hashes []byte) uint32 {
	var e encoder
	e.int(s.First)
	e.int(s.Began.UnixMilli())
	e.bools(s.Spent)
	return crc32.Update(Sum(hashes), castagnoli, e.buf)
}

// ReadSegment reads SegmentColumns, and returns ErrDamaged for a row that is not as it
// was written.
func ReadSegment(v []driver.Value) (s Segment, hashes []byte, err error) {
	s = Segment{First: v[0].(int64), Began: ToTime(v[1]), Spent: v[2].(int64) == 1}
	sealed := v[3].([]byte)
	n := len(sealed) - SumSize
	if n < 0 || n%EntrySize != 0 || toByte(v[2]) > 1 || SumIn(sealed) != s.sum(sealed[:n]) {
		return s, nil, ErrDamaged
	}
	return s, sealed[:n:n], nil
}

// EncodeEntries sorts entries, each the hash of a name above 16 bits of its offset in the
// segment, and leaves room for the sum.
func EncodeEntries(entries []uint64) []byte {
	slices.Sort(entries)
	hashes := make([]byte, 0, len(entries)*EntrySize+SumSize)
	for _, e := range entries {
		hashes = binary.LittleEndian.AppendUint32(hashes, uint32(e>>16))
		hashes = binary.LittleEndian.AppendUint16(hashes, uint16(e))
	}
	return hashes
}

// HasOffset tells whether an entry is of the operation with this offset.
func HasOffset(hashes []byte, offset int64) bool {
	for ; len(hashes) >= EntrySize; hashes = hashes[EntrySize:] {
		if int64(binary.LittleEndian.Uint16(hashes[4:])) == offset {
			return true
		}
	}
	return false
}
