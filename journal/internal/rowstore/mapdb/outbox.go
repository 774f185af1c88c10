package mapdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// theirs is a transaction of the application's.
type theirs struct {
	t      *tx
	margin time.Duration // the least that it has written; 0 means none
}

var errEnded = errors.New("mapdb: the transaction was committed or rolled back before: begin another")

// BeginTx implements rowstore.Driver. There is nothing for the application to write, so Driver returns nil.
func (d *Driver) BeginTx(context.Context, bool) (journal.Tx, error) {
	d.db.mu.Lock()
	defer d.db.mu.Unlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	t := &tx{d: d, lock: rowstore.WaitLock, view: view{db: d.db}}
	t.t = t
	return &theirs{t: t}, nil
}

func (o *theirs) Driver() any { return nil }

// Commit makes the changes visible.
func (o *theirs) Commit(ctx context.Context) error {
	db := o.t.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if o.t.over {
		return errEnded
	}
	defer db.end(o.t)
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.t.d.closed {
		return journal.ErrClosed
	}
	db.applyRows(o.t)
	if least := &db.head.Clock.LeastMargin; o.margin != 0 && (*least == 0 || o.margin < *least) {
		*least = o.margin
	}
	return nil
}

// Rollback discards the changes.
func (o *theirs) Rollback(context.Context) error {
	o.t.Rollback()
	return nil
}

// within is the journal's part of a transaction of the application's.
type within struct {
	*tx
	theirs *theirs
}

// Within implements rowstore.Driver.
func (d *Driver) Within(ctx context.Context, of journal.Tx, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	o, is := of.(*theirs)
	if !is || o == nil || o.t.db != d.db {
		return nil, rowstore.Head{}, rowstore.Found{}, fmt.Errorf("mapdb: the transaction is a %T, and not one of this journal's BeginTx", of)
	}
	d.db.mu.Lock()
	defer d.db.mu.Unlock()
	if o.t.over {
		return nil, rowstore.Head{}, rowstore.Found{}, errEnded
	}
	found, err := o.t.find(ctx, keys)
	head := d.db.found()
	if o.margin != 0 && (head.Clock.LeastMargin == 0 || o.margin < head.Clock.LeastMargin) {
		head.Clock.LeastMargin = o.margin
	}
	return &within{o.t, o}, head, found, err
}

// Commit stages all of the changes or none.
func (w *within) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	t := w.tx
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	rows, names, marks := maps.Clone(t.rows), maps.Clone(t.names), maps.Clone(t.marks)
	for m, handles := range marks {
		marks[m] = maps.Clone(handles)
	}
	if err := t.put(ctx, changes); err != nil {
		t.rows, t.names, t.marks = rows, names, marks
		return err
	}
	w.theirs.margin = head.Clock.LeastMargin
	return nil
}

// Rollback leaves the transaction to the application.
func (w *within) Rollback() {}
