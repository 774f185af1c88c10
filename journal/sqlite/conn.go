package sqlite

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
)

// conn is one connection to the database file, used by one goroutine at a time.
//
// It is the driver's own connection: database/sql would add its locks, retries
// and conversions to every statement, a tenth of what one costs, and give nothing
// that a pinned connection needs.
type conn struct {
	driver.Conn
	stmts []*stmt
}

// pragma is a setting, and what it is to read back as. SQLite accepts a value that
// it doesn't know without a word (https://sqlite.org/pragma.html), so that a slip
// would cost durability unseen.
type pragma struct{ name, value, want string }

func dial(path string, pragmas []pragma) (*conn, error) { return dialMode(path, "rw", pragmas) }

// dialMode opens the file as mode says, one of https://sqlite.org/uri.html#urimode.
func dialMode(path, mode string, pragmas []pragma) (*conn, error) {
	// The path is one of a file: URI, in which ? and # would end it.
	raw, err := new(sqlite.Driver).Open("file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=" + mode)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw}
	if err := c.set(pragmas); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// set sets pragmas in the given order and refuses what reads back differently.
func (c *conn) set(pragmas []pragma) error {
	for _, p := range pragmas {
		if err := c.exec("PRAGMA " + p.name + "=" + p.value); err != nil {
			return fmt.Errorf("pragma %s: %w", p.name, err)
		}
		got, err := c.value("PRAGMA " + p.name)
		if err != nil {
			return fmt.Errorf("pragma %s: %w", p.name, err)
		}
		if fmt.Sprint(got) != p.want {
			return fmt.Errorf("pragma %s=%s reads back as %v, not %s: SQLite refused it", p.name, p.value, got, p.want)
		}
	}
	return nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.Conn.Close())...)
}

// prepare compiles one statement, which is closed with the connection.
func (c *conn) prepare(query string) (*stmt, error) {
	raw, err := c.Conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	s := &stmt{Stmt: raw}
	c.stmts = append(c.stmts, s)
	return s, nil
}

// exec runs a statement once.
func (c *conn) exec(query string) error {
	_, err := c.Conn.(driver.ExecerContext).ExecContext(context.Background(), query, nil)
	return err
}

// value runs a query for one value.
func (c *conn) value(query string) (v driver.Value, err error) {
	raw, err := c.Conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	s := stmt{Stmt: raw}
	defer s.Close()
	found, err := s.first(func(row []driver.Value) error { v = row[0]; return nil })
	if err == nil && !found {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

// stmt is a prepared statement. Its arguments are int, int64, string, []byte, bool
// or nil.
type stmt struct {
	driver.Stmt
	args []driver.NamedValue
}

func (s *stmt) bind(args []any) []driver.NamedValue {
	s.args = s.args[:0]
	for i, arg := range args {
		if n, ok := arg.(int); ok {
			arg = int64(n)
		}
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return s.args
}

// exec runs the statement and says how many rows it changed.
func (s *stmt) exec(args ...any) (int64, error) {
	result, err := s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), s.bind(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// each calls f for every row. The row is f's only while it runs. Nothing stays
// open afterwards: rows that are not closed would pin the WAL.
func (s *stmt) each(f func(row []driver.Value) error, args ...any) error {
	return s.eachContext(context.Background(), f, args...)
}

func (s *stmt) eachContext(ctx context.Context, f func(row []driver.Value) error, args ...any) (err error) {
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
		if err := take(f, row); err != nil {
			return err
		}
	}
}

// take calls f. The tables are STRICT: a column of another type than f asserts is
// damaged.
func take(f func(row []driver.Value) error, row []driver.Value) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *runtime.TypeAssertionError:
			err = errFormat
		default:
			panic(p)
		}
	}()
	return f(row)
}

var errEnough = errors.New("enough rows")

// first calls f for the first row and tells whether there was one.
func (s *stmt) first(f func(row []driver.Value) error, args ...any) (bool, error) {
	found := false
	err := s.each(func(row []driver.Value) error {
		found = true
		if err := f(row); err != nil {
			return err
		}
		return errEnough
	}, args...)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

// code is SQLite's result code without its extension, 0 for other errors.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

func isBusy(err error) bool { return code(err) == codes.SQLITE_BUSY }

// ofOneStatement tells whether an error undid one statement and left the
// transaction as it was before it.
func ofOneStatement(err error) bool {
	switch code(err) {
	case codes.SQLITE_CONSTRAINT, codes.SQLITE_TOOBIG, codes.SQLITE_MISMATCH:
		return true
	}
	return false
}

// advice is what to do about an error of SQLite's.
var advice = map[int]string{
	codes.SQLITE_FULL:     "the disk is full; free some space, and it goes on by itself",
	codes.SQLITE_READONLY: "it can't be written; check the permissions of the file and of its directory",
	codes.SQLITE_PERM:     "it can't be written; check the permissions of the file and of its directory",
	codes.SQLITE_CANTOPEN: "it can't be opened; check that its directory exists and can be written",
	codes.SQLITE_IOERR:    "the disk reports an error; check it, and whether the file is still there",
	codes.SQLITE_CORRUPT:  "the file is damaged; keep a copy of it, and restore a backup",
	codes.SQLITE_NOTADB:   "the file is not a SQLite database any more; restore a backup",
	codes.SQLITE_BUSY:     "another process has kept the file locked; look for a transaction left open in it",
}

// explain says what could not be done to which file, and what to do about it.
func explain(path, doing string, err error) error {
	if err == nil {
		return nil
	}
	if what, ok := advice[code(err)]; ok {
		return fmt.Errorf("journal %s: %s: %s: %w", path, doing, what, err)
	}
	if errors.Is(err, errFormat) {
		return fmt.Errorf("journal %s: %s: %w; keep a copy of the file, and restore a backup", path, doing, err)
	}
	return fmt.Errorf("journal %s: %s: %w", path, doing, err)
}
