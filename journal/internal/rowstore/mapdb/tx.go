package mapdb

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// view is what a reader sees: what is committed, and what its transaction has changed.
type view struct {
	db *Database
	t  *tx // nil: no transaction
}

// tx is a transaction. Its changes are staged until it commits.
type tx struct {
	view
	d     *Driver
	lock  rowstore.Lock
	head  rowstore.Head // as Begin returned it
	holds []any
	waits *tx // for which it waits now
	over  bool

	rows  map[int64]*rowstore.Row   // nil: removed
	names map[rowstore.Digest]int64 // 0: removed
	marks map[int64]map[int64]bool  // false: removed
	heard map[string]int64          // 0: forgotten

	receipts map[journal.ReceiptKey]*rowstore.Receipt // nil: removed
	heads    map[entity]int64
	flows    map[int64]*rowstore.Flow
	steps    map[int64][]rowstore.Step // all of a flow's
}

func (v *view) row(handle int64) *rowstore.Row {
	if v.t != nil {
		if row, staged := v.t.rows[handle]; staged {
			return row
		}
	}
	return v.db.rows[handle]
}

func (v *view) name(name rowstore.Digest) int64 {
	if v.t != nil {
		if handle, staged := v.t.names[name]; staged {
			return handle
		}
	}
	return v.db.names[name]
}

func (v *view) marked(m int64) (handles []int64) {
	is := maps.Clone(v.db.marks[m])
	if v.t != nil {
		if is == nil {
			is = make(map[int64]bool)
		}
		maps.Copy(is, v.t.marks[m])
	}
	for handle, there := range is {
		if there {
			handles = append(handles, handle)
		}
	}
	return handles
}

// Find implements rowstore.Reader.
func (v *view) Find(ctx context.Context, keys rowstore.Keys) (rowstore.Found, error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	return v.find(ctx, keys)
}

