package sqlite

import (
	"cmp"
	"database/sql/driver"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// segmentSize is how many handles make a segment.
const segmentSize = 1024

// segments find what no index finds without costing a page for every operation: IDs,
// and what is old enough to be reaped. A segment is written once, with the last of
// its operations. The rest, the tail, is kept in memory, and so are, once somebody
// has looked for an ID that no row has, the hashes of all: eight bytes for every
// operation.
type segments struct {
	key     hashKey
	through int64 // no member of the tail up to this handle is missing
	loaded  int64 // the first handle of the latest segment in runs; negative: none

	mu    sync.RWMutex // held by the writer to change what follows
	whole bool         // nothing is missing in it
	tail  []member     // of handles not in a segment yet, ascending
	runs  [][]uint64   // hashes and handles, each sorted, and less than half as long as the one before
}

// member is an operation of a segment to come.
type member struct {
	handle int64
	hash   uint32
	began  time.Time
}

// entrySize is that of a hash and an offset, little endian, in segments.hashes.
const entrySize = 4 + 2

// handleBits leaves 28 bits for the hash.
const handleBits = 36

func entry(hash uint32, handle int64) uint64 {
	return uint64(hash>>4)<<handleBits | uint64(handle)&(1<<handleBits-1)
}

// segmentOf is the first handle of the segment that handle is in.
func segmentOf(handle int64) int64 { return handle - handle%segmentSize }

const segmentColumns = "first, began_at, spent, hashes"

// segment is a row of segments, without its hashes.
type segment struct {
	first int64
	began time.Time // 0 once it is spent
	spent bool
}

// seal appends the sum of the whole row to its hashes.
func (s segment) seal(hashes []byte) []byte {
	return binary.LittleEndian.AppendUint32(hashes, s.sum(hashes))
}

func (s segment) sum(hashes []byte) uint32 {
	var e encoder
	e.int(s.first)
	e.int(s.began.UnixMilli())
	e.bools(s.spent)
	return crc32.Update(sum(hashes), castagnoli, e.buf)
}

// readSegment reads segmentColumns, and returns errFormat for a row that is not as it
// was written.
func readSegment(v []driver.Value) (s segment, hashes []byte, err error) {
	s = segment{v[0].(int64), toTime(v[1]), v[2].(int64) == 1}
	sealed := v[3].([]byte)
	n := len(sealed) - sumSize
	if n < 0 || n%entrySize != 0 || toByte(v[2]) > 1 || sumIn(sealed) != s.sum(sealed[:n]) {
		return s, nil, errFormat
	}
	return s, sealed[:n:n], nil
}

// spend notes that nothing is left in a segment to be reaped, and leaves of its hashes
// those of tombstones.
func (b *batch) spend(first int64) error {
	var rest []uint64
	var found []member
	err := b.read(b.sql.segmentRest, func(v []driver.Value) error {
		r, err := readRow(v)
		members := b.segments.membersOf(r.op.Handle, &r.op)
		found = append(found, members...)
		for _, m := range members {
			rest = append(rest, uint64(m.hash)<<16|uint64(m.handle-first))
		}
		return err
	}, first, first+segmentSize)
	if err == nil {
		err = b.account(first, first+segmentSize-1, found)
	}
	if err == nil {
		err = b.write(b.sql.forgetRemoved, first)
	}
	if err != nil {
		return err
	}
	spent := segment{first: first, began: time.UnixMilli(0), spent: true}
	return b.write(b.sql.spendSegment, spent.seal(encodeEntries(rest)), first)
}

// encodeEntries sorts them.
func encodeEntries(entries []uint64) []byte {
	slices.Sort(entries)
	hashes := make([]byte, 0, len(entries)*entrySize+sumSize)
	for _, e := range entries {
		hashes = binary.LittleEndian.AppendUint32(hashes, uint32(e>>16))
		hashes = binary.LittleEndian.AppendUint16(hashes, uint16(e))
	}
	return hashes
}

// membersOf are those by which an operation is found: by its name, and by its second one.
func (s *segments) membersOf(handle int64, op *journal.Operation) []member {
	members := []member{{handle, s.key.of(op.Ref), op.CreatedAt}}
	if op.Alias != (journal.Ref{}) {
		members = append(members, member{handle, s.key.of(op.Alias), op.CreatedAt})
	}
	return members
}

// isNamed tells whether an operation is found by this name.
func isNamed(op *journal.Operation, ref journal.Ref) bool {
	return op.Ref == ref || op.Alias == ref && ref != (journal.Ref{})
}

// truncate forgets what was not committed: handles later than newest are given out
// again.
func (s *segments) truncate(newest int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := segmentOf(newest + 1)
	s.tail = slices.DeleteFunc(s.tail, func(m member) bool { return m.handle > newest || m.handle < first })
	s.through = max(min(s.through, newest), first-1)
	if s.loaded >= first {
		s.runs, s.loaded = nil, -1
	}
	s.whole = s.whole && s.through == newest && s.loaded == first-segmentSize
}

// addToSegment takes note of an operation that was just begun, and seals the
// segment that it is the last of.
func (b *batch) addToSegment(op *journal.Operation) error {
	s, handle := &b.segments, op.Handle
	if s.through == handle-1 {
		s.mu.Lock()
		s.tail = append(s.tail, s.membersOf(handle, op)...)
		s.mu.Unlock()
		s.through = handle
	}
	if handle%segmentSize != segmentSize-1 {
		return nil
	}
	if err := b.completeTail(); err != nil {
		return err
	}
	first := segmentOf(handle)
	began := op.CreatedAt
	run := make([]uint64, 0, len(s.tail))
	for _, m := range s.tail {
		if m.began.Before(began) {
			began = m.began
		}
		run = append(run, uint64(m.hash)<<16|uint64(m.handle-first))
	}
	if began.After(b.clock.Last) { // by a clock that is not believed
		began = b.clock.Last.Add(-journal.Leap)
	}
	hashes := segment{first: first, began: began}.seal(encodeEntries(run))
	for i, e := range run {
		run[i] = entry(uint32(e>>16), first+int64(uint16(e)))
	}
	if err := b.write(b.sql.addSegment, first, began.UnixMilli(), hashes); err != nil {
		return err
	}
	// If this is not committed, its members are in the tail again, and have to be read.
	b.abandoned = append(b.abandoned, func() { s.through = first - 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = s.tail[:0]
	if s.loaded == first-segmentSize {
		s.addRun(run)
		s.loaded = first
	}
	s.whole = s.whole && s.loaded == first
	return nil
}

// addRun adds one and merges those that are of a length, so that few have to be
// searched.
func (s *segments) addRun(run []uint64) {
	slices.Sort(run) // by the part of the hash that is left, and handle
	for n := len(s.runs) - 1; n >= 0 && len(s.runs[n]) <= 2*len(run); n-- {
		run = merge(s.runs[n], run)
		s.runs = s.runs[:n]
	}
	s.runs = append(s.runs, run)
}

func merge(a, b []uint64) []uint64 {
	merged := make([]uint64, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}

// completeTail reads what others, or an earlier process, have begun in it.
func (b *batch) completeTail() error {
	s := &b.segments
	if s.through >= b.newest {
		return nil
	}
	var missed []member
	add := func(handle int64, op *journal.Operation) {
		if handle > s.through && handle <= b.newest {
			missed = append(missed, s.membersOf(handle, op)...)
		}
	}
	err := b.read(b.sql.segmentRows, func(v []driver.Value) error {
		r, err := readRow(v)
		if err == nil {
			add(r.op.Handle, &r.op)
		}
		return err
	}, s.through)
	if err != nil {
		return err
	}
	err = b.read(b.sql.blocksFrom, func(v []driver.Value) error {
		data, _ := v[1].([]byte)
		return eachOfBlock(v[0].(int64), data, all, func(k *kept) error {
			add(k.op.Handle, &k.op)
			return nil
		})
	}, segmentOf(s.through+1))
	if err != nil {
		return err
	}
	for handle := max(s.through, b.folded) + 1; handle <= b.newest; handle++ {
		add(handle, &b.recent.at(handle).op)
	}
	slices.SortFunc(missed, func(a, b member) int { return cmp.Compare(a.handle, b.handle) })
	if err := b.account(s.through+1, b.newest, missed); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, missed...)
	s.through = b.newest
	return nil
}

// account returns errFormat unless the operations that were found, by handle, are all
// from first to last of one segment, but for those that were removed.
func (b *batch) account(first, last int64, found []member) error {
	var bits removedBits
	var err error
	for handle := max(first, 1); err == nil && handle <= last; handle++ {
		switch {
		case len(found) > 0 && found[0].handle == handle:
			for len(found) > 0 && found[0].handle == handle {
				found = found[1:] // by its second name, too
			}
		case bits == nil:
			if bits, err = b.removedFrom(segmentOf(first)); err != nil || bits.has(handle-segmentOf(first)) {
				continue
			}
			fallthrough
		case !bits.has(handle - segmentOf(first)):
			err = b.fail(errFormat)
		}
	}
	return err
}

// candidates returns the handles that the operation may have, if there is one.
func (b *batch) candidates(ref journal.Ref) ([]int64, error) {
	if err := b.completeTail(); err != nil {
		return nil, err
	}
	s := &b.segments
	latest := segmentOf(b.newest+1) - segmentSize
	if s.loaded < latest {
		if err := b.loadSegments(latest); err != nil {
			return nil, err
		}
	}
	if !s.whole {
		s.mu.Lock()
		s.loaded, s.whole = latest, true
		s.mu.Unlock()
	}
	handles, _ := s.find(ref)
	return handles, nil
}

// find is candidates for everybody: whole tells whether all are there.
func (s *segments) find(ref journal.Ref) (handles []int64, whole bool) {
	hash := s.key.of(ref)
	low := entry(hash, 0)
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, m := range s.tail {
		if m.hash == hash {
			handles = append(handles, m.handle)
		}
	}
	for _, run := range s.runs {
		i, _ := slices.BinarySearch(run, low)
		for ; i < len(run) && run[i]>>handleBits == low>>handleBits; i++ {
			handles = append(handles, int64(run[i]&(1<<handleBits-1)))
		}
	}
	return handles, s.whole
}

// loadSegments reads the segments that were sealed since the last time, up to the
// latest.
func (b *batch) loadSegments(latest int64) error {
	s := &b.segments
	var runs [][]uint64
	loaded := s.loaded
	err := b.read(b.sql.readSegments, func(v []driver.Value) error {
		run, first, err := runAfter(loaded, v)
		runs, loaded = append(runs, run), first
		return err
	}, s.loaded)
	if err == nil && loaded != latest {
		err = b.fail(errFormat)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range runs {
		s.addRun(run)
	}
	return nil
}

// runAfter reads the hashes of the segment that follows upon that which begins with
// before, negative for none: none is missing.
func runAfter(before int64, v []driver.Value) (run []uint64, first int64, err error) {
	s, hashes, err := readSegment(v)
	next := int64(0)
	if before >= 0 {
		next = before + segmentSize
	}
	if err == nil && s.first != next {
		err = errFormat
	}
	if err != nil {
		return nil, 0, err
	}
	first = s.first
	run = make([]uint64, 0, len(hashes)/entrySize)
	for e := range slices.Chunk(hashes, entrySize) {
		run = append(run, entry(binary.LittleEndian.Uint32(e), first+int64(binary.LittleEndian.Uint16(e[4:]))))
	}
	return run, first, nil
}
