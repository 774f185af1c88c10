package sqlite

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/checkpoint"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/inplace"
	"github.com/onceward/onceward/journal/sqlite/internal/localdb"
	"github.com/onceward/onceward/journal/sqlite/internal/nameindex"
	"github.com/onceward/onceward/journal/sqlite/internal/statements"
)

const (
	// maxBatch is how many requests a batch takes at most.
	maxBatch = 1024
	// maxBatchBytes is the size of recorded bytes after which a batch takes no more requests. A row of SQLite
	// has at most a billion, and others wait meanwhile.
	maxBatchBytes = 32 << 20
	// yieldToOthers is the pause after a commit if other processes write too. Without it one process starves
	// the other. It is as long as they wait at most before they check again (conn.InTurn).
	yieldToOthers = 300 * time.Microsecond
	// sharedFor is for how long after another process was seen to write there are
	// pauses.
	sharedFor = 20 * time.Millisecond
)

// writer is the one goroutine that writes. It puts all requests that arrive meanwhile into one transaction.
type writer struct {
	path       string
	conn       *conn.Conn
	sql        *statements.Statements
	checkpoint *checkpoint.Checkpointer
	timeout    time.Duration
	committed  func(requests int, took time.Duration)
	readOnly   bool // it does not run, and serves readers only
	files      *inplace.Files
	// compressAbove is how large a body is, in bytes, that is not compressed.
	compressAbove int

	queue    chan *request
	turns    chan *turn
	local    localdb.Lock
	requests sync.Pool
	taken    []*request    // memory for a batch's
	last     int           // how many were in the last one
	crowded  bool          // more than one caller, by the last batch and by later requests
	stopped  chan struct{} // closed once nothing is taken from queue any more
	failed   error         // of the last flush; read after stopped
	shared   time.Time     // when another process was last seen to have written; zero: long ago

	deferred struct {
		sync.Mutex
		events []*prepared
	}
	flows   flowWriter
	commits commits

	state
}

// request is a unit of work in a batch: an event to be applied, or the function do.
type request struct {
	do    func(*batch) error
	event prepared
	out   outcome // of event

	done chan error // receives once for each use
	mu   sync.Mutex // held while it is done
	left bool       // the caller has left, and do's data may not be touched
	stop bool
}

// request returns a request that may have been used before. Each writer has its own, because a channel
// belongs to its synctest bubble.
func (w *writer) request() *request {
	if r, ok := w.requests.Get().(*request); ok {
		return r
	}
	return &request{done: make(chan error, 1)}
}

// free is for one whose asker was answered.
func (w *writer) free(r *request) {
	r.do, r.event, r.out = nil, prepared{}, outcome{}
	w.requests.Put(r)
}

func newWriter(path string, c *conn.Conn, files *inplace.Files, checkpointer *checkpoint.Checkpointer, timeout time.Duration, opts Options) (*writer, error) {
	sql, err := statements.New(c)
	if err != nil {
		return nil, err
	}
	key, err := nameindex.ReadKey(c)
	if err != nil {
		return nil, err
	}
	w := &writer{
		path: path, conn: c, sql: sql, files: files, checkpoint: checkpointer, timeout: timeout,
		committed:     opts.Committed,
		compressAbove: cmp.Or(opts.CompressAbove, format.DefaultCompressAbove),

		queue:   make(chan *request, maxBatch),
		turns:   make(chan *turn, maxBatch),
		local:   make(localdb.Lock, 1),
		stopped: make(chan struct{}),
		state:   newState(),
	}
	w.segments.Key = key
	go w.run()
	return w, nil
}

// do runs f in the writer and returns once the commit is durable, with f's error or the commit's. If ctx ends
// first, f has not run, or its commit may still be stored.
func (w *writer) do(ctx context.Context, f func(*batch) error) error {
	r := w.request()
	r.do = f
	answered, err := w.ask(ctx, r)
	if answered {
		w.free(r)
	}
	return err
}

