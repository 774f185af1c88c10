package rowstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// batch is one transaction and the rows that the transaction has read.
type batch struct {
	s    *Store
	ctx  context.Context
	tx   Tx
	head Head
	lock Lock
	sure bool // look up new names too: one of them was taken

	clock *clock

	entries map[int64]*entry
	order   []*entry
	names   map[Digest]int64  // the handle of each name that was looked up or added; 0 means none
	marks   map[int64][]int64 // the handles of each mark that was looked up; nil if none was
	added   map[int64][]int64 // the handles of each mark that this batch has added; nil if it has none

	lives  map[string]Life // of other processes' sessions, as far as they were asked for; nil if none was
	undo   []former
	leaps  leaps
	tossed bool  // other callers' clocks have leapt back each time: this one is not followed any more
	keep   bool  // commit the clock, even if no row changed
	undone bool  // roll back, whatever has changed
	broken error // the transaction can't go on
}

// entry is a batch's row. base is the row in the transaction, now is the row to be written. nil means no row.
type entry struct {
	handle    int64
	base, now *item
	err       error // ErrDamaged: only requests for this row fail
	locked    bool  // another transaction holds it
}

// former is what an entry was before the present request.
type former struct {
	e   *entry
	now *item
}

// errHeld means that another transaction holds a needed row. The request waits alone.
var errHeld = errors.New("rowstore: another transaction holds the operation")

func newBatch(ctx context.Context, s *Store, tx Tx, head Head, lock Lock, sure bool) *batch {
	return &batch{
		s: s, ctx: ctx, tx: tx, head: head, lock: lock, sure: sure, clock: &s.clock,
		entries: make(map[int64]*entry), names: make(map[Digest]int64),
	}
}

// take adds what was found. asked are the keys.
func (b *batch) take(asked Keys, found Found) {
	for _, name := range asked.Names {
		b.names[name] = found.Names[name]
	}
	if len(asked.Marks) > 0 && b.marks == nil {
		b.marks = make(map[int64][]int64)
	}
	for _, mark := range asked.Marks {
		b.marks[mark] = found.Marks[mark]
	}
	for _, row := range found.Rows {
		e := b.entries[row.Handle]
		switch {
		case e == nil:
			e = &entry{handle: row.Handle}
			b.entries[row.Handle], b.order = e, append(b.order, e)
		case !e.locked:
			continue
		}
		e.read(b.s.codec, row)
	}
}

// read is the entry as the transaction has it.
func (e *entry) read(c format.Codec, row *Row) {
	if e.locked = row.Locked; e.locked {
		return
	}
	if e.base, e.err = decode(c, row); e.err == nil && row.Whole {
		e.err = e.base.fill(row)
	}
	e.now = e.base
}

// find reads further rows in the transaction.
func (b *batch) find(keys Keys) error {
	keys.Lock = b.lock
	found, err := b.tx.Find(b.ctx, keys)
	if err != nil {
		return b.fail(err)
	}
	b.take(keys, found)
	return nil
}

// fail notes an error of the transaction.
func (b *batch) fail(err error) error {
	if err != nil && b.broken == nil {
		b.broken = err
	}
	return err
}

// usable returns the entry, nil if there is no row, or the reason why this request can't go on.
func (e *entry) usable() (*entry, error) {
	switch {
	case e == nil:
		return nil, nil
	case e.locked:
		return nil, errHeld
	case e.err != nil:
		return nil, e.err
	case e.now == nil:
		return nil, nil
	}
	return e, nil
}

// byHandle returns the entry of a handle, or nil.
func (b *batch) byHandle(handle int64) (*entry, error) {
	e := b.entries[handle]
	if e == nil {
		if err := b.find(Keys{Handles: []int64{handle}}); err != nil {
			return nil, err
		}
		e = b.entries[handle]
	}
	return e.usable()
}

// byName returns a name's entry, or nil. A name without a row, or with another name's row, is damaged.
func (b *batch) byName(ref journal.Ref, name Digest) (*entry, error) {
	if _, asked := b.names[name]; !asked {
		if err := b.find(Keys{Names: []Digest{name}}); err != nil {
			return nil, err
		}
	}
	handle := b.names[name]
	if handle == 0 {
		return nil, nil
	}
	there := b.entries[handle]
	if there == nil {
		return nil, fmt.Errorf("the index of names has operation %d, which does not exist: %w", handle, format.ErrDamaged)
	}
	e, err := there.usable()
	if e != nil && !store.IsNamed(&e.now.op, ref) {
		return nil, fmt.Errorf("the index of names leads to operation %d, which has another name: %w", handle, format.ErrDamaged)
	}
	return e, err
}

