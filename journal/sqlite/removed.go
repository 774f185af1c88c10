package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"hash/crc32"
)

// Where an operation is looked for that a segment knows of, and is in no row and no
// block, it was removed, or the file is damaged: a bit that flips in a page of SQLite's
// own makes rows vanish without a word. To tell, the handles of those that were removed
// are noted, a bit for each: a row for a segment, until that is spent.

// removedBits are those of a segment.
type removedBits []byte

const removedSize = segmentSize / 8

func (r removedBits) has(offset int64) bool { return r != nil && r[offset/8]&(1<<(offset%8)) != 0 }

func sumOfRemoved(first int64, bits []byte) uint32 {
	var e encoder
	e.int(first)
	return crc32.Update(sum(bits), castagnoli, e.buf)
}

// decodeRemoved returns a copy.
func decodeRemoved(first int64, sealed []byte) (removedBits, error) {
	if len(sealed) != removedSize+sumSize || sumIn(sealed) != sumOfRemoved(first, sealed[:removedSize]) {
		return nil, errFormat
	}
	return append(removedBits(nil), sealed[:removedSize]...), nil
}

const removedOf = "SELECT bits FROM onceward_removed WHERE first = ?"

// removedFrom reads those of the segment that begins with first; nil: there are none.
func (b *batch) removedFrom(first int64) (bits removedBits, err error) {
	err = b.read(b.sql.removed, func(v []driver.Value) error {
		bits, err = decodeRemoved(first, v[0].([]byte))
		return err
	}, first)
	if err != nil {
		return nil, err
	}
	for _, handle := range b.gone {
		if segmentOf(handle) == first {
			if bits == nil {
				bits = make(removedBits, removedSize)
			}
			bits[(handle-first)/8] |= 1 << ((handle - first) % 8)
		}
	}
	return bits, nil
}

// noteRemoved has the batch's commit note what it removed.
func (b *batch) noteRemoved() error {
	noted := make(map[int64]bool)
	for _, handle := range b.gone {
		first := segmentOf(handle)
		if noted[first] {
			continue
		}
		noted[first] = true
		bits, err := b.removedFrom(first)
		if err == nil {
			err = b.write(b.sql.noteRemoved, first, binary.LittleEndian.AppendUint32(bits, sumOfRemoved(first, bits)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mayLack returns errFormat unless the operation with this handle, which is nowhere, was
// removed.
func (b *batch) mayLack(handle int64) error {
	first := segmentOf(handle)
	bits, err := b.removedFrom(first)
	if err != nil || bits.has(handle-first) {
		return err
	}
	// In a spent segment, all but what it still finds were removed.
	spent := false
	err = b.read(b.sql.segment, func(v []driver.Value) error {
		s, hashes, err := readSegment(v)
		spent = err == nil && s.spent && !hasOffset(hashes, handle-first)
		return err
	}, first)
	if err == nil && !spent {
		err = b.fail(errFormat)
	}
	return err
}

func hasOffset(hashes []byte, offset int64) bool {
	for ; len(hashes) >= entrySize; hashes = hashes[entrySize:] {
		if int64(binary.LittleEndian.Uint16(hashes[4:])) == offset {
			return true
		}
	}
	return false
}
