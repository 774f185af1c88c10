package sqlite

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

const (
	// maxBatch is how many requests share a commit at most.
	maxBatch = 1024
	// yieldToOthers is the pause after another process was seen to write: without
	// it one process starves the other.
	yieldToOthers = 300 * time.Microsecond
)

// writer is the one goroutine that writes. All that is done in it is done in one
// transaction with whatever else arrives meanwhile.
type writer struct {
	path       string
	conn       *conn
	sql        *statements
	checkpoint *checkpointer
	timeout    time.Duration

	queue   chan *request
	stopped chan struct{} // closed once nothing is taken from queue any more
	failed  error         // of the last flush; read after stopped

	riding struct {
		sync.Mutex
		events []journal.Event
	}

	state
}

// request is something to be done in a batch.
type request struct {
	do   func(*batch) error
	done chan error // receives once

	mu   sync.Mutex // held while do runs
	left bool       // nobody waits, and what do refers to may not be touched
}

func newWriter(path string, c *conn, checkpoint *checkpointer, timeout time.Duration) (*writer, error) {
	sql, err := newStatements(c)
	if err != nil {
		return nil, err
	}
	w := &writer{
		path: path, conn: c, sql: sql, checkpoint: checkpoint, timeout: timeout,
		queue:   make(chan *request, maxBatch),
		stopped: make(chan struct{}),
		state:   newState(),
	}
	go w.run()
	return w, nil
}

// do has f run in the writer and returns once the commit is durable, with f's error
// or the commit's. Where ctx ends first, f has not run, or its commit may yet land.
func (w *writer) do(ctx context.Context, f func(*batch) error) error {
	r := &request{do: f, done: make(chan error, 1)}
	select {
	case w.queue <- r:
	case <-w.stopped:
		return journal.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-w.stopped:
		select {
		case err := <-r.done:
			return err
		default:
			return journal.ErrClosed
		}
	case <-ctx.Done():
		r.mu.Lock()
		r.left = true
		r.mu.Unlock()
		return ctx.Err()
	}
}

// flush commits what rides.
func (w *writer) flush() error {
	return w.do(context.Background(), func(*batch) error { return nil })
}

// ride notes a delivery for the next commit. Only a great many make one.
func (w *writer) ride(ctx context.Context, ev journal.Event) (journal.Result, error) {
	w.riding.Lock()
	w.riding.events = append(w.riding.events, ev)
	full := len(w.riding.events)%maxBatch == 0
	w.riding.Unlock()
	if full {
		if err := w.do(ctx, func(*batch) error { return nil }); err != nil {
			return journal.Result{}, err
		}
	}
	return journal.Result{Decision: journal.Recorded, Last: time.UnixMilli(max(w.seen.Load(), ev.At.UnixMilli())).UTC()}, nil
}

// stop ends the writer after a last commit.
func (w *writer) stop() error {
	r := &request{done: make(chan error, 1)}
	w.queue <- r
	<-w.stopped
	return w.failed
}

func (w *writer) run() {
	defer close(w.stopped)
	for r := range w.queue {
		if !w.batch(r) {
			return
		}
	}
}

// batch commits what the first request and those that arrive meanwhile ask for. It
// returns false after the request to stop, which has nothing to do.
func (w *writer) batch(first *request) (goOn bool) {
	goOn = true
	b, err := w.begin()
	if err != nil {
		w.failed = err
		requests, stop := w.waiting()
		answer(append(requests, first), err)
		return !stop && first.do != nil
	}
	var taken []*request
	yielded := false
	for r := first; r != nil && b.broken == nil; r = w.next(&yielded, len(taken)) {
		b.deliver()
		if r.do == nil {
			goOn = false
			w.final(b)
			break
		}
		taken = append(taken, r)
		if b.broken == nil {
			r.run(b)
		}
	}
	err = w.finish(b)
	w.failed = err
	answer(taken, err)
	if err == nil {
		w.checkpoint.wrote(w.conn)
	}
	if b.others {
		time.Sleep(yieldToOthers)
	}
	return goOn
}

// next is the next request of this batch, nil if it is to be committed: before
// that, others get the processor once to send theirs.
func (w *writer) next(yielded *bool, taken int) *request {
	if taken >= maxBatch {
		return nil
	}
	for {
		select {
		case r := <-w.queue:
			return r
		default:
		}
		if *yielded {
			return nil
		}
		*yielded = true
		runtime.Gosched()
	}
}

// run does what is asked for, unless nobody waits for it any more.
func (r *request) run(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left {
		return
	}
	if err := r.do(b); err != nil {
		r.done <- err
		r.left = true // it has its answer
	}
}

// answer tells everybody who has no answer yet what became of the commit.
func answer(requests []*request, err error) {
	for _, r := range requests {
		r.mu.Lock()
		if !r.left && r.do != nil {
			r.left = true
			r.done <- err
		}
		r.mu.Unlock()
	}
}

// waiting takes everything from the queue, without waiting for more, and tells
// whether a request to stop was in it.
func (w *writer) waiting() (requests []*request, stop bool) {
	for range len(w.queue) {
		r := <-w.queue
		stop = stop || r.do == nil
		requests = append(requests, r)
	}
	return requests, stop
}

// begin starts a transaction and brings the state up to what others have written.
func (w *writer) begin() (*batch, error) {
	begin := func() error {
		_, err := w.sql.begin.exec()
		return err
	}
	err := inTurn(w.timeout, begin)
	if err != nil && !isBusy(err) {
		// The last rollback may have failed too, and left the transaction open.
		_, _ = w.sql.rollback.exec()
		err = begin()
	}
	if err != nil {
		return nil, explain(w.path, "begin", err)
	}
	b := newBatch(w)
	if err := b.refresh(); err != nil {
		w.rollback(b)
		return nil, explain(w.path, "read", err)
	}
	return b, nil
}

// deliver applies the deliveries that came since the last time. One that was noted
// before a request was made has to be applied before it.
func (b *batch) deliver() {
	w := b.writer
	w.riding.Lock()
	riders := w.riding.events
	w.riding.events = nil
	w.riding.Unlock()
	b.riders = append(b.riders, riders...)
	for _, ev := range riders {
		// Next refuses no delivery. If the store fails, all ride on.
		_, _ = b.apply(prepare(ev))
	}
}

// final makes the last time durable that no change has carried, and gives a number
// to the last commits.
func (w *writer) final(b *batch) {
	b.numberIt = true
	if b.broken == nil && (w.clock.Last.After(w.durable.Last) || w.unnumbered > 0) {
		b.wrote = true
	}
}

// finish commits, or rolls back where that can't be done.
func (w *writer) finish(b *batch) error {
	if b.broken == nil {
		if err := b.note(); err != nil {
			b.broken = err
		}
	}
	if b.broken == nil {
		if _, err := w.sql.commit.exec(); err != nil {
			b.broken = err
		}
	}
	if b.broken != nil {
		w.rollback(b)
		return explain(w.path, "commit", b.broken)
	}
	b.settle()
	return nil
}

// rollback forgets what the batch did, but for deliveries, which ride on.
func (w *writer) rollback(b *batch) {
	_, _ = w.sql.rollback.exec() // SQLite may have done so itself
	w.riding.Lock()
	w.riding.events = append(b.riders, w.riding.events...)
	w.riding.Unlock()
	b.abandon()
	w.known = false
}
