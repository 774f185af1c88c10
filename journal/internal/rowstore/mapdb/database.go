// Package mapdb is a database in maps, with the row locks and the concurrent transactions of a server. A test has it
// hold, refuse and damage rows, and abort or lose commits.
package mapdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Database is the rows of a journal. Several drivers may use it at once, as processes use a server.
type Database struct {
	mu    sync.Mutex
	ended chan struct{} // closed when a transaction ends; nil if none waits for that

	content
	known int64           // the number of the latest commit, as a witness beside the database has it
	alive map[string]bool // sessions, by ID

	held   map[any]*tx // who holds a handle, a name or a mark
	faults faults
}

// content is what was committed.
type content struct {
	head  rowstore.Head
	rows  map[int64]*rowstore.Row
	names map[rowstore.Digest]int64
	marks map[int64]map[int64]bool
	heard map[string]int64 // when an event was heard, by its digest

	receipts map[journal.ReceiptKey]*rowstore.Receipt
	heads    map[entity]int64
	receipt  int64 // the latest handle of one
	flows    map[int64]*rowstore.Flow
	steps    map[int64][]rowstore.Step
	flow     int64 // the latest handle of one
}

// mark is a mark as something to be held. Handles are int64 too.
type mark int64

// New returns an empty database.
func New() *Database {
	return of(content{
		head: rowstore.Head{Identity: rand.Text(), Key: format.NewHashKey()},
		rows: make(map[int64]*rowstore.Row), names: make(map[rowstore.Digest]int64), marks: make(map[int64]map[int64]bool), heard: make(map[string]int64),
		receipts: make(map[journal.ReceiptKey]*rowstore.Receipt), heads: make(map[entity]int64),
		flows: make(map[int64]*rowstore.Flow), steps: make(map[int64][]rowstore.Step),
	})
}

func of(c content) *Database {
	return &Database{content: c, known: c.head.Number, alive: make(map[string]bool), held: make(map[any]*tx)}
}

// clone returns a copy. Rows never change: a commit replaces them.
func (c content) clone() content {
	c.rows, c.names, c.heard = maps.Clone(c.rows), maps.Clone(c.names), maps.Clone(c.heard)
	c.receipts, c.heads = maps.Clone(c.receipts), maps.Clone(c.heads)
	c.flows, c.steps = maps.Clone(c.flows), maps.Clone(c.steps)
	marks := make(map[int64]map[int64]bool, len(c.marks))
	for m, handles := range c.marks {
		marks[m] = maps.Clone(handles)
	}
	c.marks = marks
	return c
}

// Copy returns a database with what was committed, as if all processes were killed now.
func (db *Database) Copy() *Database {
	db.mu.Lock()
	defer db.mu.Unlock()
	return of(db.content.clone())
}

// Restore has the database be as the copy, while its witness stays as it is.
func (db *Database) Restore(from *Database) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.content = from.content.clone()
}

// Key returns the key of the names' digests.
func (db *Database) Key() *format.HashKey { return &db.head.Key }

// Head returns the head as it was committed.
func (db *Database) Head() rowstore.Head {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.head
}

// take has t hold something. It waits if t does, and otherwise reports whether it holds it. If both would wait for each
// other, it returns ErrLocked, as a server does that detects a deadlock. The caller holds db.mu.
func (db *Database) take(ctx context.Context, t *tx, what any, lock rowstore.Lock) (bool, error) {
	for {
		switch holder := db.held[what]; holder {
		case nil:
			db.held[what] = t
			t.holds = append(t.holds, what)
			return true, nil
		case t:
			return true, nil
		}
		if lock < rowstore.WaitLock {
			return false, nil
		}
		if t.waits = db.held[what]; t.waits.waitsFor(t) {
			t.waits = nil
			return false, rowstore.ErrLocked
		}
		if db.ended == nil {
			db.ended = make(chan struct{})
		}
		ended, late := db.ended, false
		db.faults.waiting++
		db.mu.Unlock()
		select {
		case <-ended:
		case <-t.patience():
			late = true
		case <-ctx.Done():
		}
		db.mu.Lock()
		db.faults.waiting--
		t.waits = nil
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case late:
			return false, rowstore.ErrLocked
		}
	}
}

// sharedWait is how long a transaction of several requests waits for what another one holds. A transaction that was
// begun with WaitLock, or is the application's, waits for as long as its context permits.
const sharedWait = 5 * time.Millisecond

