package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io/fs"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// maxReaders is how many connections read at a time.
const maxReaders = 4

// readers are connections that can only read, dialled when they are needed.
type readers struct {
	path   string
	beside fs.FileInfo  // of the file, if this process has only these readers; otherwise nil
	idle   chan *reader // maxReaders of them, nil for one that is not dialled yet
	closed chan struct{}
}

// reader is one of them, in one goroutine's hands.
type reader struct {
	conn  *conn.Conn
	stmts map[string]*conn.Stmt
}

func newReaders(path string) *readers {
	rs := &readers{path: path, idle: make(chan *reader, maxReaders), closed: make(chan struct{})}
	for range maxReaders {
		rs.idle <- nil
	}
	return rs
}

// read calls f with a connection. No statement of f stays open. If f is called again (readBeside), its
// earlier results do not count.
func (rs *readers) read(ctx context.Context, f func(*reader) error) error {
	var r *reader
	select {
	case r = <-rs.idle:
	case <-rs.closed:
		return journal.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { rs.idle <- r }()
	if rs.beside != nil {
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

func (rs *readers) dial(mode string) (*reader, error) {
	c, err := conn.DialMode(rs.path, mode, readerPragmas)
	if err != nil {
		return nil, err
	}
	return &reader{conn: c, stmts: make(map[string]*conn.Stmt)}, nil
}

// each calls g for every row of a query, whose statement is kept for the next time.
func (r *reader) each(query string, g func([]driver.Value) error, args ...any) error {
	s, ok := r.stmts[query]
	if !ok {
		var err error
		if s, err = r.conn.Prepare(query); err != nil {
			return err
		}
		r.stmts[query] = s
	}
	return s.Each(g, args...)
}

// close waits for readers, and rejects new ones.
func (rs *readers) close() error {
	close(rs.closed)
	var errs []error
	for range maxReaders {
		if r := <-rs.idle; r != nil {
			errs = append(errs, r.conn.Close())
		}
	}
	return errors.Join(errs...)
}

// snapshot has f read one state of the file.
func (r *reader) snapshot(f func() error) (err error) {
	if err := r.each("BEGIN", func([]driver.Value) error { return nil }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.each("COMMIT", func([]driver.Value) error { return nil })) }()
	return f()
}
