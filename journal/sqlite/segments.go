package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"sort"
	"time"

	"github.com/onceward/onceward/journal"
)

// segmentSize is how many handles make a segment.
const segmentSize = 1024

// segments find what no index finds without costing a page for every operation:
// generated IDs, and what is old enough to be reaped. A segment is written once,
// with the last of its operations. The rest, the tail, is kept in memory.
type segments struct {
	tail    []member // of handles not in a segment yet, ascending
	through int64    // no member of the tail up to this handle is missing
	loaded  int64    // the first handle of the latest segment in sealed; -1: none
	sealed  []sealed
}

// member is an operation of a segment to come.
type member struct {
	handle    int64
	hash      uint32
	generated bool
	began     time.Time
}

// sealed is a segment's generated IDs: entries of hash and offset, sorted.
type sealed struct {
	first   int64
	entries []byte
}

// entrySize is that of a hash and an offset, little endian.
const entrySize = 4 + 2

// segmentOf is the first handle of the segment that handle is in.
func segmentOf(handle int64) int64 { return handle - handle%segmentSize }

func hashOf(id string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return h.Sum32()
}

// truncate forgets what was not committed: handles later than newest are given out
// again.
func (s *segments) truncate(newest int64) {
	first := segmentOf(newest + 1)
	s.tail = slices.DeleteFunc(s.tail, func(m member) bool { return m.handle > newest || m.handle < first })
	s.through = max(min(s.through, newest), first-1)
	s.sealed = slices.DeleteFunc(s.sealed, func(x sealed) bool { return x.first >= first })
	s.loaded = -1
	if n := len(s.sealed); n > 0 {
		s.loaded = s.sealed[n-1].first
	}
}

// addToSegment takes note of an operation that was just begun, and seals the
// segment that it is the last of.
func (b *batch) addToSegment(r row) error {
	s, handle := &b.segments, r.op.Handle
	if s.through == handle-1 {
		s.tail = append(s.tail, member{handle, hashOf(r.op.ID), !r.identified, r.op.CreatedAt})
		s.through = handle
	}
	if handle%segmentSize != segmentSize-1 {
		return nil
	}
	if err := b.completeTail(); err != nil {
		return err
	}
	first := segmentOf(handle)
	began, entries := r.op.CreatedAt, []byte{}
	for _, m := range s.tail {
		if m.began.Before(began) {
			began = m.began
		}
		if m.generated {
			entries = binary.LittleEndian.AppendUint32(entries, m.hash)
			entries = binary.LittleEndian.AppendUint16(entries, uint16(m.handle-first))
		}
	}
	entries = sortEntries(entries)
	if err := b.write(b.sql.addSegment, first, began.UnixMilli(), entries); err != nil {
		return err
	}
	s.tail = s.tail[:0]
	return nil
}

// completeTail reads what others, or an earlier process, have begun in it.
func (b *batch) completeTail() error {
	s := &b.segments
	if s.through >= b.newest {
		return nil
	}
	had := len(s.tail)
	err := b.read(b.sql.segmentRows, func(v []driver.Value) error {
		op := journal.Operation{Ref: journal.Ref{ID: v[1].(string)}}
		facts, _ := v[3].([]byte)
		if err := decodeFacts(facts, &op); err != nil {
			return err
		}
		s.tail = append(s.tail, member{v[0].(int64), hashOf(op.ID), v[2].(int64) == 0, op.CreatedAt})
		return nil
	}, s.through, b.newest)
	if err != nil {
		s.tail = s.tail[:had]
		return err
	}
	s.through = b.newest
	return nil
}

// generated returns the handles that an operation with this generated ID may have.
func (b *batch) generated(id string) ([]int64, error) {
	if err := b.completeTail(); err != nil {
		return nil, err
	}
	s := &b.segments
	if s.loaded < segmentOf(b.newest+1)-segmentSize {
		if err := b.loadSegments(); err != nil {
			return nil, err
		}
	}
	hash := hashOf(id)
	var handles []int64
	for _, m := range s.tail {
		if m.generated && m.hash == hash {
			handles = append(handles, m.handle)
		}
	}
	for _, x := range s.sealed {
		handles = x.find(hash, handles)
	}
	return handles, nil
}

// loadSegments reads the segments that were sealed since the last time. They take
// six bytes of memory for every generated operation from then on.
func (b *batch) loadSegments() error {
	s := &b.segments
	had := len(s.sealed)
	err := b.read(b.sql.readSegments, func(v []driver.Value) error {
		entries, _ := v[1].([]byte)
		if len(entries)%entrySize != 0 {
			return errFormat
		}
		s.sealed = append(s.sealed, sealed{v[0].(int64), entries})
		return nil
	}, s.loaded)
	if err != nil {
		s.sealed = s.sealed[:had]
		return err
	}
	s.loaded = segmentOf(b.newest+1) - segmentSize
	return nil
}

func (x sealed) find(hash uint32, handles []int64) []int64 {
	n := len(x.entries) / entrySize
	at := func(i int) []byte { return x.entries[i*entrySize:] }
	for i := sort.Search(n, func(i int) bool { return binary.LittleEndian.Uint32(at(i)) >= hash }); i < n; i++ {
		if binary.LittleEndian.Uint32(at(i)) != hash {
			break
		}
		handles = append(handles, x.first+int64(binary.LittleEndian.Uint16(at(i)[4:])))
	}
	return handles
}

func sortEntries(entries []byte) []byte {
	keys := make([]uint64, 0, len(entries)/entrySize)
	for e := range slices.Chunk(entries, entrySize) {
		keys = append(keys, uint64(binary.LittleEndian.Uint32(e))<<16|uint64(binary.LittleEndian.Uint16(e[4:])))
	}
	slices.Sort(keys)
	sorted := entries[:0]
	for _, k := range keys {
		sorted = binary.LittleEndian.AppendUint32(sorted, uint32(k>>16))
		sorted = binary.LittleEndian.AppendUint16(sorted, uint16(k))
	}
	return sorted
}
