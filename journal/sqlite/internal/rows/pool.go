package rows

import (
	"context"
	"errors"

	"github.com/onceward/onceward/journal"
)

// maxReaders is how many connections read at a time.
const maxReaders = 4

// pool are connections that read, each used in turn.
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

// with calls f with a connection, or nil if one is to be dialled. f may replace it.
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

// drop closes the connections that are not in use.
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
