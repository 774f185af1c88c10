package sqlite

import (
	"context"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

// remark has the operation's marks be those that it has now. A zero before had none.
func (b *batch) remark(before, after *journal.Operation) error {
	var had, has []store.Mark
	if store.Marked(before) {
		had = store.AllMarks(before)
	}
	if store.Marked(after) {
		has = store.AllMarks(after)
	}
	for _, m := range has {
		if slices.Contains(had, m) {
			continue
		}
		if err := b.write(b.sql.AddMark, sealed.BucketOf(m, after.Handle), b.segments.Key.OfMark(byte(m.By), m.Value), after.Handle); err != nil {
			return err
		}
	}
	for _, m := range had {
		if slices.Contains(has, m) {
			continue
		}
		if err := b.write(b.sql.RemoveMark, sealed.BucketOf(m, before.Handle), b.segments.Key.OfMark(byte(m.By), m.Value), before.Handle); err != nil {
			return err
		}
	}
	return nil
}

// markedBy lists the operations that may be found so, by handle.
func (b *batch) markedBy(by journal.By, value string) ([]int64, error) {
	sought := store.MarkValue(by, value)
	handles := b.memtable.MarkedBy(by, sought, b.folded)
	for _, hash := range hashes(&b.segments.Key, by, sought, value) {
		find, args := b.sql.FindMarks, []any{hash}
		if by == store.ByFound {
			find, args = b.sql.FindFound, []any{int64(sealed.FoundBucket), hash}
		}
		found, err := b.handles(find, args...)
		if err != nil {
			return nil, err
		}
		handles = append(handles, found...)
	}
	slices.Sort(handles)
	return slices.Compact(handles), nil
}

// hashes returns the hashes of the values, each once. A file of before has the second alone.
func hashes(key *format.HashKey, by journal.By, values ...string) (all []int64) {
	for _, value := range slices.Compact(values) {
		all = append(all, key.OfMark(byte(by), value))
	}
	return all
}

// takes reports whether the object that ev names for op proves another operation.
func (b *batch) takes(op *journal.Operation, ev journal.Event) (bool, error) {
	if !store.NamesObject(ev) {
		return false, nil
	}
	handles, err := b.markedBy(store.TakenBy(ev), ev.Object)
	for _, handle := range handles {
		if err != nil {
			break
		}
		var other row
		if other, err = b.byHandle(handle); err == nil && store.Takes(&other.Op, op, ev) {
			return true, nil
		}
	}
	return false, err
}

// unmark removes the marks of an operation that is removed, and notes that it had its caller's reference.
func (b *batch) unmark(op *journal.Operation) error {
	if m, is := store.Reaped(op); is {
		if err := b.write(b.sql.AddMark, int64(sealed.ReapedBucket), b.segments.Key.OfMark(byte(m.By), m.Value), int64(0)); err != nil {
			return err
		}
	}
	return b.remark(op, &unmarked)
}

// sole reports whether no other operation has, or had, the caller's reference that ev shows of op.
func (b *batch) sole(op *journal.Operation, ev journal.Event) (bool, error) {
	reaped, is := store.NamesReference(op, ev)
	if !is {
		return false, nil
	}
	for _, m := range reaped {
		was, err := b.handles(b.sql.FindFound, int64(sealed.ReapedBucket), b.segments.Key.OfMark(byte(m.By), m.Value))
		if err != nil || len(was) > 0 {
			return false, err
		}
	}
	handles, err := b.markedBy(journal.ByReference, ev.Reference)
	for _, handle := range handles {
		if err != nil {
			break
		}
		var other row
		if other, err = b.byHandle(handle); err == nil && store.Shares(&other.Op, op, ev) {
			return false, nil
		}
	}
	return err == nil, err
}

// FindBy returns the operations of the provider that can be recognised by value, in the order of their
// creation. The writer finds them.
func (j *logJournal) FindBy(ctx context.Context, provider string, by journal.By, value string) (matches []journal.Match, err error) {
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	if j.file.writer.readOnly {
		return j.findBeside(ctx, provider, by, value)
	}
	var found []journal.Match
	err = j.file.writer.do(ctx, func(b *batch) error {
		found = nil
		handles, err := b.markedBy(by, value)
		if err != nil {
			return err
		}
		for _, handle := range handles {
			r, err := b.byHandle(handle)
			if err != nil {
				return err
			}
			if _, is := r.Op.RoundBy(by, value); !is || r.Op.Provider != provider {
				continue
			}
			m, err := b.match(r)
			if err != nil {
				return err
			}
			found = append(found, store.Match(m, by, value))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// match is the operation without its bodies.
func (b *batch) match(r row) (journal.Operation, error) {
	out := outcome{row: r}
	if _, err := b.readAnswer(&r.Op, &out); err != nil {
		return journal.Operation{}, err
	}
	op, err := (&format.Record{Row: r.Row, Answer: out.answer}).WithoutBodies()
	return op, b.fail(err)
}
