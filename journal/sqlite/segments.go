package sqlite

import (
	"cmp"
	"database/sql/driver"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// segments find IDs, and operations that may be expired. An index would cost a page for every operation. A
// segment is written once, with the last of its operations. The others, the tail, are in memory. After the
// first search for an ID without a row, so are the hashes of all: eight bytes for every operation.
type segments struct {
	key     format.HashKey
	through int64 // no member of the tail up to this handle is missing
	loaded  int64 // the first handle of the latest segment in runs; negative: none

	mu    sync.RWMutex // held by the writer to change the following fields
	whole bool         // nothing is missing in it
	// known is the handle up to which nothing is missing in it. -1 means unknown.
	known      int64
	tail       []member            // of handles not in a segment yet, ascending
	tailHashes map[uint32]struct{} // the hashes of tail, and of some that it has no more
	runs       [][]uint64          // hashes and handles, each sorted, and less than half as long as the one before
}

// member is an operation of a segment to come.
type member struct {
	handle int64
	hash   uint32
	began  time.Time
	// These make up a segment's contents.
	scope, provider string
}

// handleBits leaves 28 bits for the hash.
const handleBits = 36

func entry(hash uint32, handle int64) uint64 {
	return uint64(hash>>4)<<handleBits | uint64(handle)&(1<<handleBits-1)
}

// spend notes that nothing is left in a segment to be reaped, and leaves of its hashes
// those of tombstones.
func (b *batch) spend(first int64) error {
	var rest []uint64
	var found []member
	err := b.read(b.sql.segmentRest, func(v []driver.Value) error {
		r, err := format.ReadRow(v)
		members := b.segments.membersOf(r.Op.Handle, &r.Op)
		found = append(found, members...)
		for _, m := range members {
			rest = append(rest, uint64(m.hash)<<16|uint64(m.handle-first))
		}
		return err
	}, first, first+format.SegmentSize)
	if err == nil {
		err = b.account(first, first+format.SegmentSize-1, found)
	}
	if err == nil {
		err = b.write(b.sql.forgetRemoved, first)
	}
	if err == nil && len(rest) == 0 {
		err = b.write(b.sql.forgetContents, first)
	}
	if err != nil {
		return err
	}
	spent := format.Segment{First: first, Began: time.UnixMilli(0), Spent: true}
	return b.write(b.sql.spendSegment, spent.Seal(format.EncodeEntries(rest)), first)
}

// membersOf returns the entries by which an operation is found: its name, and its second one.
func (s *segments) membersOf(handle int64, op *journal.Operation) []member {
	members := []member{{handle, s.key.Of(op.Ref), op.CreatedAt, op.Scope, op.Provider}}
	if op.Alias != (journal.Ref{}) {
		members = append(members, member{handle, s.key.Of(op.Alias), op.CreatedAt, op.Scope, op.Provider})
	}
	return members
}

func (s *segments) addToTail(members []member) {
	s.tail = append(s.tail, members...)
	if s.tailHashes == nil {
		s.tailHashes = make(map[uint32]struct{})
	}
	for _, m := range members {
		s.tailHashes[m.hash] = struct{}{}
	}
}

// truncate forgets uncommitted entries: handles later than newest are reused.
func (s *segments) truncate(newest int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := format.SegmentOf(newest + 1)
	s.tail = slices.DeleteFunc(s.tail, func(m member) bool { return m.handle > newest || m.handle < first })
	s.through = max(min(s.through, newest), first-1)
	if s.loaded >= first {
		s.runs, s.loaded, s.known = nil, -1, -1
	}
	s.whole = s.whole && s.through == newest && s.loaded == first-format.SegmentSize
	s.known = min(s.known, newest)
	s.forgetTail(first)
}

// forgetTail records that the tail has nothing before first any more. mu is held. Otherwise a reader that
// starts from known would take the tail's former entries for absent: if everything up to there is folded,
// nothing is read (Journal.filed).
func (s *segments) forgetTail(first int64) {
	switch {
	case s.loaded >= first-format.SegmentSize:
	case s.loaded < 0:
		s.known = -1
	default:
		s.known = min(s.known, s.loaded+format.SegmentSize-1)
	}
}

// addToSegment takes note of an operation that was just begun, and seals the
// segment that it is the last of.
func (b *batch) addToSegment(op *journal.Operation) error {
	s, handle := &b.segments, op.Handle
	if s.through == handle-1 {
		s.mu.Lock()
		s.addToTail(s.membersOf(handle, op))
		if s.known == s.through {
			s.known = handle
		}
		s.mu.Unlock()
		s.through = handle
	}
	if handle%format.SegmentSize != format.SegmentSize-1 {
		return nil
	}
	if err := b.completeTail(); err != nil {
		return err
	}
	first := format.SegmentOf(handle)
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
	hashes := format.Segment{First: first, Began: began}.Seal(format.EncodeEntries(run))
	for i, e := range run {
		run[i] = entry(uint32(e>>16), first+int64(uint16(e)))
	}
	if err := b.write(b.sql.addSegment, first, began.UnixMilli(), hashes); err != nil {
		return err
	}
	if err := b.noteContents(first, s.tail); err != nil {
		return err
	}
	// If this is not committed, its members are in the tail again, and have to be read.
	b.abandoned = append(b.abandoned, func() { s.through = first - 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = s.tail[:0]
	clear(s.tailHashes)
	if s.loaded == first-format.SegmentSize {
		s.addRun(run)
		s.loaded = first
	}
	s.whole = s.whole && s.loaded == first
	s.forgetTail(first + format.SegmentSize)
	return nil
}

// addRun adds a run and merges runs of the same length, so that few must be searched.
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

// completeTail reads the tail's operations of other or earlier processes.
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
		r, err := format.ReadRow(v)
		if err == nil {
			add(r.Op.Handle, &r.Op)
		}
		return err
	}, s.through)
	if err != nil {
		return err
	}
	err = b.read(b.sql.blocksFrom, func(v []driver.Value) error {
		data, _ := v[1].([]byte)
		return format.EachOfBlock(v[0].(int64), data, format.All, func(k *format.Record) error {
			add(k.Op.Handle, &k.Op)
			return nil
		})
	}, format.SegmentOf(s.through+1))
	if err != nil {
		return err
	}
	for handle := max(s.through, b.folded) + 1; handle <= b.newest; handle++ {
		add(handle, &b.memtable.At(handle).Op)
	}
	slices.SortFunc(missed, func(a, b member) int { return cmp.Compare(a.handle, b.handle) })
	if err := b.account(s.through+1, b.newest, missed); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addToTail(missed)
	s.through = b.newest
	return nil
}

