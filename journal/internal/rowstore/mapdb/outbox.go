package mapdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// theirs is an application transaction.
type theirs struct {
	t      *tx
	margin time.Duration // the least that it has written; 0 means none
}

var errEnded = errors.New("mapdb: the transaction was committed or rolled back before: begin another")

// BeginTx starts a transaction for the application. It has nothing to write, so Driver returns nil.
func (d *Driver) BeginTx(context.Context, bool) (journal.Tx, error) {
	defer d.db.lock()()
	t, err := d.begin(rowstore.WaitLock)
	if err != nil {
		return nil, err
	}
	return &theirs{t: t}, nil
}

func (o *theirs) Driver() any { return nil }

func (o *theirs) Commit(ctx context.Context) error {
	db := o.t.db
	defer db.lock()()
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
	db.merge(&o.t.changed)
	db.head.Clock.LeastMargin = least(db.head.Clock.LeastMargin, o.margin)
	return nil
}

func (o *theirs) Rollback(context.Context) error {
	o.t.Rollback()
	return nil
}

// within is the journal's part in an application's transaction.
type within struct {
	*tx
	theirs *theirs
}

// Within returns the journal's part in a BeginTx transaction.
func (d *Driver) Within(ctx context.Context, of journal.Tx, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	o, is := of.(*theirs)
	if !is || o == nil || o.t.db != d.db {
		return nil, rowstore.Head{}, rowstore.Found{}, fmt.Errorf("mapdb: the transaction is a %T, and not one of this journal's BeginTx", of)
	}
	defer d.db.lock()()
	if o.t.over {
		return nil, rowstore.Head{}, rowstore.Found{}, errEnded
	}
	found, err := o.t.find(ctx, keys)
	head := d.db.head
	head.Clock.LeastMargin = least(head.Clock.LeastMargin, o.margin)
	return &within{o.t, o}, head, found, err
}

// Commit stages all of the changes or none.
func (w *within) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	defer w.db.lock()()
	was := w.changed.clone()
	if err := w.put(ctx, changes); err != nil {
		w.changed = was
		return err
	}
	w.theirs.margin = head.Clock.LeastMargin
	return nil
}

// Rollback leaves the transaction to the application.
func (w *within) Rollback() {}
