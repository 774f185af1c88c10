package sqlite

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/onceward/onceward/journal"
)

// SQLite does not notice where a bit has flipped on the disk
// (https://sqlite.org/cksumvfs.html, section 1). So what the journal stores as bytes
// ends with its CRC-32C, and is not believed without it.

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

// sumOf is the sum of facts and, mixed into it as by FNV-1a, of the name of the
// operation that they are of, which has columns of its own.
func sumOf(facts []byte, ref journal.Ref) uint32 {
	const prime = 16777619
	s := sum(facts)
	for _, part := range [...]string{ref.Scope, ref.Parent, ref.ID} {
		for i := range len(part) {
			s = (s ^ uint32(part[i])) * prime
		}
		s = (s ^ 0xff) * prime // in no UTF-8
	}
	return s
}
