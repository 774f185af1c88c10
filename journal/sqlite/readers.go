package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/onceward/onceward/journal"
)

// maxReaders is how many connections read at a time.
const maxReaders = 4

// readers are connections that can only read, dialled when they are needed.
type readers struct {
	path   string
	idle   chan *reader // maxReaders of them, nil for one that is not dialled yet
	closed chan struct{}
}

// reader is one of them, in one goroutine's hands.
type reader struct {
	conn  *conn
	stmts map[string]*stmt
}

func newReaders(path string) *readers {
	rs := &readers{path: path, idle: make(chan *reader, maxReaders), closed: make(chan struct{})}
	for range maxReaders {
		rs.idle <- nil
	}
	return rs
}

// read has f use a connection. No statement of f's stays open.
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
	if r == nil {
		c, err := dial(rs.path, readerPragmas)
		if err != nil {
			return explain(rs.path, "open for reading", err)
		}
		r = &reader{conn: c, stmts: make(map[string]*stmt)}
	}
	return explain(rs.path, "read", f(r))
}

// each calls g for every row of a query, whose statement is kept for the next time.
func (r *reader) each(query string, g func([]driver.Value) error, args ...any) error {
	s, ok := r.stmts[query]
	if !ok {
		var err error
		if s, err = r.conn.prepare(query); err != nil {
			return err
		}
		r.stmts[query] = s
	}
	return s.each(g, args...)
}

// close waits for those who read, and refuses others.
func (rs *readers) close() error {
	close(rs.closed)
	var errs []error
	for range maxReaders {
		if r := <-rs.idle; r != nil {
			errs = append(errs, r.conn.close())
		}
	}
	return errors.Join(errs...)
}

// Get returns the whole operation, or journal.ErrNotFound. One with a generated ID
// is found by way of the writer.
func (j *Journal) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	if err := j.open(ctx); err != nil {
		return journal.Operation{}, err
	}
	const where = " FROM operations o LEFT JOIN answers a ON a.handle = o.handle AND o.state = 3 AND o.tombstone = 0 WHERE "
	op, found, err := j.getOne(ctx, where+"identified = 1 AND id = ? AND scope = ? AND parent = ?", ref.ID, ref.Scope, ref.Parent)
	if err != nil || found {
		return op, err
	}
	var handles []int64
	err = j.file.writer.do(ctx, func(b *batch) (err error) {
		handles, err = b.generated(ref.ID)
		return err
	})
	if err != nil {
		return journal.Operation{}, err
	}
	for _, handle := range handles {
		op, found, err := j.getOne(ctx, where+"o.handle = ?", handle)
		if err != nil || found && op.Ref == ref {
			return op, err
		}
	}
	return journal.Operation{}, journal.ErrNotFound
}

// getOne reads one whole operation.
func (j *Journal) getOne(ctx context.Context, where string, args ...any) (op journal.Operation, found bool, err error) {
	err = j.file.readers.read(ctx, func(r *reader) error {
		return r.each("SELECT "+qualified+", o.request_body, a.answer, a.body"+where, func(v []driver.Value) error {
			found = true
			op, err = whole(v)
			return err
		}, args...)
	})
	return op, found, err
}

// whole reads an operation from columns, its request's body, its answer and that
// one's body.
func whole(v []driver.Value) (journal.Operation, error) {
	r, err := readRow(v)
	if err != nil {
		return journal.Operation{}, err
	}
	op := r.op
	if op.Request, err = decodeRequest(r.request); err != nil {
		return journal.Operation{}, err
	}
	if body, _ := v[len(v)-3].([]byte); body != nil {
		op.Request.Body = body
	}
	if answer, _ := v[len(v)-2].([]byte); answer != nil {
		if op.Answer, err = decodeAnswer(answer); err != nil {
			return journal.Operation{}, err
		}
		if body, _ := v[len(v)-1].([]byte); body != nil {
			op.Answer.Body = body
		}
	}
	return op, nil
}
