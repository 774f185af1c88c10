package rowstore

import (
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// taken reports whether the object that ev names for op proves another operation.
func (b *batch) taken(op *journal.Operation, ev *journal.Event) (bool, error) {
	if !store.NamesObject(*ev) {
		return false, nil
	}
	return b.anyMarked(store.TakenBy(*ev), ev.Object, func(other *journal.Operation) bool { return store.Takes(other, op, *ev) })
}

// sole reports whether no other operation has, or had, the caller's reference that ev shows.
func (b *batch) sole(op *journal.Operation, ev *journal.Event) (bool, error) {
	reaped, is := store.NamesReference(op, *ev)
	if !is {
		return false, nil
	}
	for _, m := range reaped {
		handles, err := b.marked(b.s.key.OfMark(byte(m.By), m.Value))
		if err != nil || len(handles) > 0 {
			return false, err
		}
	}
	shared, err := b.anyMarked(journal.ByReference, ev.Reference, func(other *journal.Operation) bool { return store.Shares(other, op, *ev) })
	return !shared && err == nil, err
}

// anyMarked reports whether is holds for any operation that may have this mark.
func (b *batch) anyMarked(by journal.By, value string, is func(*journal.Operation) bool) (bool, error) {
	handles, err := b.marked(b.s.key.OfMark(byte(by), store.MarkValue(by, value)))
	if err != nil {
		return false, err
	}
	for _, handle := range handles {
		e, err := b.byHandle(handle)
		if err != nil {
			return false, err
		}
		if e != nil && is(&e.now.op) {
			return true, nil
		}
	}
	return false, nil
}

// marked returns the handles that have a mark, in the database or by this batch.
func (b *batch) marked(mark int64) ([]int64, error) {
	if _, asked := b.marks[mark]; !asked {
		if err := b.find(Keys{Marks: []int64{mark}}); err != nil {
			return nil, err
		}
	}
	handles := slices.Concat(b.marks[mark], b.added[mark])
	slices.Sort(handles)
	return slices.Compact(handles), nil
}
