package format

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// SQLite does not notice where a bit has flipped on the disk (https://sqlite.org/cksumvfs.html, section 1). So stored
// bytes end with a CRC-32C, and are not believed without the checksum. The rows of operations, flows and steps have a
// checksum over the whole row.

// ErrSum is for a readable row that differs from the written one.
var ErrSum = fmt.Errorf("%w: its sum is another", ErrDamaged)

// SumSize is how many bytes a sum has.
const SumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the CRC-32C of b.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// withSum appends the sum of b to it. Of nothing, it makes nothing.
func withSum(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return binary.LittleEndian.AppendUint32(b, Sum(b))
}

// withoutSum returns what withSum was given, nil for nil, or ErrDamaged.
func withoutSum(sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	n := len(sealed) - SumSize
	if n < 1 || binary.LittleEndian.Uint32(sealed[n:]) != Sum(sealed[:n]) {
		return nil, ErrDamaged
	}
	return sealed[:n:n], nil
}

// Lacks reports whether the body of an encoded request or answer is missing: its checksum, which follows two bytes,
// is not the checksum of nothing.
func Lacks(encoded, stored []byte) bool {
	return len(stored) == 0 && len(encoded) >= 2+SumSize && binary.LittleEndian.Uint32(encoded[2:]) != 0
}

// SumIn is the one that a value was sealed with, 0 for nil.
func SumIn(sealed []byte) uint32 {
	if len(sealed) < SumSize {
		return 0
	}
	return binary.LittleEndian.Uint32(sealed[len(sealed)-SumSize:])
}
