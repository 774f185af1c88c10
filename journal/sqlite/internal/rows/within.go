package rows

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/localdb"
)

// within is the journal's part in the application's transaction. From the first write until the end, the transaction
// has the file's write lock, so the rows that within has read do not change meanwhile.
type within struct{ *tx }

// Within implements rowstore.Driver. The transaction needs the write lock, and Within takes a missing lock. A
// transaction that has read before another's commit can't get the lock (SQLITE_BUSY_SNAPSHOT) and must begin anew.
func (d *Driver) Within(ctx context.Context, theirs journal.Tx, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	t, err := d.within(ctx, theirs)
	if err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, conn.Explain(d.path, "write in a transaction", err)
	}
	found, err := t.Find(ctx, keys)
	if err != nil {
		t.Rollback()
	}
	return t, t.told, found, conn.Explain(d.path, "read in a transaction", err)
}

func (d *Driver) within(ctx context.Context, theirs journal.Tx) (*within, error) {
	o, err := ours(theirs)
	if err != nil {
		return nil, err
	}
	own := ctx
	if o.of == d {
		own = localdb.OnHandle(ctx)
	}
	if err := localdb.IsOpen(own, o.tx); err != nil {
		return nil, err
	}
	if o.of != d {
		if err := d.holds(ctx, o.tx); err != nil {
			return nil, err
		}
	}
	if err := d.files.InPlace(); err != nil {
		return nil, err
	}
	// The transaction writes everything or nothing: the end of ctx breaks off no statement.
	s := newStatements(in(context.WithoutCancel(own), o.tx, d.path), d.path, &d.heads)
	t := &within{&tx{d: d, sql: s, reader: &s.reader}}
	t.count = t.counts
	// The transaction has the write lock, so only goroutines that share the transaction wait here. Two goroutines at
	// once would give one handle to two operations.
	d.inside.Lock()
	if t.head, err = s.readHead(); err == nil && !isKnown(t.head.version) {
		err = otherLayout(d.path, t.head.version)
	}
	if err == nil {
		t.told, err = d.compare(&t.head, s.backup)
	}
	if err != nil {
		t.Rollback()
		return nil, ended(ctx, err)
	}
	return t, nil
}

// holds makes sure that a transaction has the write lock on the journal's own file.
func (d *Driver) holds(ctx context.Context, tx *sql.Tx) error {
	// A statement that may write takes the lock, even with nothing to write.
	if _, err := tx.ExecContext(ctx, "DELETE FROM onceward_sessions WHERE id = ''"); errors.Is(err, sql.ErrTxDone) {
		return ended(ctx, err)
	} else if err != nil {
		return fmt.Errorf("is the transaction one of the journal's file? %w", err)
	}
	var path string
	if err := tx.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE seq = 0").Scan(&path); err != nil {
		return err
	}
	// A database in memory has no file, so it is not the journal's. The same holds if the file was removed.
	theirs, _ := os.Stat(path)
	if mine, _ := os.Stat(d.path); !os.SameFile(theirs, mine) {
		return fmt.Errorf("the transaction is of the database %s, and the journal is %s", path, d.path)
	}
	return nil
}

// ended explains a statement's error, if the transaction was ended before.
func ended(ctx context.Context, err error) error {
	if !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return cmp.Or(ctx.Err(), fmt.Errorf("the transaction was ended before; begin another: %w", err))
}

// Commit implements rowstore.Tx. Commit writes all changes or none.
func (t *within) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	if _, err := t.sql.save.Exec(); err != nil {
		return conn.Explain(t.d.path, "write", err)
	}
	err := t.write(ctx, head, changes)
	if err != nil {
		_, undone := t.sql.undo.Exec()
		err = errors.Join(err, undone)
	}
	if _, released := t.sql.release.Exec(); err == nil {
		err = conn.Explain(t.d.path, "write", released)
	}
	return err
}

func (t *within) write(ctx context.Context, new rowstore.Head, changes []*rowstore.Change) error {
	if err := t.Put(ctx, changes); err != nil {
		return err
	}
	t.head.Newest, t.head.Clock.LeastMargin = max(new.Newest, t.head.Newest), new.Clock.LeastMargin
	t.count = t.counts // once more, if it was
	return conn.Explain(t.d.path, "write the head", t.count())
}

// counts counts the transaction, so that the sidecar shows whether the file has the transaction.
func (t *within) counts() error {
	t.count = nil
	t.head.commits++
	err := t.setHead()
	t.d.enqueued.Store(true)
	t.d.markSoon()
	return err
}

// Rollback leaves the transaction to the application.
func (t *within) Rollback() {
	if !t.ended {
		t.ended = true
		t.d.inside.Unlock()
	}
}
