package faultdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Driver is one process's access to a database.
type Driver struct {
	rowstore.Driver
	db        *Database
	undecided bool
}

// Open returns a driver for another process.
func (db *Database) Open() *Driver { return &Driver{Driver: db.maps.Open(), db: db} }

var (
	errBroken      = errors.New("faultdb: the connection broke before the commit")
	errUnreachable = errors.New("faultdb: the database can't be reached")
	errUnsure      = errors.New("faultdb: no one knows whether the session lives")
)

// Begin implements rowstore.Driver.
func (d *Driver) Begin(ctx context.Context, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	if err := d.usable(); err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, err
	}
	defer d.db.waits()()
	t, head, found, err := d.Driver.Begin(ctx, keys)
	if err != nil {
		return nil, head, found, err
	}
	return &tx{within{t, d.db}, d, head}, head, found, nil
}

// BeginTx implements rowstore.Driver.
func (d *Driver) BeginTx(ctx context.Context, delivery bool) (journal.Tx, error) {
	d.db.mu.Lock()
	away := d.db.faults.unreachable
	d.db.mu.Unlock()
	if away {
		return nil, errUnreachable
	}
	return d.Driver.BeginTx(ctx, delivery)
}

// Within implements rowstore.Driver.
func (d *Driver) Within(ctx context.Context, theirs journal.Tx, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	t, head, found, err := d.Driver.Within(ctx, theirs, keys)
	if err != nil {
		return nil, head, found, err
	}
	return &within{t, d.db}, head, found, nil
}

// usable counts a transaction, and resolves a commit in doubt if the database can be reached.
func (d *Driver) usable() error {
	d.db.mu.Lock()
	defer d.db.mu.Unlock()
	f := &d.db.faults
	f.begun++
	switch {
	case f.unreachable && d.undecided:
		return rowstore.ErrUndecided
	case f.unreachable:
		return errUnreachable
	case d.undecided:
		d.undecided = false
		f.resolved++
	}
	return nil
}

// waits counts a call that may wait for another transaction.
func (db *Database) waits() (over func()) {
	count := func(n int) {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.faults.waiting += n
	}
	count(1)
	return func() { count(-1) }
}

// Now implements rowstore.Driver.
func (d *Driver) Now() time.Time {
	d.db.mu.Lock()
	defer d.db.mu.Unlock()
	return d.db.faults.now
}

// Lost implements rowstore.Driver.
func (d *Driver) Lost(id string) bool {
	return d.db.session(id) == lost
}

// Alive implements rowstore.Driver.
func (d *Driver) Alive(ids []string) []rowstore.Life {
	lives := d.Driver.Alive(ids)
	for i, id := range ids {
		switch d.db.session(id) {
		case strange:
			lives[i] = rowstore.Life{Err: fmt.Errorf("%w: the session came with the copy", journal.ErrRestored)}
		case unsure:
			lives[i] = rowstore.Life{Err: errUnsure}
		case dead, lost:
			lives[i] = rowstore.Life{}
		}
	}
	return lives
}

// within is the journal's part in an application's transaction. Its commit meets no fault.
type within struct {
	rowstore.Tx
	db *Database
}

// Find implements rowstore.Tx.
func (t *within) Find(ctx context.Context, keys rowstore.Keys) (rowstore.Found, error) {
	defer t.db.waits()()
	return t.Tx.Find(ctx, keys)
}

// Put implements rowstore.Tx.
func (t *within) Put(ctx context.Context, changes []*rowstore.Change) error {
	if t.refused(changes) {
		return rowstore.ErrRefused
	}
	defer t.db.waits()()
	return t.Tx.Put(ctx, changes)
}

// Commit implements rowstore.Tx.
func (t *within) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	if t.refused(changes) {
		t.Rollback()
		return rowstore.ErrRefused
	}
	defer t.db.waits()()
	return t.Tx.Commit(ctx, head, changes)
}

func (t *within) refused(changes []*rowstore.Change) bool {
	t.db.mu.Lock()
	refuse := t.db.faults.refuse
	t.db.mu.Unlock()
	return refuse != nil && slices.ContainsFunc(changes, func(c *rowstore.Change) bool { return refuse(c.Row) })
}

// tx is a transaction.
type tx struct {
	within
	d    *Driver
	head rowstore.Head
}

// Commit implements rowstore.Tx. The commit meets its fate once the changes are written.
func (t *tx) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	fate := t.db.step()
	if err := t.Put(ctx, changes); err != nil {
		t.Rollback()
		return err
	}
	if fate == Lands {
		fate = t.db.next()
	}
	var err error
	if fate == Lands || fate == LosesAnswer {
		err = t.Tx.Commit(ctx, head, nil)
	} else {
		t.Rollback()
	}
	switch {
	case err != nil:
		return err
	case fate == Misses:
		return rowstore.ErrMissed
	case fate == IsLocked:
		return rowstore.ErrLocked
	case fate == Fails:
		return errBroken
	case fate == IsFenced:
		return rowstore.ErrFenced
	case fate != Lands:
		t.db.mu.Lock()
		defer t.db.mu.Unlock()
		t.d.undecided = true
		return rowstore.ErrUndecided
	}
	if head.Restored == "" && t.head.Restored != "" {
		t.db.adopted()
	}
	return nil
}

// step waits until commits may go on, and returns the fate that LetCommit has chosen.
func (db *Database) step() Fate {
	db.mu.Lock()
	gate, step := db.faults.gate, make(chan Fate, 1)
	db.mu.Unlock()
	if gate != nil {
		<-gate
	}
	db.mu.Lock()
	if db.faults.stepping {
		db.faults.steps = append(db.faults.steps, step)
	} else {
		step <- Lands
	}
	db.mu.Unlock()
	return <-step
}

// next takes the next fate of NextCommits.
func (db *Database) next() (fate Fate) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if f := &db.faults; len(f.fates) > 0 {
		fate, f.fates = f.fates[0], f.fates[1:]
	}
	return fate
}
