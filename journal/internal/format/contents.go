package format

import (
	"encoding/binary"
	"slices"
)

// Contents are hashes of a segment's values that no index selects by, sorted, each once. A reader who looks for
// another value need not read the segment. A hash that is there proves little, since other values may have it.
type Contents []uint16

// The kinds of hashed values.
const (
	OfScope    byte = 's'
	OfProvider byte = 'p'
)

// OfContent is the hash of a value of that kind.
func (k *HashKey) OfContent(kind byte, value string) uint16 {
	return uint16(k.OfMark(0x80|kind, value))
}

// Add has the hash be there.
func (c Contents) Add(hash uint16) Contents {
	if at, found := slices.BinarySearch(c, hash); !found {
		c = slices.Insert(c, at, hash)
	}
	return c
}

// Has tells whether a value with that hash may be there.
func (c Contents) Has(hash uint16) bool {
	_, found := slices.BinarySearch(c, hash)
	return found
}

// Seal encodes them, and appends the sum of the row of the segment that begins with first.
func (c Contents) Seal(first int64) []byte {
	sealed := make([]byte, 0, 2*len(c)+SumSize)
	for _, hash := range c {
		sealed = binary.LittleEndian.AppendUint16(sealed, hash)
	}
	return binary.LittleEndian.AppendUint32(sealed, sumFrom(first, sealed))
}

// DecodeContents reads what Seal made, of the segment that begins with first.
func DecodeContents(first int64, sealed []byte) (Contents, error) {
	n := len(sealed) - SumSize
	if n < 0 || n%2 != 0 || SumIn(sealed) != sumFrom(first, sealed[:n]) {
		return nil, ErrDamaged
	}
	c := make(Contents, 0, n/2)
	for ; n >= 2; n -= 2 {
		c = append(c, binary.LittleEndian.Uint16(sealed[len(c)*2:]))
	}
	return c, nil
}
