package rows

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	codes "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// stmt is a statement on the journal's connection, or in the application's transaction.
type stmt interface {
	Exec(args ...any) (int64, error)
	Each(f func(row []driver.Value) error, args ...any) error
	EachContext(ctx context.Context, f func(row []driver.Value) error, args ...any) error
	First(f func(row []driver.Value) error, args ...any) (bool, error)
}

// preparer returns the statement with a text.
type preparer func(text string) stmt

// on returns the preparer for a connection to the file at path. The connection prepares a statement when the statement is
// first used: of a program's statements, most are never used.
func on(c *conn.Conn, path string) preparer {
	return func(text string) stmt { return &ownStmt{c: c, text: text, path: path} }
}

// ownStmt is a statement whose errors are explained.
type ownStmt struct {
	c          *conn.Conn
	prepared   *conn.Stmt // nil: the statement was not used yet
	text, path string
}

func (s *ownStmt) prepare() (err error) {
	if s.prepared == nil {
		s.prepared, err = s.c.Prepare(s.text)
	}
	return err
}

func (s *ownStmt) Exec(args ...any) (n int64, err error) {
	if err = s.prepare(); err == nil {
		n, err = s.prepared.Exec(args...)
	}
	return n, s.explain("write", err)
}

func (s *ownStmt) Each(f func([]driver.Value) error, args ...any) error {
	return s.EachContext(context.Background(), f, args...)
}

func (s *ownStmt) EachContext(ctx context.Context, f func([]driver.Value) error, args ...any) error {
	err := s.prepare()
	if err == nil {
		err = s.prepared.EachContext(ctx, f, args...)
	}
	return s.explain("read", err)
}

func (s *ownStmt) First(f func([]driver.Value) error, args ...any) (found bool, err error) {
	if err = s.prepare(); err == nil {
		found, err = s.prepared.First(f, args...)
	}
	return found, s.explain("read", err)
}

// explain leaves conn.ErrEnough unchanged.
func (s *ownStmt) explain(doing string, err error) error {
	switch {
	case errors.Is(err, conn.ErrEnough):
		return err
	case conn.Code(err) == codes.SQLITE_CORRUPT:
		err = pageError{err}
	}
	return conn.Explain(s.path, doing, err)
}

// pageError is the error for a page that SQLite can't read. Requests that do not need the page go on.
type pageError struct{ error }

func (e pageError) Unwrap() []error { return []error{e.error, rowstore.ErrRefused} }

type toPrepare struct {
	to   *stmt
	text string
}

func prepareAll(prepare preparer, all []toPrepare) {
	for _, p := range all {
		*p.to = prepare(p.text)
	}
}

// theirStmt is a statement in the application's transaction. Its errors are explained, too.
type theirStmt struct {
	ctx  context.Context
	tx   *sql.Tx
	text string
	path string
}

// in returns the preparer for an application's transaction on the file at path.
func in(ctx context.Context, tx *sql.Tx, path string) preparer {
	all := make([]theirStmt, 0, 64) // of a transaction
	return func(text string) stmt {
		all = append(all, theirStmt{ctx, tx, text, path})
		return &all[len(all)-1]
	}
}

func (s *theirStmt) Exec(args ...any) (int64, error) {
	result, err := s.tx.ExecContext(s.ctx, s.text, args...)
	if err != nil {
		return 0, conn.Explain(s.path, "write in a transaction", err)
	}
	return result.RowsAffected()
}

func (s *theirStmt) Each(f func([]driver.Value) error, args ...any) error {
	return s.EachContext(s.ctx, f, args...)
}

// EachContext ends with the statement's own context.
func (s *theirStmt) EachContext(_ context.Context, f func([]driver.Value) error, args ...any) error {
	return conn.Explain(s.path, "read in a transaction", s.each(f, args))
}

func (s *theirStmt) each(f func([]driver.Value) error, args []any) error {
	rows, err := s.tx.QueryContext(s.ctx, s.text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	row, values, to := make([]driver.Value, len(columns)), make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		to[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		for i, v := range values {
			row[i] = v
		}
		if err := conn.Take(f, row); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *theirStmt) First(f func([]driver.Value) error, args ...any) (found bool, err error) {
	err = s.Each(func(row []driver.Value) error {
		if found {
			return nil
		}
		found = true
		return f(row)
	}, args...)
	return found, err
}
