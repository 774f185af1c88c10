// Package memtable holds the operations that only the log has: those that are not folded yet.
//
// It knows records by handle, name and object, and which of them are committed. It must not know the file, the log's rows
// or a transaction. The writer puts records, commits them with each row of the log, and says what was folded.
package memtable

import (
	"cmp"
	"slices"
	"sync"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// Table holds the operations that only the log has: those with a handle above the log's folded. The writer
// changes it. Others see committed records.
type Table struct {
	first int64   // the handle of slots[0]
	slots []*slot // of consecutive handles
	Bytes int     // of requests and answers of operations that are not folded
	dirty []*slot // changed since the last commit
	// ByObject are handles of those that have an object, or evidence of one; some may have
	// been folded.
	ByObject map[string][]int64

	mu    sync.RWMutex // guards the following fields, and slot.shown
	byRef map[journal.Ref]*slot
	seq   int64 // of the log's row up to which slots are shown
}

// slot is a place of one operation.
type slot struct {
	now   *format.Record // as the writer sees it
	shown *format.Record // as it was committed; nil: not yet
}

// New returns an empty one.
func New() *Table {
	return &Table{first: 1, byRef: make(map[journal.Ref]*slot), ByObject: make(map[string][]int64)}
}

// MarkedBy lists the operations after folded that may be found so.
func (r *Table) MarkedBy(by journal.By, value string, folded int64) (handles []int64) {
	if by != journal.ByKey && by != journal.ByReference {
		for _, handle := range r.ByObject[value] {
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
func (r *Table) noteObjects(op *journal.Operation) {
	note := func(object string) {
		if object == "" {
			return
		}
		object = store.MarkValue(journal.ByObject, object)
		if handles := r.ByObject[object]; !slices.Contains(handles, op.Handle) {
			r.ByObject[object] = append(handles, op.Handle)
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
func (r *Table) forgetObjects(op *journal.Operation) {
	forget := func(object string) {
		if object == "" {
			return
		}
		object = store.MarkValue(journal.ByObject, object)
		handles := slices.DeleteFunc(r.ByObject[object], func(handle int64) bool { return handle == op.Handle })
		if r.ByObject[object] = handles; len(handles) == 0 {
			delete(r.ByObject, object)
		}
	}
	forget(op.Object)
	for i := range op.Evidence {
		for _, object := range op.Evidence[i].Objects() {
			forget(object)
		}
	}
}

// At returns the operation with this handle, or nil.
func (r *Table) At(handle int64) *format.Record {
	if s := r.slot(handle); s != nil {
		return s.now
	}
	return nil
}

func (r *Table) slot(handle int64) *slot {
	if i := handle - r.first; i >= 0 && i < int64(len(r.slots)) {
		return r.slots[i]
	}
	return nil
}

// Newest returns the latest handle in it. Handles up to folded need not be in it.
func (r *Table) Newest(folded int64) int64 {
	if len(r.slots) == 0 {
		return folded
	}
	return r.first + int64(len(r.slots)) - 1
}

// Put stores a new operation, or its new state.
func (r *Table) Put(k *format.Record) {
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
		r.Bytes -= s.now.Size()
	}
	if s.now != nil {
		r.forgetObjects(&s.now.Op)
	}
	s.now = k
	r.noteObjects(&k.Op)
	r.Bytes += k.Size()
	r.dirty = append(r.dirty, s)
}

// Commit publishes the stored records up to the log's row seq, and removes the folded ones.
func (r *Table) Commit(seq, folded int64) {
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

// Reset forgets everything.
func (r *Table) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots, r.dirty, r.Bytes, r.seq = nil, nil, 0, 0
	clear(r.byRef)
	clear(r.ByObject)
}

// Named returns the operation with this name, or nil, as the writer sees it. Only the writer may call it: no other goroutine
// writes byRef.
func (r *Table) Named(ref journal.Ref) *format.Record {
	if s := r.byRef[ref]; s != nil {
		return s.now
	}
	return nil
}

// Uncount takes the operations that another process folded from Bytes.
func (r *Table) Uncount(folded int64) {
	for _, s := range r.slots {
		if s.now.Op.Handle <= folded {
			r.Bytes -= s.now.Size()
		}
	}
}

// Through returns the log's row up to which the records are published. Only the writer may call it.
func (r *Table) Through() int64 { return r.seq }

// Committed returns the committed operation or nil, and the row of the log up to which that is known.
func (r *Table) Committed(ref journal.Ref) (k *format.Record, seq int64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s := r.byRef[ref]; s != nil {
		k = s.shown
	}
	return k, r.seq
}

// All returns the published records by handle, if they are of the log's row seq.
func (r *Table) All(seq int64) (ops []*format.Record, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.seq != seq {
		return nil, false
	}
	for ref, s := range r.byRef {
		if s.shown != nil && s.shown.Op.Ref == ref { // and not by its second name
			ops = append(ops, s.shown)
		}
	}
	slices.SortFunc(ops, byHandle)
	return ops, true
}

func byHandle(a, b *format.Record) int { return cmp.Compare(a.Op.Handle, b.Op.Handle) }
