package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// within is the journal's part of a transaction of the application's. From its first write until its end, the
// transaction has the file's write lock, so that nothing that it has read changes meanwhile.
type within struct{ *tx }

// Within implements rowstore.Driver. The transaction needs the write lock, and takes it if it has not. One that has read
// before another's commit can't get it (SQLITE_BUSY_SNAPSHOT) and must begin anew.
func (d *Driver) Within(ctx context.Context, theirs journal.Tx, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	t, err := d.within(ctx, theirs)
	if err != nil {
		return nil, rowstore.Head{}, rowstore.Found{}, conn.Explain(d.path, "write in a transaction", err)
	}
	found, err := t.Find(ctx, keys)
	return t, t.head, found, conn.Explain(d.path, "read in a transaction", err)
}

func (d *Driver) within(ctx context.Context, theirs journal.Tx) (*within, error) {
	o, err := ours(theirs)
	if err != nil {
		return nil, err
	}
	if err := isOpen(ctx, o.tx); err != nil {
		return nil, err
	}
	if o.of != d {
		if err := d.holds(ctx, o.tx); err != nil {
			return nil, err
		}
	}
	// All is written or nothing: the end of ctx breaks off no statement.
	s, err := newStatements(in(context.WithValue(context.WithoutCancel(ctx), ownKey{}, true), o.tx), d.path)
	if err != nil {
		return nil, err
	}
	t := &within{&tx{d: d, sql: s, reader: &s.reader}}
	t.head, err = readHead(s.head)
	return t, err
}

// isOpen returns journal.ErrTxAborted if SQLite has ended a transaction without being asked. database/sql does not know of
// that. A transaction can't begin within another one, so an attempt to begin one shows it.
func isOpen(ctx context.Context, tx *sql.Tx) error {
	whole := context.WithoutCancel(ctx) // a transaction that began and did not end would include the next statements
	_, err := tx.ExecContext(whole, "BEGIN")
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("the transaction was ended before; begin another: %w", err)
	case err != nil:
		return ctx.Err()
	}
	_, err = tx.ExecContext(whole, "ROLLBACK")
	return errors.Join(errEnded, err)
}

var errEnded = fmt.Errorf("SQLite rolled the transaction back after one of its statements (ON CONFLICT ROLLBACK, RAISE(ROLLBACK), an interrupted statement, or a full disk): %w", journal.ErrTxAborted)

// holds makes sure that a transaction has the write lock of the journal's own file.
func (d *Driver) holds(ctx context.Context, tx *sql.Tx) error {
	// A statement that may write takes the lock, even if it has nothing to write.
	if _, err := tx.ExecContext(ctx, "DELETE FROM onceward_members WHERE id = ''"); err != nil {
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
	var is int64
	if err := tx.QueryRowContext(ctx, "SELECT version FROM onceward_head").Scan(&is); err != nil {
		return err
	}
	if is != version {
		return otherLayout(path, is)
	}
	return nil
}

// Commit implements rowstore.Tx. It writes all of the changes or none.
func (t *within) Commit(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	if _, err := t.sql.save.Exec(); err != nil {
		return conn.Explain(t.d.path, "write", err)
	}
	err := t.write(ctx, head, changes)
	if err != nil {
		_, undone := t.sql.undo.Exec()
		err = errors.Join(err, undone)
	}
	_, released := t.sql.release.Exec()
	return errors.Join(err, conn.Explain(t.d.path, "write", released))
}

func (t *within) write(ctx context.Context, head rowstore.Head, changes []*rowstore.Change) error {
	if err := t.Put(ctx, changes); err != nil {
		return err
	}
	is := t.head
	is.Newest, is.Clock.LeastMargin = max(head.Newest, t.head.Newest), head.Clock.LeastMargin
	_, err := t.sql.setHead.Exec(changing(&is)...)
	return conn.Explain(t.d.path, "write the head", err)
}

// Rollback leaves the transaction to the application.
func (t *within) Rollback() {}
