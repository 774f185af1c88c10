package format

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/onceward/onceward/journal"
)

// timeSize is how many bytes a bookmark's time has.
const timeSize = 8

// EncodeBookmark encodes a bookmark's time and note, with a checksum of its row.
func EncodeBookmark(b *journal.Bookmark) []byte {
	record := make([]byte, 0, timeSize+len(b.Note)+SumSize)
	record = binary.LittleEndian.AppendUint64(record, uint64(b.At.UnixMilli()))
	record = append(record, b.Note...)
	return binary.LittleEndian.AppendUint32(record, bookmarkSum(b, record))
}

func bookmarkSum(b *journal.Bookmark, record []byte) uint32 {
	e := encoder{buf: make([]byte, 0, len(b.Name)+16)}
	e.string(b.Name)
	e.int(b.Version)
	return crc32.Update(Sum(record), castagnoli, e.buf)
}

// DecodeBookmark adds the time and the note to a bookmark with the values of its columns. It returns ErrDamaged for a
// row in another form.
func DecodeBookmark(b *journal.Bookmark, record []byte) error {
	n := len(record) - SumSize
	if n < timeSize || SumIn(record) != bookmarkSum(b, record[:n]) {
		return ErrDamaged
	}
	b.At = time.UnixMilli(int64(binary.LittleEndian.Uint64(record))).UTC()
	b.Note = append(b.Note, record[timeSize:n]...)
	return nil
}