// account returns format.ErrDamaged unless the found operations, by handle, are all from first to last of one
// segment, except for removed ones.
func (b *batch) account(first, last int64, found []member) error {
	var bits format.Removed
	var err error
	for handle := max(first, 1); err == nil && handle <= last; handle++ {
		switch {
		case len(found) > 0 && found[0].handle == handle:
			for len(found) > 0 && found[0].handle == handle {
				found = found[1:] // by its second name, too
			}
		case bits == nil:
			if bits, err = b.removedFrom(format.SegmentOf(first)); err != nil || bits.Has(handle-format.SegmentOf(first)) {
				continue
			}
			fallthrough
		case !bits.Has(handle - format.SegmentOf(first)):
			err = b.fail(format.ErrDamaged)
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
	latest := format.SegmentOf(b.newest+1) - format.SegmentSize
	if s.loaded < latest {
		if err := b.loadSegments(latest); err != nil {
			return nil, err
		}
	}
	s.noteWhole(latest)
	handles, _ := s.find(ref)
	return handles, nil
}

// noteWhole notes that nothing is missing, for readers. latest begins the latest segment.
func (s *segments) noteWhole(latest int64) {
	if !s.whole || s.known != s.through {
		s.mu.Lock()
		s.loaded, s.whole, s.known = latest, true, s.through
		s.mu.Unlock()
	}
}

// isFree reports that no operation has a name, by the hashes in memory alone. It returns false if one may have it, or if not
// all hashes are there.
func (b *batch) isFree(ref journal.Ref) bool {
	s := &b.segments
	latest := format.SegmentOf(b.newest+1) - format.SegmentSize
	if s.through < b.newest || s.loaded < latest {
		return false
	}
	s.noteWhole(latest)
	hash := s.key.Of(ref)
	if _, inTail := s.tailHashes[hash]; inTail {
		return false
	}
	for _, run := range s.runs {
		low := entry(hash, 0)
		if i, _ := slices.BinarySearch(run, low); i < len(run) && run[i]>>handleBits == low>>handleBits {
			return false
		}
	}
	return true
}

// find is candidates for other goroutines. whole reports whether all are there.
func (s *segments) find(ref journal.Ref) (handles []int64, whole bool) {
	hash := s.key.Of(ref)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.found(hash), s.whole
}

// findThrough is candidates for other goroutines. It returns the handle up to which all are there.
func (s *segments) findThrough(ref journal.Ref) (handles []int64, through int64) {
	hash := s.key.Of(ref)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.found(hash), s.known
}

// found returns the handles with a hash. mu is held.
func (s *segments) found(hash uint32) (handles []int64) {
	low := entry(hash, 0)
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
	return handles
}

// candidatesAfter returns the possible handles of the operation after one handle, by a snapshot whose log
// ends with latest. It uses the hashes of sealed segments, and the names of operations that are in neither a
// segment nor the log.
func (s *segments) candidatesAfter(r *read.Reader, ref journal.Ref, after int64, latest format.LogRow) (handles []int64, err error) {
	hash, low := s.key.Of(ref), format.SegmentOf(after+1)
	before := low - format.SegmentSize // the segment that comes before the first that is read; negative: none
	end := format.SegmentOf(latest.Newest + 1)
	err = r.Each("SELECT "+format.SegmentColumns+" FROM onceward_segments WHERE first > ? ORDER BY first", func(v []driver.Value) error {
		run, first, err := runAfter(before, v)
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
		err = b.fail(format.ErrDamaged)
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
