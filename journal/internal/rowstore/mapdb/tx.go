package mapdb

import (
	"cmp"
	"context"
	"crypto/rand"
	"iter"
	"maps"
	"slices"

	"github.com/onceward/onceward/journal/internal/rowstore"
)

// view shows a reader the committed rows with its own transaction's changes. It implements rowstore.Reader.
type view struct {
	db      *Database
	tx      *tx // nil: no transaction
	changed tables
}

// tx is a transaction. It implements rowstore.Tx.
type tx struct {
	view
	d     *Driver
	lock  rowstore.Lock
	head  rowstore.Head // as Begin returned it
	holds []any
	waits *tx // for which it waits now
	over  bool
	ended chan struct{} // closed once it is over
}

func (v *view) row(handle int64) *rowstore.Row { return get(v.changed.rows, v.db.rows, handle) }

func (v *view) all() iter.Seq2[int64, *rowstore.Row] { return all(v.changed.rows, v.db.rows) }

// indexed returns a name's or a mark's handles.
func (v *view) indexed(key any) (handles []int64) {
	for handle := range all(v.changed.index[key], v.db.index[key]) {
		handles = append(handles, handle)
	}
	return handles
}

func (v *view) Find(ctx context.Context, keys rowstore.Keys) (rowstore.Found, error) {
	defer v.db.lock()()
	return v.find(ctx, keys)
}

func (v *view) find(ctx context.Context, keys rowstore.Keys) (found rowstore.Found, err error) {
	handles, named := slices.Clone(keys.Handles), keys.Handles[:0:0]
	for _, name := range keys.Names {
		for _, handle := range v.indexed(name) {
			set(&found.Names, name, handle)
			handles, named = append(handles, handle), append(named, handle)
		}
	}
	slices.Sort(handles)
	for _, handle := range slices.Compact(handles) {
		row, err := v.read(ctx, handle, keys.Lock)
		if err != nil {
			return found, err
		}
		if row != nil {
			row.Whole = (keys.Whole || slices.Contains(named, handle)) && !row.Locked && !keys.Heads
			switch {
			case keys.Heads:
				row.Request, row.Answer = head(row.Request), head(row.Answer)
			case !row.Whole:
				row.Request, row.Answer = nil, nil
			}
			found.Rows = append(found.Rows, row)
		}
	}
	for _, m := range keys.Marks {
		if v.tx != nil {
			if _, err := v.db.take(ctx, v.tx, mark(m), rowstore.WaitLock); err != nil {
				return found, err
			}
		}
		set(&found.Marks, m, v.indexed(mark(m)))
	}
	return found, nil
}

// head returns a part without its body.
func head(p *rowstore.Part) *rowstore.Part {
	if p == nil {
		return nil
	}
	return &rowstore.Part{Head: p.Head}
}

// read returns a copy of a row, locked if asked, or nil.
func (v *view) read(ctx context.Context, handle int64, lock rowstore.Lock) (*rowstore.Row, error) {
	if v.row(handle) == nil {
		return nil, nil
	}
	if v.tx != nil && lock != rowstore.NoLock {
		if is, err := v.db.take(ctx, v.tx, handle, lock); err != nil || !is {
			return &rowstore.Row{Handle: handle, Locked: true}, err
		}
	}
	row := v.row(handle)
	if row == nil {
		return nil, nil // it was removed meanwhile
	}
	own := *row
	return &own, nil
}

func (t *tx) Handle(context.Context) (int64, error) {
	defer t.db.lock()()
	t.db.head.Newest++ // as a sequence: it stays if t is rolled back
	return t.db.head.Newest, nil
}

func (t *tx) Put(ctx context.Context, changes []*rowstore.Change) error {
	defer t.db.lock()()
	return t.put(ctx, changes)
}

