// Package nameindex finds operations by the hashes of their names. An index in the file would cost a page for every
// operation.
//
// It knows segments: the hashes of 1,024 operations each, as they stand in the file and in memory. It must not know a
// transaction. The writer reads and writes the segments, and says which handles the file has.
package nameindex

import (
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// Index finds operations by ID. A segment is written once, with the last of its operations. The others, the tail,
// are in memory. After the first search for an ID without a row, so are the hashes of all: eight bytes for every
// operation. One goroutine changes it. Others call Find and FindThrough.
type Index struct {
	Key     format.HashKey
	Through int64 // no member of the tail up to this handle is missing
	Loaded  int64 // the first handle of the latest segment in runs; negative: none

	mu    sync.RWMutex // held by the writer to change the following fields
	whole bool         // nothing is missing in it
	// known is the handle up to which nothing is missing in it. -1 means unknown.
	known      int64
	Tail       []Member            // of handles not in a segment yet, ascending
	tailHashes map[uint32]struct{} // the hashes of tail, and of some that it has no more
	runs       [][]uint64          // hashes and handles, each sorted, and less than half as long as the one before
}

// New returns an index that knows nothing yet.
func New() *Index { return &Index{Loaded: -1, known: -1} }

// Member is an operation of a segment to come.
type Member struct {
	Handle int64
	Hash   uint32
	began  time.Time
	// These make up a segment's contents.
	Scope, Provider string
}

// handleBits leaves 28 bits for the hash.
const handleBits = 36

func entry(hash uint32, handle int64) uint64 {
	return uint64(hash>>4)<<handleBits | uint64(handle)&(1<<handleBits-1)
}

// MembersOf returns the entries by which an operation is found: its name, and its second one.
func (s *Index) MembersOf(handle int64, op *journal.Operation) []Member {
	members := []Member{{handle, s.Key.Of(op.Ref), op.CreatedAt, op.Scope, op.Provider}}
	if op.Alias != (journal.Ref{}) {
		members = append(members, Member{handle, s.Key.Of(op.Alias), op.CreatedAt, op.Scope, op.Provider})
	}
	return members
}

func (s *Index) addToTail(members []Member) {
	s.Tail = append(s.Tail, members...)
	if s.tailHashes == nil {
		s.tailHashes = make(map[uint32]struct{})
	}
	for _, m := range members {
		s.tailHashes[m.Hash] = struct{}{}
	}
}

// Truncate forgets uncommitted entries: handles later than newest are reused.
func (s *Index) Truncate(newest int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := format.SegmentOf(newest + 1)
	s.Tail = slices.DeleteFunc(s.Tail, func(m Member) bool { return m.Handle > newest || m.Handle < first })
	s.Through = max(min(s.Through, newest), first-1)
	if s.Loaded >= first {
		s.runs, s.Loaded, s.known = nil, -1, -1
	}
	s.whole = s.whole && s.Through == newest && s.Loaded == first-format.SegmentSize
	s.known = min(s.known, newest)
	s.forgetTail(first)
}

// forgetTail records that the tail has nothing before first any more. mu is held. Otherwise a reader that
// starts from known would take the tail's former entries for absent: if everything up to there is folded,
// nothing is read (Journal.filed).
func (s *Index) forgetTail(first int64) {
	switch {
	case s.Loaded >= first-format.SegmentSize:
	case s.Loaded < 0:
		s.known = -1
	default:
		s.known = min(s.known, s.Loaded+format.SegmentSize-1)
	}
}

// Begin adds an operation that was just begun to the tail, if nothing before it is missing.
func (s *Index) Begin(op *journal.Operation) {
	if s.Through != op.Handle-1 {
		return
	}
	s.mu.Lock()
	s.addToTail(s.MembersOf(op.Handle, op))
	if s.known == s.Through {
		s.known = op.Handle
	}
	s.mu.Unlock()
	s.Through = op.Handle
}

// Entries returns the entries of the segment that begins with first, which the tail makes up, and its earliest creation.
// began is one of those.
func (s *Index) Entries(first int64, began time.Time) (earliest time.Time, run []uint64) {
	run = make([]uint64, 0, len(s.Tail))
	for _, m := range s.Tail {
		if m.began.Before(began) {
			began = m.began
		}
		run = append(run, uint64(m.Hash)<<16|uint64(m.Handle-first))
	}
	return began, run
}

// Seal makes the tail a segment, which has these entries.
func (s *Index) Seal(first int64, run []uint64) {
	for i, e := range run {
		run[i] = entry(uint32(e>>16), first+int64(uint16(e)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Tail = s.Tail[:0]
	clear(s.tailHashes)
	if s.Loaded == first-format.SegmentSize {
		s.AddRun(run)
		s.Loaded = first
	}
	s.whole = s.whole && s.Loaded == first
	s.forgetTail(first + format.SegmentSize)
}

// Unseal has the members of the segment be read again.
func (s *Index) Unseal(first int64) { s.Through = first - 1 }

// AddRun adds a run and merges runs of the same length, so that few must be searched.
func (s *Index) AddRun(run []uint64) {
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

// Complete adds the members that were missing in the tail, up to the handle newest.
func (s *Index) Complete(missed []Member, newest int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addToTail(missed)
	s.Through = newest
}

// NoteWhole notes that nothing is missing, for readers. latest begins the latest segment.
func (s *Index) NoteWhole(latest int64) {
	if !s.whole || s.known != s.Through {
		s.mu.Lock()
		s.Loaded, s.whole, s.known = latest, true, s.Through
		s.mu.Unlock()
	}
}

// IsFree reports that no operation has a name, by the hashes in memory alone. It returns false if one may have it, or if not
// all hashes are there.
func (s *Index) IsFree(ref journal.Ref, newest int64) bool {
	latest := format.SegmentOf(newest+1) - format.SegmentSize
	if s.Through < newest || s.Loaded < latest {
		return false
	}
	s.NoteWhole(latest)
	hash := s.Key.Of(ref)
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

// Find returns the handles that the operation may have, for any goroutine. whole reports whether all are there.
func (s *Index) Find(ref journal.Ref) (handles []int64, whole bool) {
	hash := s.Key.Of(ref)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.found(hash), s.whole
}

// FindThrough is Find with the handle up to which all are there.
func (s *Index) FindThrough(ref journal.Ref) (handles []int64, through int64) {
	hash := s.Key.Of(ref)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.found(hash), s.known
}

// found returns the handles with a hash. mu is held.
func (s *Index) found(hash uint32) (handles []int64) {
	low := entry(hash, 0)
	for _, m := range s.Tail {
		if m.Hash == hash {
			handles = append(handles, m.Handle)
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

// AddRuns adds segments that were sealed since the last time.
func (s *Index) AddRuns(runs [][]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range runs {
		s.AddRun(run)
	}
}

// Take stores the hashes of another index, up to the segment that begins with last, unless some were stored before.
func (s *Index) Take(loaded *Index, last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Loaded < 0 {
		s.runs, s.Loaded = loaded.runs, last
	}
}
