package sqlite

import (
	"slices"
	"sync"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

const (
	// keepRecent is the minimum of operations in the log before the oldest are folded. Most of them are
	// completed by then, and go to a block.
	keepRecent = 512
	// keepRecentBytes is how many bytes of requests and answers do, at most.
	keepRecentBytes = 4 << 20
)

// memtable holds the operations that only the log has: those with a handle above the log's folded. The writer
// changes it. Others see committed records.
type memtable struct {
	first int64   // the handle of slots[0]
	slots []*slot // of consecutive handles
	bytes int     // of requests and answers of operations that are not folded
	dirty []*slot // changed since the last commit
	// byObject are handles of those that have an object, or evidence of one; some may have
	// been folded.
	byObject map[string][]int64

	mu    sync.RWMutex // guards the following fields, and slot.shown
	byRef map[journal.Ref]*slot
	seq   int64 // of the log's row up to which slots are shown
}

// slot is a place of one operation.
type slot struct {
	now   *format.Record // as the writer sees it
	shown *format.Record // as it was committed; nil: not yet
}

func newMemtable() *memtable {
	return &memtable{first: 1, byRef: make(map[journal.Ref]*slot), byObject: make(map[string][]int64)}
}

// markedBy lists the operations after folded that may be found so.
func (r *memtable) markedBy(by journal.By, value string, folded int64) (handles []int64) {
	if by != journal.ByKey && by != journal.ByReference {
		for _, handle := range r.byObject[value] {
			if handle > folded {
				handles = append(handles, handle)
			}
		}
		return handles
	}
	for _, s := range r.slots {
		if _, found := s.now.Op.RoundBy(by, value); found && s.now.Op.Handle > folded {
			handles = append(handles, s.now.Op.Handle)
		}
	}
	return handles
}

// noteObjects has the operation be found by its objects.
func (r *memtable) noteObjects(op *journal.Operation) {
	note := func(object string) {
		if handles := r.byObject[object]; object != "" && !slices.Contains(handles, op.Handle) {
			r.byObject[object] = append(handles, op.Handle)
		}
	}
	note(op.Object)
	for i := range op.Evidence {
		for _, object := range op.Evidence[i].Objects() {
			note(object)
		}
	}
}

// forgetObjects removes the objects of a folded operation.
func (r *memtable) forgetObjects(op *journal.Operation) {
	forget := func(object string) {
		if object == "" {
			return
		}
		handles := slices.DeleteFunc(r.byObject[object], func(handle int64) bool { return handle == op.Handle })
		if r.byObject[object] = handles; len(handles) == 0 {
			delete(r.byObject, object)
		}
	}
	forget(op.Object)
	for i := range op.Evidence {
		for _, object := range op.Evidence[i].Objects() {
			forget(object)
		}
	}
}

// at returns the operation with this handle, or nil.
func (r *memtable) at(handle int64) *format.Record {
	if s := r.slot(handle); s != nil {
		return s.now
	}
	return nil
}

func (r *memtable) slot(handle int64) *slot {
	if i := handle - r.first; i >= 0 && i < int64(len(r.slots)) {
		return r.slots[i]
	}
	return nil
}

// newest returns the latest handle in it. Handles up to folded need not be in it.
func (r *memtable) newest(folded int64) int64 {
	if len(r.slots) == 0 {
		return folded
	}
	return r.first + int64(len(r.slots)) - 1
}

// put stores a new operation, or its new state.
func (r *memtable) put(k *format.Record) {
	s := r.slot(k.Op.Handle)
	if s == nil {
		if len(r.slots) == 0 {
			r.first = k.Op.Handle
		}
		s = new(slot)
		r.slots = append(r.slots, s)
		r.mu.Lock()
		r.byRef[k.Op.Ref] = s
		if k.Op.Alias != (journal.Ref{}) {
			r.byRef[k.Op.Alias] = s
		}
		r.mu.Unlock()
	} else {
		r.bytes -= s.now.Size()
	}
	if s.now != nil {
		r.forgetObjects(&s.now.Op)
	}
	s.now = k
	r.noteObjects(&k.Op)
	r.bytes += k.Size()
	r.dirty = append(r.dirty, s)
}

// commit publishes the stored records up to the log's row seq, and removes the folded ones.
func (r *memtable) commit(seq, folded int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.dirty {
		s.shown = s.now
	}
	clear(r.dirty)
	r.dirty = r.dirty[:0]
	r.seq = seq
	n := int(min(max(folded+1-r.first, 0), int64(len(r.slots))))
	for _, s := range r.slots[:n] {
		delete(r.byRef, s.now.Op.Ref)
		delete(r.byRef, s.now.Op.Alias)
		r.forgetObjects(&s.now.Op)
	}
	clear(r.slots[:n])
	r.slots = r.slots[n:]
	r.first += int64(n)
}

// reset forgets everything.
func (r *memtable) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots, r.dirty, r.bytes, r.seq = nil, nil, 0, 0
	clear(r.byRef)
	clear(r.byObject)
}

// committed returns the committed operation or nil, and the row of the log up to which that is known.
func (r *memtable) committed(ref journal.Ref) (k *format.Record, seq int64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s := r.byRef[ref]; s != nil {
		k = s.shown
	}
	return k, r.seq
}