func (v *view) find(ctx context.Context, keys rowstore.Keys) (rowstore.Found, error) {
	var found rowstore.Found
	handles, named := slices.Clone(keys.Handles), keys.Handles[:0:0]
	for _, name := range keys.Names {
		if handle := v.name(name); handle != 0 {
			if found.Names == nil {
				found.Names = make(map[rowstore.Digest]int64, len(keys.Names))
			}
			found.Names[name], handles, named = handle, append(handles, handle), append(named, handle)
		}
	}
	slices.Sort(handles)
	slices.Sort(named)
	for _, handle := range slices.Compact(handles) {
		row, err := v.read(ctx, handle, keys.Lock)
		if err != nil {
			return found, err
		}
		if row != nil {
			_, byName := slices.BinarySearch(named, handle)
			row.Whole = (keys.Whole || byName) && !row.Locked && !keys.Heads
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
		if v.t != nil {
			if _, err := v.db.take(ctx, v.t, mark(m), rowstore.WaitLock); err != nil {
				return found, err
			}
		}
		if found.Marks == nil {
			found.Marks = make(map[int64][]int64, len(keys.Marks))
		}
		found.Marks[m] = v.marked(m)
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
	if v.t != nil && lock != rowstore.NoLock {
		switch is, err := v.db.take(ctx, v.t, handle, lock); {
		case err != nil:
			return nil, err
		case !is:
			return &rowstore.Row{Handle: handle, Locked: true}, nil
		}
	}
	row := v.row(handle)
	if row == nil {
		return nil, nil // it was removed meanwhile
	}
	own := *row
	return &own, nil
}

// Handle implements rowstore.Tx.
func (t *tx) Handle(context.Context) (int64, error) {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	t.db.head.Newest++ // as a sequence: it stays if t is rolled back
	return t.db.head.Newest, nil
}

// Put implements rowstore.Tx.
func (t *tx) Put(ctx context.Context, changes []*rowstore.Change) error {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	return t.put(ctx, changes)
}

func (t *tx) put(ctx context.Context, changes []*rowstore.Change) error {
	for _, c := range changes {
		if err := t.one(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) one(ctx context.Context, c *rowstore.Change) error {
	handle := c.Row.Handle
	was := t.row(handle)
	switch {
	case c.Insert != (was == nil), !c.Insert && t.db.held[handle] != t:
		return rowstore.ErrMissed
	case t.db.faults.refuse != nil && t.db.faults.refuse(c.Row):
		return rowstore.ErrRefused
	}
	for _, name := range c.RemoveNames {
		t.setName(name, 0)
	}
	for _, name := range c.AddNames {
		if is, err := t.db.take(ctx, t, name, t.lock); err != nil || !is {
			return cmp.Or(err, rowstore.ErrLocked)
		}
		if t.name(name) != 0 {
			return rowstore.ErrMissed
		}
		t.setName(name, handle)
	}
	t.stage(c, was)
	t.mark(c.AddMarks, handle, true)
	t.mark(c.RemoveMarks, handle, false)
	t.mark(c.LeaveMarks, 0, true)
	return nil
}

func (t *tx) setName(name rowstore.Digest, handle int64) {
	if t.names == nil {
		t.names = make(map[rowstore.Digest]int64)
	}
	t.names[name] = handle
}

func (t *tx) stage(c *rowstore.Change, was *rowstore.Row) {
	if t.rows == nil {
		t.rows = make(map[int64]*rowstore.Row)
	}
	if c.Remove {
		t.rows[c.Row.Handle] = nil
		return
	}
	row := *c.Row
	if was != nil && !c.Request {
		row.Request = was.Request
	}
	if was != nil && !c.Answer {
		row.Answer = was.Answer
	}
	t.rows[row.Handle] = &row
}

func (t *tx) mark(marks []int64, handle int64, there bool) {
	for _, m := range marks {
		if t.marks == nil {
			t.marks = make(map[int64]map[int64]bool)
		}
		if t.marks[m] == nil {
			t.marks[m] = make(map[int64]bool)
		}
		t.marks[m][handle] = there
	}
}

// RecordEvent implements rowstore.Tx.
func (t *tx) RecordEvent(ctx context.Context, digest []byte, at int64) (bool, error) {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if _, err := t.db.take(ctx, t, string(digest), rowstore.WaitLock); err != nil {
		return false, err
	}
	if t.db.heard[string(digest)] != 0 || t.heard[string(digest)] != 0 {
		return false, nil
	}
	t.hears(string(digest), at)
	return true, nil
}

// Forget implements rowstore.Tx.
func (t *tx) Forget(_ context.Context, before int64, limit int) error {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	for digest, at := range t.db.heard {
		if limit > 0 && at < before {
			t.hears(digest, 0)
			limit--
		}
	}
	return nil
}

func (t *tx) hears(digest string, at int64) {
	if t.heard == nil {
		t.heard = make(map[string]int64)
	}
	t.heard[digest] = at
}

// Rollback implements rowstore.Tx.
func (t *tx) Rollback() {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	t.db.end(t)
}

// Commit implements rowstore.Tx.
func (t *tx) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	db := t.db
	db.mu.Lock()
	defer db.mu.Unlock()
	defer db.end(t)
	if gate := db.faults.gate; gate != nil {
		db.mu.Unlock()
		<-gate
		db.mu.Lock()
	}
	fate := db.step()
	if err := t.put(ctx, changes); err != nil {
		return err
	}
	if head.Restored != t.head.Restored && db.head.Restored != t.head.Restored || db.head.Leaps != t.head.Leaps {
		return rowstore.ErrMissed
	}
	if fate == Lands {
		fate = db.faults.next()
	}
	switch fate {
	case Misses:
		return rowstore.ErrMissed
	case Fails:
		return errBroken
	case IsFenced:
		return rowstore.ErrFenced
	case LosesCommit:
		t.d.undecided = true
		return rowstore.ErrUndecided
	}
	db.apply(t, &head)
	if fate == LosesAnswer {
		t.d.undecided = true
		return rowstore.ErrUndecided
	}
	return nil
}

// step waits for LetCommit, if commits do, and returns the fate. The caller holds db.mu.
func (db *Database) step() Fate {
	if !db.faults.stepping {
		return Lands
	}
	step := make(chan Fate, 1)
	db.faults.steps = append(db.faults.steps, step)
	db.mu.Unlock()
	defer db.mu.Lock()
	return <-step
}

// apply makes the changes of a transaction visible, and its head.
func (db *Database) apply(t *tx, head *rowstore.Head) {
	db.applyRows(t)
	if db.head.Number != t.head.Number { // another commit came between: neither clock is lost
		if db.head.Clock.Last.After(head.Clock.Last) {
			head.Clock.Last = db.head.Clock.Last
		}
		if db.head.Clock.Ahead.After(head.Clock.Ahead) {
			head.Clock.Ahead = db.head.Clock.Ahead
		}
		if least := db.head.Clock.LeastMargin; least != 0 && (head.Clock.LeastMargin == 0 || least < head.Clock.LeastMargin) {
			head.Clock.LeastMargin = least
		}
	}
	db.head.Clock, db.head.Number, db.head.Leaps = head.Clock, db.head.Number+1, head.Leaps
	if head.Hook != t.head.Hook {
		db.head.Hook = head.Hook
	}
	if head.Naming != t.head.Naming {
		db.head.Naming = head.Naming
	}
	db.adopt(&t.head, head)
	if db.head.Restored == "" {
		db.known = db.head.Number
	}
}

// adopt records the beginning or the end of an adoption.
func (db *Database) adopt(was, is *rowstore.Head) {
	db.head.Epoch = max(db.head.Epoch, is.Epoch)
	if is.Deployment != was.Deployment {
		db.head.Deployment = is.Deployment
	}
	if is.Restored == was.Restored {
		return
	}
	db.head.Restored = is.Restored
	if is.Restored != "" {
		return
	}
	db.head.Identity = rand.Text()
	maps.DeleteFunc(db.alive, func(id string, _ bool) bool { return db.faults.strange[id] })
	db.faults.strange = nil
}

// applyRows makes the changes of a transaction visible.
func (db *Database) applyRows(t *tx) {
	for handle, row := range t.rows {
		if row == nil {
			delete(db.rows, handle)
		} else {
			db.rows[handle] = row
		}
	}
	for name, handle := range t.names {
		if handle == 0 {
			delete(db.names, name)
		} else {
			db.names[name] = handle
		}
	}
	for m, handles := range t.marks {
		if db.marks[m] == nil {
			db.marks[m] = make(map[int64]bool)
		}
		maps.Copy(db.marks[m], handles)
	}
	for key, r := range t.receipts {
		if r == nil {
			delete(db.receipts, key)
		} else {
			db.receipts[key] = r
		}
	}
	maps.Copy(db.heads, t.heads)
	maps.Copy(db.flows, t.flows)
	maps.Copy(db.steps, t.steps)
	for digest, at := range t.heard {
		if at == 0 {
			delete(db.heard, digest)
		} else {
			db.heard[digest] = at
		}
	}
}