// ask makes the writer run r. r belongs to the caller again if it was answered.
func (w *writer) ask(ctx context.Context, r *request) (answered bool, err error) {
	select {
	case w.queue <- r:
	default:
		select {
		case w.queue <- r:
		case <-w.stopped:
			return false, journal.ErrClosed
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	select {
	case err := <-r.done:
		return true, err
	case <-w.stopped:
		select {
		case err := <-r.done:
			return true, err
		default:
			return false, journal.ErrClosed
		}
	case <-ctx.Done():
		r.mu.Lock()
		r.left = true
		r.mu.Unlock()
		return false, ctx.Err()
	}
}

// flush commits the noted events.
func (w *writer) flush() error {
	return w.do(context.Background(), func(*batch) error { return nil })
}

// deferDelivery notes a delivery for the next commit. Only a great many make one.
func (w *writer) deferDelivery(ctx context.Context, ev journal.Event) (journal.Result, error) {
	w.deferred.Lock()
	w.deferred.events = append(w.deferred.events, w.prepare(ev))
	full := len(w.deferred.events)%maxBatch == 0
	w.deferred.Unlock()
	if full {
		if err := w.do(ctx, func(*batch) error { return nil }); err != nil {
			return journal.Result{}, err
		}
	}
	return journal.Result{Decision: journal.Recorded, Last: w.lastBy(ev.At)}, nil
}

// lastBy returns the latest time after an asker's clock was seen, as far as it is known outside the writer.
func (w *writer) lastBy(at time.Time) time.Time {
	last := time.UnixMilli(w.seen.Load()).UTC()
	if at = time.UnixMilli(at.UnixMilli()).UTC(); at.After(last) && at.Sub(last) <= journal.Leap {
		return at
	}
	return last
}

// stop ends the writer after a last commit.
func (w *writer) stop() error {
	w.queue <- &request{done: make(chan error, 1), stop: true}
	<-w.stopped
	return w.failed
}

func (w *writer) run() {
	defer close(w.stopped)
	sweeps := true // the last page of a sweep was committed
	for {
		w.handOver()
		w.crowded = w.last > 1 || len(w.queue) > 0
		busy := sweeps && len(w.sweeps) > 0
		if r := w.first(busy); r != nil {
			if !w.batch(r) {
				return
			}
			sweeps = true
		}
		if busy {
			sweeps = w.sweepSome()
		}
	}
}

// batch commits the first request and those that arrive meanwhile. It returns false after the request to
// stop, which does nothing.
func (w *writer) batch(first *request) (goOn bool) {
	goOn = true
	b, err := w.begin()
	if err != nil {
		w.failed = err
		waiting, stop := w.waiting()
		answer(append(waiting, first), err)
		return !stop && !first.stop
	}
	taken := w.taken[:0]
	yielded, asked := false, 0
	for r := first; r != nil; r = w.next(&yielded, asked) {
		asked++
		b.deliver()
		if r.stop {
			goOn = false
			w.final(b)
			break
		}
		if r.run(b) {
			taken = append(taken, r)
			yielded = false // more may come; a rejected caller may return at once, for ever
		}
		if b.broken != nil || len(b.records)+b.inRows > maxBatchBytes {
			break
		}
	}
	committing := time.Now()
	err = w.finish(b)
	took := time.Since(committing)
	w.failed = err
	if err == nil && b.wrote {
		w.commits.add(len(taken), took) // before its askers can look
	}
	answer(taken, err)
	if err == nil && b.wrote && w.committed != nil {
		w.committed(len(taken), took)
	}
	clear(taken)
	w.taken, w.last = taken, len(taken)
	if err == nil {
		w.checkpoint.Wrote(w.conn)
	}
	w.giveWay(b.others)
	return goOn
}

// giveWay pauses if other processes write too. All that wait for their turn check for it meanwhile, so that
// no process has two turns while another one waits.
func (w *writer) giveWay(others bool) {
	switch {
	case others:
		w.shared = time.Now()
	case w.shared.IsZero():
		return
	case time.Since(w.shared) > sharedFor:
		w.shared = time.Time{}
		return
	}
	time.Sleep(yieldToOthers)
}

// next returns the next request of this batch, or nil to commit it. Before that it yields the processor once,
// so that others can send theirs, unless there seem to be none.
func (w *writer) next(yielded *bool, asked int) *request {
	if asked >= maxBatch {
		return nil
	}
	for {
		select {
		case r := <-w.queue:
			return r
		default:
		}
		if *yielded || asked <= 1 && !w.crowded {
			return nil
		}
		*yielded = true
		runtime.Gosched()
	}
}

// run executes the request, unless its caller has given up, and reports whether the caller waits for the
// commit. If not, r does not belong to the writer any more.
func (r *request) run(b *batch) (waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left {
		return false
	}
	var err error
	b.changed = false
	switch {
	case b.broken != nil:
	case r.do != nil:
		err = r.do(b)
	default:
		err = b.apply(&r.event, &r.out)
	}
	if err != nil {
		r.done <- err
	}
	return err == nil
}

// answer sends the result of the commit to all waiting callers.
func answer(requests []*request, err error) {
	for _, r := range requests {
		r.mu.Lock()
		if !r.left {
			r.done <- err
		}
		r.mu.Unlock()
	}
}

// waiting takes everything from the queue, without waiting, and reports whether a request to stop was in it.
func (w *writer) waiting() (requests []*request, stop bool) {
	for range len(w.queue) {
		r := <-w.queue
		stop = stop || r.stop
		requests = append(requests, r)
	}
	return requests, stop
}

// begin starts a transaction, adds the commits of other processes to the state, and takes in the outbox.
func (w *writer) begin() (*batch, error) {
	for {
		b, err := w.beginNext()
		if err != nil {
			return nil, err
		}
		more, err := b.takeIn()
		switch {
		case err != nil:
			w.rollback(b)
			return nil, conn.Explain(w.path, "take in what the application's transactions have recorded", err)
		case !more:
			return b, nil
		}
		if err := w.finish(b); err != nil {
			return nil, err
		}
	}
}

func (w *writer) beginNext() (*batch, error) {
	begin := func() error {
		_, err := w.sql.Begin.Exec()
		return err
	}
	var err error
	if w.local.Take(context.Background(), w.timeout) {
		w.local.GiveBack() // no other takes it before this batch has ended: see turn
		err = conn.InTurn(w.timeout, begin)
	} else {
		err = begin()
	}
	if err != nil && !conn.IsBusy(err) {
		// The last rollback may have failed too, and left the transaction open.
		_, _ = w.sql.Rollback.Exec()
		err = begin()
	}
	if err != nil {
		return nil, conn.Explain(w.path, "begin", cmp.Or(w.outOfPlace(), err))
	}
	b := newBatch(w)
	if err := b.refresh(); err != nil {
		w.rollback(b)
		return nil, conn.Explain(w.path, "read", cmp.Or(w.outOfPlace(), err))
	}
	// A rolled-back batch loses the times that it saw.
	clock := w.clock
	b.abandoned = append(b.abandoned, func() { w.clock = clock })
	// It runs now rather than before the commit: callers of the last commit are not back yet.
	if err := b.foldSome(); err != nil {
		w.rollback(b)
		return nil, err
	}
	return b, nil
}

// deliver applies the deliveries since the last time. A delivery that was noted before a request must be
// applied before it.
func (b *batch) deliver() {
	w := b.writer
	w.deferred.Lock()
	riders := w.deferred.events
	w.deferred.events = nil
	w.deferred.Unlock()
	b.deferrals = append(b.deferrals, riders...)
	var out outcome
	for _, p := range riders {
		// Next rejects none of them. If the store fails, all stay noted.
		_ = b.apply(p, &out)
	}
	b.takeDeferredFlows()
}

// final makes the last time durable that no change has carried, and leaves nothing in
// the log alone.
func (w *writer) final(b *batch) {
	if b.broken != nil {
		return
	}
	if w.clock.Last.After(w.durable.Last) {
		b.wrote = true
	}
	_ = b.giveUp(b.foldAll())
	w.checkpoint.Turn = true
}

// finish commits, or rolls back if that fails.
func (w *writer) finish(b *batch) error {
	if b.broken == nil {
		if err := b.note(); err != nil {
			b.broken = err
		}
	}
	if b.broken == nil && b.wrote {
		b.broken = w.files.InPlace()
	}
	if b.broken == nil {
		if _, err := w.sql.Commit.Exec(); err != nil {
			b.broken = err
		}
	}
	if b.broken != nil {
		w.rollback(b)
		_ = w.outOfPlace() // for its record; its error may not say that nothing was recorded
		return conn.Explain(w.path, "commit", b.broken)
	}
	b.settle()
	if b.wrote {
		if err := w.files.StillInPlace(); err != nil { // later readers find the current file
			_ = w.checkpoint.Keep(w.identity, w.number)
			return err
		}
	}
	return nil
}

// outOfPlace is InPlace for the cause of another error, and keeps the result.
func (w *writer) outOfPlace() error {
	gone := w.files.InPlace()
	if gone != nil {
		_ = w.checkpoint.Keep(w.identity, w.number)
	}
	return gone
}

// rollback discards the batch's work, except for deliveries, which stay noted.
func (w *writer) rollback(b *batch) {
	_, _ = w.sql.Rollback.Exec() // SQLite may have done so itself
	w.deferred.Lock()
	w.deferred.events = append(b.deferrals, w.deferred.events...)
	w.deferred.Unlock()
	b.abandon()
	if w.newest > w.begun {
		// Before the log is read again: other processes may have given out the same handles since.
		w.segments.Truncate(w.begun)
	}
	w.known = false
}