// named returns the entry that the event names, or nil.
func (b *batch) named(p *prepared) (*entry, error) {
	if p.Handle != 0 {
		e, err := b.byHandle(p.Handle)
		if err != nil || e != nil && (p.Ref == journal.Ref{} || store.IsNamed(&e.now.op, p.Ref)) {
			return e, err
		}
	}
	if p.New && !b.sure || p.Ref == (journal.Ref{}) && p.Kind != machine.EventBegin {
		return nil, nil
	}
	return b.byName(p.Ref, p.name)
}

// readWhole reads the parts of an entry.
func (b *batch) readWhole(e *entry) error {
	if e.now.whole {
		return nil
	}
	found, err := b.tx.Find(b.ctx, Keys{Handles: []int64{e.handle}, Whole: true, Lock: b.lock})
	if err != nil {
		return b.fail(err)
	}
	if len(found.Rows) != 1 || found.Rows[0].Locked {
		return b.fail(ErrMissed)
	}
	return e.fill(found.Rows[0])
}

// fill adds the parts from the row, which equals base. New parts stay.
func (e *entry) fill(row *Row) error {
	if err := e.base.fill(row); err != nil {
		return err
	}
	if e.now.request == nil && e.now.requestSum == e.base.requestSum {
		e.now.request = e.base.request
	}
	if e.now.answer == nil && e.now.answerSum == e.base.answerSum {
		e.now.answer = e.base.answer
	}
	e.now.whole = true
	return nil
}

// set notes the entry's new item for the present request. nil removes the entry.
func (b *batch) set(e *entry, now *item) {
	b.undo = append(b.undo, former{e, e.now})
	b.replace(e, now)
}

// replace is set for a change that stays if the request fails.
func (b *batch) replace(e *entry, now *item) {
	for _, mark := range now.marks(&b.s.key) {
		if b.added == nil {
			b.added = make(map[int64][]int64)
		}
		b.added[mark] = append(b.added[mark], e.handle)
	}
	if !now.isNamedAs(e.now) {
		for _, name := range now.names(&b.s.key) {
			b.names[name] = e.handle
		}
	}
	if now != nil {
		b.clock.margin(now.op.Terms)
	}
	e.now = now
}

// insert adds an entry for an operation that has no row yet.
func (b *batch) insert() (*entry, error) {
	handle, err := b.tx.Handle(b.ctx)
	if err != nil {
		return nil, b.fail(err)
	}
	b.head.Newest = max(b.head.Newest, handle)
	e := &entry{handle: handle}
	b.entries[handle], b.order = e, append(b.order, e)
	return e, nil
}

// revert undoes the changes of the present request.
func (b *batch) revert() {
	for _, u := range slices.Backward(b.undo) {
		u.e.now = u.now
	}
}

// changes returns what the transaction does not have yet, removals first.
func (b *batch) changes() (changes []*Change) {
	removed := 0
	for _, e := range b.order {
		c := e.change(b.s.codec, &b.s.key)
		if c == nil {
			continue
		}
		changes = append(changes, c)
		if c.Remove {
			changes = slices.Insert(changes[:len(changes)-1], removed, c)
			removed++
		}
	}
	return changes
}

func (e *entry) change(codec format.Codec, key *format.HashKey) *Change {
	if e.base == e.now {
		return nil
	}
	c := &Change{Insert: e.base == nil, Remove: e.now == nil}
	if c.Remove {
		c.Row = &Row{Handle: e.handle}
		if m, is := store.Reaped(&e.base.op); is {
			c.LeaveMarks = []int64{key.OfMark(byte(m.By), m.Value)}
		}
	} else {
		c.Row = e.now.encode(codec)
		c.Request, c.Answer = e.now.partsNew(e.base)
	}
	if !e.now.isNamedAs(e.base) {
		c.AddNames, c.RemoveNames = difference(e.base.names(key), e.now.names(key))
	}
	c.AddMarks, c.RemoveMarks = difference(e.base.marks(key), e.now.marks(key))
	return c
}

// partsNew reports which parts differ from the row's parts.
func (it *item) partsNew(base *item) (request, answer bool) {
	if base == nil {
		return it.request != nil, it.answer != nil
	}
	return it.request != base.request || it.requestSum != base.requestSum, it.answer != base.answer || it.answerSum != base.answerSum
}

// difference returns what is only in after, and what is only in before.
func difference[T comparable](before, after []T) (added, removed []T) {
	for _, v := range after {
		if !slices.Contains(before, v) {
			added = append(added, v)
		}
	}
	for _, v := range before {
		if !slices.Contains(after, v) {
			removed = append(removed, v)
		}
	}
	return added, removed
}