func (t *tx) put(ctx context.Context, changes []*rowstore.Change) error {
	for _, c := range changes {
		if err := t.change(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) change(ctx context.Context, c *rowstore.Change) error {
	row := *c.Row
	was := t.row(row.Handle)
	if c.Insert != (was == nil) || !c.Insert && t.db.held[row.Handle] != t {
		return rowstore.ErrMissed
	}
	for _, name := range c.RemoveNames {
		t.unindex(name, row.Handle)
	}
	for _, name := range c.AddNames {
		if is, err := t.db.take(ctx, t, name, t.lock); err != nil || !is {
			return cmp.Or(err, rowstore.ErrLocked)
		}
		if len(t.indexed(name)) > 0 {
			return rowstore.ErrMissed
		}
		t.addToIndex(name, row.Handle)
	}
	for _, m := range c.AddMarks {
		t.addToIndex(mark(m), row.Handle)
	}
	for _, m := range c.RemoveMarks {
		t.unindex(mark(m), row.Handle)
	}
	for _, m := range c.LeaveMarks {
		t.addToIndex(mark(m), 0)
	}
	if c.Remove {
		set(&t.changed.rows, row.Handle, nil)
		return nil
	}
	if was != nil && !c.Request {
		row.Request = was.Request
	}
	if was != nil && !c.Answer {
		row.Answer = was.Answer
	}
	set(&t.changed.rows, row.Handle, &row)
	return nil
}

func (t *tx) addToIndex(key any, handle int64) { t.setIndex(key, handle, new(struct{})) }
func (t *tx) unindex(key any, handle int64)    { t.setIndex(key, handle, nil) }

func (t *tx) setIndex(key any, handle int64, is *struct{}) {
	handles := maps.Clone(t.changed.index[key])
	set(&handles, handle, is)
	set(&t.changed.index, key, handles)
}

func (t *tx) RecordEvent(ctx context.Context, digest []byte, at int64) (bool, error) {
	return t.number(ctx, event(digest), at, func(int64) bool { return false })
}

// number sets a number that no other transaction is about to set, if there is none or replaces reports true.
func (t *tx) number(ctx context.Context, key any, n int64, replaces func(was int64) bool) (bool, error) {
	defer t.db.lock()()
	if _, err := t.db.take(ctx, t, key, rowstore.WaitLock); err != nil {
		return false, err
	}
	if was := get(t.changed.numbers, t.db.numbers, key); was != nil && !replaces(*was) {
		return false, nil
	}
	set(&t.changed.numbers, key, &n)
	return true, nil
}

func (t *tx) Forget(_ context.Context, before int64, limit int) error {
	defer t.db.lock()()
	for key, at := range t.db.numbers {
		if _, is := key.(event); is && limit > 0 && *at < before {
			set(&t.changed.numbers, key, nil)
			limit--
		}
	}
	return nil
}

func (t *tx) Rollback() {
	defer t.db.lock()()
	t.db.end(t)
}

func (t *tx) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	db := t.db
	defer db.lock()()
	defer db.end(t)
	if err := t.put(ctx, changes); err != nil {
		return err
	}
	if head.Restored != t.head.Restored && db.head.Restored != t.head.Restored || db.head.Leaps != t.head.Leaps ||
		head.Sealed != t.head.Sealed && db.head.Sealed != t.head.Sealed {
		return rowstore.ErrMissed
	}
	db.merge(&t.changed)
	db.commitHead(&t.head, &head)
	return nil
}

// commitHead records a head of a transaction that began with another one.
func (db *Database) commitHead(was, is *rowstore.Head) {
	clock := is.Clock
	if db.head.Number != was.Number { // another commit came between: neither clock is lost
		other := &db.head.Clock
		if other.Last.After(clock.Last) {
			clock.Last = other.Last
		}
		if other.Ahead.After(clock.Ahead) {
			clock.Ahead = other.Ahead
		}
		clock.LeastMargin = least(clock.LeastMargin, other.LeastMargin)
	}
	db.head.Clock, db.head.Number, db.head.Leaps, db.head.Epoch = clock, db.head.Number+1, is.Leaps, max(db.head.Epoch, is.Epoch)
	if is.Hook != was.Hook {
		db.head.Hook = is.Hook
	}
	if is.Naming != was.Naming {
		db.head.Naming = is.Naming
	}
	if is.Deployment != was.Deployment {
		db.head.Deployment = is.Deployment
	}
	if is.Sealed != was.Sealed {
		db.head.Sealed = is.Sealed
	}
	if is.Restored != was.Restored {
		if db.head.Restored = is.Restored; is.Restored == "" {
			db.head.Identity = rand.Text()
		}
	}
}

// least returns the lesser of two figures. 0 means none.
func least[T ~int64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
