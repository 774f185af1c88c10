package nameindex

import (
	"database/sql/driver"
	"encoding/binary"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// ReadKey reads the key of this file's hashes of names.
func ReadKey(c *conn.Conn) (k format.HashKey, err error) {
	read, err := c.Prepare("SELECT hash_key FROM onceward_journal")
	if err != nil {
		return k, err
	}
	found, err := read.First(func(v []driver.Value) error {
		k, err = format.UnsealHashKey(format.ToBytes(v[0]))
		return err
	})
	if err == nil && !found {
		err = format.ErrDamaged
	}
	return k, err
}

// CandidatesIn returns the possible handles of the operation by a snapshot: by the hashes of all segments,
// and by name outside of segments.
func (s *Index) CandidatesIn(r *read.Reader, ref journal.Ref) (handles []int64, err error) {
	hash, through := s.Key.Of(ref), int64(-1)
	low := entry(hash, 0)
	err = r.Each("SELECT "+format.SegmentColumns+" FROM onceward_segments ORDER BY first", func(v []driver.Value) error {
		run, first, err := RunAfter(through, v)
		for _, e := range run {
			if e>>handleBits == low>>handleBits {
				handles = append(handles, int64(e&(1<<handleBits-1)))
			}
		}
		through = first
		return err
	})
	if err != nil {
		return nil, err
	}
	if through >= 0 {
		through += format.SegmentSize
	}
	add := func(k *format.Record) error {
		if store.IsNamed(&k.Op, ref) {
			handles = append(handles, k.Op.Handle)
		}
		return nil
	}
	err = r.Each("SELECT "+format.Columns+" FROM onceward_operations WHERE handle >= ?", func(v []driver.Value) error {
		row, err := format.ReadRow(v)
		if err != nil {
			return err
		}
		return add(&format.Record{Row: row})
	}, through)
	if err == nil {
		err = r.Each("SELECT first, data FROM onceward_blocks WHERE first >= ? ORDER BY first", func(v []driver.Value) error {
			data, _ := v[1].([]byte)
			return format.EachOfBlock(v[0].(int64), data, format.All, add)
		}, through)
	}
	return handles, err
}

// CandidatesAfter returns the possible handles of the operation after one handle, by a snapshot whose log
// ends with latest. It uses the hashes of sealed segments, and the names of operations that are in neither a
// segment nor the log.
func (s *Index) CandidatesAfter(r *read.Reader, ref journal.Ref, after int64, latest format.LogRow) (handles []int64, err error) {
	hash, low := s.Key.Of(ref), format.SegmentOf(after+1)
	before := low - format.SegmentSize // the segment that comes before the first that is read; negative: none
	end := format.SegmentOf(latest.Newest + 1)
	err = r.Each("SELECT "+format.SegmentColumns+" FROM onceward_segments WHERE first > ? ORDER BY first", func(v []driver.Value) error {
		run, first, err := RunAfter(before, v)
		for _, e := range run {
			if e>>handleBits == entry(hash, 0)>>handleBits {
				handles = append(handles, int64(e&(1<<handleBits-1)))
			}
		}
		before, low = first, first+format.SegmentSize
		return err
	}, before)
	if err == nil && low != end {
		err = format.ErrDamaged // one is missing
	}
	if err != nil {
		return nil, err
	}
	there := make(map[int64]bool)
	add := func(k *format.Record) error {
		there[k.Op.Handle] = true
		if store.IsNamed(&k.Op, ref) {
			handles = append(handles, k.Op.Handle)
		}
		return nil
	}
	low = max(low, after+1)
	err = r.Each("SELECT "+format.Columns+" FROM onceward_operations WHERE handle >= ?", func(v []driver.Value) error {
		row, err := format.ReadRow(v)
		if err != nil {
			return err
		}
		return add(&format.Record{Row: row})
	}, low)
	if err == nil {
		err = r.Each("SELECT first, data FROM onceward_blocks WHERE first >= ? ORDER BY first", func(v []driver.Value) error {
			data, _ := v[1].([]byte)
			return format.EachOfBlock(v[0].(int64), data, format.All, add)
		}, format.SegmentOf(low))
	}
	for handle := max(low, 1); err == nil && handle <= latest.Folded; handle++ {
		if !there[handle] {
			err = r.MayLack(handle)
		}
	}
	return handles, err
}

// RunAfter reads the hashes of the segment that follows upon that which begins with
// before, negative for none: none is missing.
func RunAfter(before int64, v []driver.Value) (run []uint64, first int64, err error) {
	s, hashes, err := format.ReadSegment(v)
	next := int64(0)
	if before >= 0 {
		next = before + format.SegmentSize
	}
	if err == nil && s.First != next {
		err = format.ErrDamaged
	}
	if err != nil {
		return nil, 0, err
	}
	first = s.First
	run = make([]uint64, 0, len(hashes)/format.EntrySize)
	for e := range slices.Chunk(hashes, format.EntrySize) {
		run = append(run, entry(binary.LittleEndian.Uint32(e), first+int64(binary.LittleEndian.Uint16(e[4:]))))
	}
	return run, first, nil
}
