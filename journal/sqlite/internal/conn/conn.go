// Package conn is a connection to an SQLite file: the statements, the turn among the writers, and advice for errors.
package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"runtime"

	sqlite "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// Conn is one connection to the database file, used by one goroutine at a time.
//
// It is the driver's own connection. database/sql would add locks, retries and conversions to every statement, a tenth
// of the cost, without a benefit for a pinned connection.
type Conn struct {
	driver.Conn
	stmts []*Stmt
}

// Pragma is a setting: the name, the value, and the value to read back. SQLite silently accepts unknown values
// (https://sqlite.org/pragma.html), so a typo could cost durability.
type Pragma [3]string

// Dial opens an existing file for reading and writing, with these settings.
func Dial(path string, pragmas []Pragma) (*Conn, error) { return DialMode(path, "rw", pragmas) }

// DialMode opens the file in a mode of https://sqlite.org/uri.html#urimode.
func DialMode(path, mode string, pragmas []Pragma) (*Conn, error) {
	// The path is part of a file: URI, which ? and # would end.
	raw, err := new(sqlite.Driver).Open("file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=" + mode)
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: raw}
	if err := c.Set(pragmas); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Set sets pragmas in the given order. It returns an error if a value reads back differently.
func (c *Conn) Set(pragmas []Pragma) error {
	for _, p := range pragmas {
		name, value, want := p[0], p[1], p[2]
		if err := c.Exec("PRAGMA " + name + "=" + value); err != nil {
			return fmt.Errorf("pragma %s: %w", name, err)
		}
		got, err := c.Value("PRAGMA " + name)
		if err != nil {
			return fmt.Errorf("pragma %s: %w", name, err)
		}
		if fmt.Sprint(got) != want {
			return fmt.Errorf("pragma %s=%s reads back as %v, not %s: SQLite refused it", name, value, got, want)
		}
	}
	return nil
}

// Close also closes the statements.
func (c *Conn) Close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.Conn.Close())...)
}

// Prepare compiles one statement, which is closed with the connection.
func (c *Conn) Prepare(query string) (*Stmt, error) {
	raw, err := c.Conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	s := &Stmt{Stmt: raw}
	c.stmts = append(c.stmts, s)
	return s, nil
}

// Exec runs a statement once.
func (c *Conn) Exec(query string) error {
	_, err := c.Conn.(driver.ExecerContext).ExecContext(context.Background(), query, nil)
	return err
}

// Value runs a query for one value.
func (c *Conn) Value(query string) (v driver.Value, err error) {
	s, err := c.Once(query)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	found, err := s.First(func(row []driver.Value) error { v = row[0]; return nil })
	if err == nil && !found {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

// Once compiles a statement, which the caller closes.
func (c *Conn) Once(query string) (*Stmt, error) {
	raw, err := c.Conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	return &Stmt{Stmt: raw}, nil
}

// Stmt is a prepared statement. Its arguments are int, int64, string, []byte, bool
// or nil.
type Stmt struct {
	driver.Stmt
	args []driver.NamedValue
}

func (s *Stmt) bind(args []any) []driver.NamedValue {
	s.args = s.args[:0]
	for i, arg := range args {
		if n, ok := arg.(int); ok {
			arg = int64(n)
		}
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return s.args
}

// Exec runs the statement and returns the number of changed rows.
func (s *Stmt) Exec(args ...any) (int64, error) {
	result, err := s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), s.bind(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Each calls f for every row. The row is valid only during the call. Nothing stays open afterwards, because
// open rows would pin the WAL.
func (s *Stmt) Each(f func(row []driver.Value) error, args ...any) error {
	return s.EachContext(context.Background(), f, args...)
}

// EachContext is Each, until ctx ends.
func (s *Stmt) EachContext(ctx context.Context, f func(row []driver.Value) error, args ...any) (err error) {
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, s.bind(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(row); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := Take(f, row); err != nil {
			return err
		}
	}
}

// Take calls f. The tables are STRICT: a column of another type than f expects is damaged.
func Take(f func(row []driver.Value) error, row []driver.Value) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *runtime.TypeAssertionError:
			err = format.ErrDamaged
		default:
			panic(p)
		}
	}()
	return f(row)
}

// ErrEnough, returned by the function, ends Each without an error.
var ErrEnough = errors.New("enough rows")

// First calls f for the first row and reports whether there was one.
func (s *Stmt) First(f func(row []driver.Value) error, args ...any) (bool, error) {
	found := false
	err := s.Each(func(row []driver.Value) error {
		found = true
		if err := f(row); err != nil {
			return err
		}
		return ErrEnough
	}, args...)
	if errors.Is(err, ErrEnough) {
		err = nil
	}
	return found, err
}

// Code returns SQLite's result code without its extension, or 0 for other errors.
func Code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// IsBusy reports whether another connection has the file locked.
func IsBusy(err error) bool { return Code(err) == codes.SQLITE_BUSY }

// IsUnsynced reports whether the disk failed to sync a file.
func IsUnsynced(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code() == codes.SQLITE_IOERR_FSYNC || e.Code() == codes.SQLITE_IOERR_DIR_FSYNC)
}

// OfOneStatement reports whether an error undid one statement and left the transaction unchanged.
func OfOneStatement(err error) bool {
	switch Code(err) {
	case codes.SQLITE_CONSTRAINT, codes.SQLITE_TOOBIG, codes.SQLITE_MISMATCH:
		return true
	}
	return false
}

// advice has the action for a SQLite error.
var advice = map[int]string{
	codes.SQLITE_FULL:     "the disk is full; free some space: an open journal then goes on by itself, and another can be opened again",
	codes.SQLITE_READONLY: "it can't be written; check the permissions of the file and of its directory",
	codes.SQLITE_PERM:     "it can't be written; check the permissions of the file and of its directory",
	codes.SQLITE_CANTOPEN: "it can't be opened; check that its directory exists and can be written",
	codes.SQLITE_IOERR:    "the disk reports an error; check it, and whether the file is still there",
	codes.SQLITE_CORRUPT:  "the file is damaged; keep a copy of it, and restore a backup",
	codes.SQLITE_NOTADB:   "the file is not a SQLite database any more; restore a backup",
	codes.SQLITE_BUSY:     "another process has kept the file locked; look for a transaction left open in it",
}

// explained is an error that says what failed, in which file, and what to do.
type explained struct{ error }

func (e explained) Unwrap() error { return errors.Unwrap(e.error) }

// Explain adds the failed action, the file and the advice to an error without them. It leaves an error alone that is no
// failure.
func Explain(path, doing string, err error) error {
	if err == nil || errors.As(err, new(explained)) || errors.Is(err, journal.ErrNotFound) || errors.Is(err, context.Canceled) {
		return err
	}
	what, ok := advice[Code(err)]
	if e := (*sqlite.Error)(nil); errors.As(err, &e) && e.Code() == codes.SQLITE_IOERR_SHMSIZE {
		what = advice[codes.SQLITE_FULL] // it could not make the -shm as large as it has to be (https://sqlite.org/rescode.html#ioerr_shmsize)
	}
	switch {
	case ok:
		return explained{fmt.Errorf("journal %s: %s: %s: %w", path, doing, what, err)}
	case errors.Is(err, format.ErrDamaged):
		return explained{fmt.Errorf("journal %s: %s: %w; keep a copy of the file, and restore a backup", path, doing, err)}
	}
	return explained{fmt.Errorf("journal %s: %s: %w", path, doing, err)}
}