func (t *tx) patience() <-chan time.Time {
	if t.lock == rowstore.TryLock {
		return time.After(sharedWait)
	}
	return nil
}

// waitsFor reports whether t waits for the other one, or for one that does.
func (t *tx) waitsFor(other *tx) bool {
	for ; t != nil; t = t.waits {
		if t == other {
			return true
		}
	}
	return false
}

// end releases what t holds. The caller holds db.mu.
func (db *Database) end(t *tx) {
	if t.over {
		return
	}
	t.over = true
	for _, what := range t.holds {
		delete(db.held, what)
	}
	if db.ended != nil {
		close(db.ended)
		db.ended = nil
	}
}

// Driver is one process's access to a database.
type Driver struct {
	db        *Database
	undecided bool
	closed    bool
}

var _ rowstore.Driver = (*Driver)(nil)

// Open returns a driver for another process.
func (db *Database) Open() *Driver { return &Driver{db: db} }

var errClosed = errors.New("mapdb: the driver was closed")

// Begin implements rowstore.Driver.
func (d *Driver) Begin(ctx context.Context, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	db := d.db
	db.mu.Lock()
	defer db.mu.Unlock()
	db.faults.begun++
	if err := d.usable(); err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	t := &tx{d: d, lock: keys.Lock, head: db.found(), view: view{db: db}}
	t.t = t
	found, err := t.find(ctx, keys)
	if err != nil {
		db.end(t)
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	return t, t.head, found, nil
}

// found returns the head, and records whether the witness knows of commits that are missing. The caller holds db.mu.
func (db *Database) found() rowstore.Head {
	if db.head.Restored == "" && db.head.Number < db.known {
		db.head.Restored = fmt.Sprintf("it has %d commits, and %d were made", db.head.Number, db.known)
	}
	return db.head
}

// usable resolves a commit in doubt, if the database can be reached.
func (d *Driver) usable() error {
	f := &d.db.faults
	switch {
	case d.closed:
		return errClosed
	case f.unreachable && d.undecided:
		return rowstore.ErrUndecided
	case f.unreachable:
		return errors.New("mapdb: the database can't be reached")
	case d.undecided:
		d.undecided = false
		f.resolved++
	}
	return nil
}

// Read implements rowstore.Driver.
func (d *Driver) Read(_ context.Context, f func(rowstore.Reader) error) error {
	return f(&view{db: d.db})
}

// Snapshot implements rowstore.Driver.
func (d *Driver) Snapshot(_ context.Context, f func(rowstore.Reader) error) error {
	return f(&view{db: d.db.Copy()})
}

// Check implements rowstore.Driver. Maps have nothing of their own that can be damaged.
func (d *Driver) Check(context.Context, func(journal.Violation)) error { return nil }

// Now implements rowstore.Driver.
func (d *Driver) Now() time.Time {
	d.db.mu.Lock()
	defer d.db.mu.Unlock()
	return d.db.faults.now
}

// Join implements rowstore.Driver.
func (d *Driver) Join(context.Context) (string, error) {
	id := rand.Text()
	d.db.mu.Lock()
	defer d.db.mu.Unlock()
	d.db.alive[id] = true
	return id, nil
}

// Leave implements rowstore.Driver.
func (d *Driver) Leave(_ context.Context, id string) error {
	d.db.mu.Lock()
	defer d.db.mu.Unlock()
	delete(d.db.alive, id)
	return nil
}

// Lost implements rowstore.Driver.
func (d *Driver) Lost(id string) bool {
	d.db.mu.Lock()
	defer d.db.mu.Unlock()
	return d.db.faults.lost[id]
}

// Rank implements rowstore.Driver.
func (d *Driver) Rank(string) (rank, of int) { return 0, 1 }

// Alive implements rowstore.Driver.
func (d *Driver) Alive(ids []string) []rowstore.Life {
	d.db.mu.Lock()
	defer d.db.mu.Unlock()
	lives := make([]rowstore.Life, len(ids))
	for i, id := range ids {
		switch {
		case d.db.faults.strange[id]:
			lives[i].Err = fmt.Errorf("%w: the session came with the copy", journal.ErrRestored)
		case d.db.faults.unsure[id]:
			lives[i].Err = errors.New("mapdb: no one knows whether the session lives")
		default:
			lives[i].Lives = d.db.alive[id]
		}
	}
	return lives
}

// Close implements rowstore.Driver. The database stays.
func (d *Driver) Close() error {
	d.db.mu.Lock()
	defer d.db.mu.Unlock()
	d.closed = true
	return nil
}
