package rows

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// maxReaders is how many connections read at a time.
const maxReaders = 4

// File is a file for reading: by a Driver, or by a ReadOnly beside the file's users.
type File struct {
	path string
	with func(ctx context.Context, doing string, f func(*readConn) error) error // calls f with a connection, maybe again
}

// Read implements rowstore.Source.
func (f *File) Read(ctx context.Context, read func(rowstore.Reader) error) error {
	return f.with(ctx, "read", func(r *readConn) error { return read(r.reader) })
}

// FreeBytes returns the file's size that is free for reuse.
func (f *File) FreeBytes(ctx context.Context) (n int64, err error) {
	const text = "SELECT (SELECT page_size FROM pragma_page_size) * (SELECT freelist_count FROM pragma_freelist_count)"
	err = f.with(ctx, "read", func(r *readConn) error {
		return r.each(ctx, text, nil, func(v []driver.Value) error {
			n = v[0].(int64)
			return nil
		})
	})
	return n, err
}

// pool are reading connections, each used in turn.
type pool struct {
	free   chan *readConn // nil for one that is not dialled
	closed chan struct{}
}

func newPool() *pool {
	p := &pool{free: make(chan *readConn, maxReaders), closed: make(chan struct{})}
	for range maxReaders {
		p.free <- nil
	}
	return p
}

// with calls f with a connection, or with nil if f must dial one. f may replace the connection.
func (p *pool) with(ctx context.Context, f func(r **readConn) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var r *readConn
	select {
	case r = <-p.free:
	case <-p.closed:
		return journal.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { p.free <- r }()
	return f(&r)
}

// drop closes the unused connections.
func (p *pool) drop() {
	for range maxReaders {
		select {
		case r := <-p.free:
			if r != nil {
				_ = r.c.Close() // it has nothing to write
			}
			p.free <- nil
		default:
		}
	}
}

// close waits for readers, and rejects new ones.
func (p *pool) close() error {
	close(p.closed)
	var errs []error
	for range maxReaders {
		if r := <-p.free; r != nil {
			errs = append(errs, r.c.Close())
		}
	}
	return errors.Join(errs...)
}
