package sqlite

import (
	"context"

	"github.com/onceward/onceward/journal"
)

// turn is for an application's transaction in this process, which would hardly ever find the file free
// between two batches of a busy writer. The writer lets one begin after each batch.
type turn struct {
	granted chan struct{}
	over    chan struct{} // closed once it has begun, or won't
}

// inItsTurn has begin begin a transaction while the writer begins none.
func (w *writer) inItsTurn(ctx context.Context, begin func() error) error {
	t := &turn{granted: make(chan struct{}), over: make(chan struct{})}
	defer close(t.over)
	select {
	case w.turns <- t:
	case <-w.stopped:
		return journal.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-t.granted:
	case <-w.stopped:
		return journal.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return begin()
}

// handOver lets the first that waits for its turn begin, if one does.
func (w *writer) handOver() {
	select {
	case t := <-w.turns:
		w.grant(t)
	default:
	}
}

// grant lets t begin. Meanwhile the transaction before it may still be open. A long WAL is moved only once that has ended,
// since its commit would keep the WAL from starting over.
func (w *writer) grant(t *turn) {
	if w.checkpoint.BeforeOthers(w.conn) && w.local.Take(context.Background(), w.timeout) {
		w.checkpoint.StartOver(w.conn)
		w.local.GiveBack()
	}
	select {
	case t.granted <- struct{}{}:
		<-t.over
	case <-t.over: // the caller does not wait any more
	}
}

// first is the first request of a batch; nil: a turn came first, or there is none, and the writer is busy.
func (w *writer) first(busy bool) *request {
	select {
	case r := <-w.queue:
		return r
	default:
	}
	if busy {
		return nil
	}
	select {
	case r := <-w.queue:
		return r
	case t := <-w.turns:
		w.grant(t)
		return nil
	}
}
