// Package read reads a journal's file on connections that can only read, each as of one moment.
//
// It knows where a record may be: in the log, in a block, or in a row of its own. It also reads a file that no process has
// open. It must not know the writer and its memory. Callers add what only these have.
package read

import (
	"context"
	"database/sql/driver"
	"errors"
	"io/fs"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// Pragmas are the settings of a connection that only reads.
var Pragmas = []conn.Pragma{
	conn.Patience,
	{"wal_autocheckpoint", "0", "0"},
	{"trusted_schema", "OFF", "0"},
	{"query_only", "ON", "1"},
}

// maxReaders is how many connections read at a time.
const maxReaders = 4

// Pool are connections that can only read, dialled when they are needed.
type Pool struct {
	path   string
	Beside fs.FileInfo  // of the file, if this process has only these readers; otherwise nil
	idle   chan *Reader // maxReaders of them, nil for one that is not dialled yet
	closed chan struct{}
}

// Reader is one of them, in one goroutine's hands.
type Reader struct {
	Conn  *conn.Conn
	stmts map[string]*conn.Stmt
}

// NewPool returns a pool of the file at path. The caller closes it.
func NewPool(path string) *Pool {
	rs := &Pool{path: path, idle: make(chan *Reader, maxReaders), closed: make(chan struct{})}
	for range maxReaders {
		rs.idle <- nil
	}
	return rs
}

// Read calls f with a connection. No statement of f stays open. If f is called again (readBeside), its
// earlier results do not count.
func (rs *Pool) Read(ctx context.Context, f func(*Reader) error) error {
	var r *Reader
	select {
	case r = <-rs.idle:
	case <-rs.closed:
		return journal.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { rs.idle <- r }()
	if rs.Beside != nil {
		return conn.Explain(rs.path, "read", rs.readBeside(&r, f))
	}
	if r == nil {
		var err error
		if r, err = rs.dial("rw"); err != nil {
			return conn.Explain(rs.path, "open for reading", err)
		}
	}
	return conn.Explain(rs.path, "read", f(r))
}

func (rs *Pool) dial(mode string) (*Reader, error) {
	c, err := conn.DialMode(rs.path, mode, Pragmas)
	if err != nil {
		return nil, err
	}
	return New(c), nil
}

// New returns a reader on a connection that stays the caller's.
func New(c *conn.Conn) *Reader { return &Reader{Conn: c, stmts: make(map[string]*conn.Stmt)} }

// Each calls g for every row of a query, whose statement is kept for the next time.
func (r *Reader) Each(query string, g func([]driver.Value) error, args ...any) error {
	s, ok := r.stmts[query]
	if !ok {
		var err error
		if s, err = r.Conn.Prepare(query); err != nil {
			return err
		}
		r.stmts[query] = s
	}
	return s.Each(g, args...)
}

// Close waits for readers, and rejects new ones.
func (rs *Pool) Close() error {
	close(rs.closed)
	var errs []error
	for range maxReaders {
		if r := <-rs.idle; r != nil {
			errs = append(errs, r.Conn.Close())
		}
	}
	return errors.Join(errs...)
}

// Snapshot has f read one state of the file.
func (r *Reader) Snapshot(f func() error) (err error) {
	if err := r.Each("BEGIN", func([]driver.Value) error { return nil }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Each("COMMIT", func([]driver.Value) error { return nil })) }()
	return f()
}
