package sqlite

import (
	"database/sql/driver"

	"github.com/onceward/onceward/journal/internal/format"
)

// removedFrom reads those of the segment that begins with first; nil: there are none.
func (b *batch) removedFrom(first int64) (bits format.Removed, err error) {
	err = b.read(b.sql.Removed, func(v []driver.Value) error {
		bits, err = format.DecodeRemoved(first, v[0].([]byte))
		return err
	}, first)
	if err != nil {
		return nil, err
	}
	for _, handle := range b.gone {
		if format.SegmentOf(handle) == first {
			if bits == nil {
				bits = make(format.Removed, format.RemovedSize)
			}
			bits[(handle-first)/8] |= 1 << ((handle - first) % 8)
		}
	}
	return bits, nil
}

// noteRemoved adds the removed operations to the batch's commit.
func (b *batch) noteRemoved() error {
	noted := make(map[int64]bool)
	for _, handle := range b.gone {
		first := format.SegmentOf(handle)
		if noted[first] {
			continue
		}
		noted[first] = true
		bits, err := b.removedFrom(first)
		if err == nil {
			err = b.write(b.sql.NoteRemoved, first, bits.Seal(first))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mayLack returns format.ErrDamaged unless the operation with this handle, which is nowhere, was
// removed.
func (b *batch) mayLack(handle int64) error {
	first := format.SegmentOf(handle)
	bits, err := b.removedFrom(first)
	if err != nil || bits.Has(handle-first) {
		return err
	}
	// In a spent segment, all operations but those that it still finds were removed.
	spent := false
	err = b.read(b.sql.Segment, func(v []driver.Value) error {
		s, hashes, err := format.ReadSegment(v)
		spent = err == nil && s.Spent && !format.HasOffset(hashes, handle-first)
		return err
	}, first)
	if err == nil && !spent {
		err = b.fail(format.ErrDamaged)
	}
	return err
}
