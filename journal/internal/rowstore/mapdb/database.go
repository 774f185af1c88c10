// Package mapdb is a database in maps, with the row locks and the concurrent transactions of a server.
package mapdb

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Database is a journal's rows. Several drivers may use it at once, as processes use a server.
type Database struct {
	mu       sync.Mutex
	content                  // what was committed
	sessions map[string]bool // whether the process of each lives
	held     map[any]*tx     // the transactions that hold a row, a name or another key
}

// content is what a database keeps.
type content struct {
	tables
	head                      rowstore.Head
	latestReceipt, latestFlow int64 // handles
}

// New returns an empty database.
func New() *Database {
	return of(content{head: rowstore.Head{Identity: rand.Text(), Key: format.NewHashKey()}})
}

func of(c content) *Database {
	return &Database{content: c, sessions: make(map[string]bool), held: make(map[any]*tx)}
}

// Copy returns a database with all committed rows, as if all processes were killed now.
func (db *Database) Copy() *Database {
	defer db.lock()()
	c := db.content
	c.tables = c.tables.clone()
	return of(c)
}

// Restore replaces what was committed by a copy, which the database then owns. Sessions stay.
func (db *Database) Restore(from *Database) {
	defer db.lock()()
	db.content = from.content
}

func (db *Database) lock() (unlock func()) {
	db.mu.Lock()
	return db.mu.Unlock
}

// take has t hold something. It waits if t waits, and otherwise reports whether t holds the lock. If two transactions
// would wait for each other, it returns ErrLocked, like a server that detects a deadlock. The caller holds db.mu.
func (db *Database) take(ctx context.Context, t *tx, what any, lock rowstore.Lock) (bool, error) {
	for {
		holder := db.held[what]
		switch {
		case holder == nil:
			db.held[what], t.holds = t, append(t.holds, what)
			return true, nil
		case holder == t:
			return true, nil
		case lock < rowstore.WaitLock:
			return false, nil
		case holder.waitsFor(t):
			return false, rowstore.ErrLocked
		}
		var late <-chan time.Time
		if t.lock == rowstore.TryLock {
			late = time.After(sharedWait)
		}
		var err error
		t.waits = holder
		db.mu.Unlock()
		select {
		case <-holder.ended:
		case <-late:
			err = rowstore.ErrLocked
		case <-ctx.Done():
			err = ctx.Err()
		}
		db.mu.Lock()
		if t.waits = nil; err != nil {
			return false, err
		}
	}
}

// sharedWait is how long a transaction of several requests waits for what another one holds. A transaction begun with
// WaitLock, or the application's, waits for as long as the context permits.
const sharedWait = 5 * time.Millisecond

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
	close(t.ended)
}

// Kill ends a session as the death of its process does. The session knows.
func (db *Database) Kill(session string) {
	defer db.lock()()
	if _, is := db.sessions[session]; is {
		db.sessions[session] = false
	}
}

// Driver is one process's access to a database. It implements rowstore.Driver.
type Driver struct {
	db     *Database
	closed bool
}

var _ rowstore.Driver = (*Driver)(nil)

// Open returns a driver for another process.
func (db *Database) Open() *Driver { return &Driver{db: db} }

var errClosed = errors.New("mapdb: the driver was closed")

// Begin starts a transaction.
func (d *Driver) Begin(ctx context.Context, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	defer d.db.lock()()
	t, err := d.begin(keys.Lock)
	if err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	found, err := t.find(ctx, keys)
	if err != nil {
		d.db.end(t)
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	return t, t.head, found, nil
}

func (d *Driver) begin(lock rowstore.Lock) (*tx, error) {
	if d.closed {
		return nil, errClosed
	}
	t := &tx{view: view{db: d.db}, d: d, lock: lock, head: d.db.head, ended: make(chan struct{})}
	t.tx = t
	return t, nil
}

// Read reads what was committed.
func (d *Driver) Read(_ context.Context, f func(rowstore.Reader) error) error {
	return f(&view{db: d.db})
}

// Snapshot reads a copy.
func (d *Driver) Snapshot(_ context.Context, f func(rowstore.Reader) error) error {
	return f(&view{db: d.db.Copy()})
}

// Check finds nothing: maps have nothing of their own that can be damaged.
func (d *Driver) Check(context.Context, func(journal.Violation)) error { return nil }

// Now returns zero: maps have no clock.
func (d *Driver) Now() time.Time { return time.Time{} }

// Join starts a session.
func (d *Driver) Join(context.Context) (string, error) {
	defer d.db.lock()()
	id := rand.Text()
	d.db.sessions[id] = true
	return id, nil
}

// Leave ends a session.
func (d *Driver) Leave(_ context.Context, id string) error {
	defer d.db.lock()()
	delete(d.db.sessions, id)
	return nil
}

// Lost reports whether a session was killed.
func (d *Driver) Lost(id string) bool {
	defer d.db.lock()()
	lives, is := d.db.sessions[id]
	return is && !lives
}

// Rank returns that a session is alone.
func (d *Driver) Rank(string) (rank, of int) { return 0, 1 }

// Alive returns what is known of sessions.
func (d *Driver) Alive(ids []string) []rowstore.Life {
	defer d.db.lock()()
	lives := make([]rowstore.Life, len(ids))
	for i, id := range ids {
		lives[i].Lives = d.db.sessions[id]
	}
	return lives
}

// Close closes the driver. The database stays.
func (d *Driver) Close() error {
	defer d.db.lock()()
	d.closed = true
	return nil
}
