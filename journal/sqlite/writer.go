package sqlite

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

const (
	// maxBatch is how many requests share a commit at most.
	maxBatch = 1024
	// yieldToOthers is the pause after a commit where other processes write, too:
	// without it one process starves the other. It is as long as those wait at most
	// before they look again (busyStep).
	yieldToOthers = 300 * time.Microsecond
	// sharedFor is for how long after another process was seen to write there are
	// pauses.
	sharedFor = 20 * time.Millisecond
)

// writer is the one goroutine that writes. All that is done in it is done in one
// transaction with whatever else arrives meanwhile.
type writer struct {
	path       string
	conn       *conn
	sql        *statements
	checkpoint *checkpointer
	timeout    time.Duration
	intentOnly bool
	files      *openFiles
	// compressAbove is how large a body is, in bytes, that is not compressed.
	compressAbove int

	queue    chan *request
	requests sync.Pool
	landed   chan landing  // of the commit in the background
	spare    *batch        // memory for the next
	last     int           // how many requests were in the last one
	crowded  bool          // more than one asker, by the last one and by who came meanwhile
	stopped  chan struct{} // closed once nothing is taken from queue any more
	failed   error         // of the last flush; read after stopped
	shared   time.Time     // when another process was last seen to have written; zero: long ago

	riding struct {
		sync.Mutex
		events  []*prepared
		answers map[journal.Ref]struct{} // whose answers are among the events, or in the batch
	}
	flows   flowWriter
	commits commits

	state
}

// request is something to be done in a batch: an event to be applied, or whatever do
// does.
type request struct {
	do      func(*batch) error
	event   *prepared
	out     outcome // of event
	refused error   // likewise, ahead of the transaction

	done chan error // receives once for each use
	mu   sync.Mutex // held while it is done
	left bool       // nobody waits, and what do refers to may not be touched
	stop bool
}

// request returns one that may have been used before. Each writer has its own: a
// channel is of the synctest bubble that it was made in.
func (w *writer) request() *request {
	r, ok := w.requests.Get().(*request)
	if !ok {
		return &request{done: make(chan error, 1)}
	}
	r.mu.Lock() // whoever answered it last may not have let go of it
	r.left = false
	r.mu.Unlock()
	return r
}

// free is for one whose asker was answered.
func (w *writer) free(r *request) {
	r.do, r.event, r.out, r.refused = nil, nil, outcome{}, nil
	w.requests.Put(r)
}

func newWriter(path string, c *conn, files *openFiles, checkpoint *checkpointer, timeout time.Duration, opts Options) (*writer, error) {
	sql, err := newStatements(c)
	if err != nil {
		return nil, err
	}
	w := &writer{
		path: path, conn: c, sql: sql, files: files, checkpoint: checkpoint, timeout: timeout, intentOnly: opts.IntentOnly,
		compressAbove: cmp.Or(opts.CompressAbove, defaultCompressAbove),

		queue:   make(chan *request, maxBatch),
		landed:  make(chan landing, 1),
		stopped: make(chan struct{}),
		state:   newState(),
	}
	go w.run()
	return w, nil
}

// do has f run in the writer and returns once the commit is durable, with f's error
// or the commit's. Where ctx ends first, f has not run, or its commit may yet land.
func (w *writer) do(ctx context.Context, f func(*batch) error) error {
	r := w.request()
	r.do = f
	answered, err := w.ask(ctx, r)
	if answered {
		w.free(r)
	}
	return err
}

// ask has the writer do what r says. r is the asker's again if it was answered.
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

// flush commits what rides.
func (w *writer) flush() error {
	return w.do(context.Background(), func(*batch) error { return nil })
}

// ride notes a delivery for the next commit. Only a great many make one.
func (w *writer) ride(ctx context.Context, ev journal.Event) (journal.Result, error) {
	w.riding.Lock()
	w.riding.events = append(w.riding.events, w.prepare(ev))
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
	w.queue <- &request{done: make(chan error, 1), stop: true}
	<-w.stopped
	return w.failed
}

// run takes each batch through its life. A batch begins its transaction, which tells
// whether another process has written since the last one; it does what is pending and
// what arrives; and it commits. Where several wait, the commit has the connection to itself
// in a goroutine of its own (land), and the next batch goes ahead: it does what arrives in
// memory, without the file, up to the first request that can't be done so, which is pending
// from then on, and all after it stay in the queue. Once the commit has landed, its requests
// are answered and the next batch begins its transaction, with what it has done ahead.
// Where the commit failed, or another process has written, that is undone, pending again,
// and done anew from what is in the file. Until its transaction has begun, nobody is told
// anything of it, not even of a refusal: it may rest on what never was.
func (w *writer) run() {
	defer close(w.stopped)
	b := w.newBatch(nil)
	for goOn := true; goOn; {
		w.crowded = w.last > 1 || len(w.queue) > 0
		if b.empty() {
			b.pending = append(b.pending, <-w.queue)
		}
		b, goOn = w.batch(b)
	}
}

// batch commits what b has, and what arrives meanwhile, and returns the next one. goOn
// is false after the request to stop, which has nothing to do.
func (w *writer) batch(b *batch) (next *batch, goOn bool) {
	if err := w.begin(b); err != nil {
		w.failed = err
		return w.newBatch(nil), w.refuse(b, err)
	}
	stop := w.fill(b)
	committing := time.Now()
	next, err := w.commit(b, !stop)
	w.failed = err
	answer(b.taken, err)
	if err == nil {
		if b.wrote {
			w.commits.add(len(b.taken), time.Since(committing))
		}
		w.checkpoint.wrote(w.conn)
	}
	w.last = len(b.taken)
	w.giveWay(b.others)
	b.reset()
	w.spare = b
	return next, !stop
}

// giveWay pauses where other processes write, too. All of them who wait for their
// turn look for it in the meantime, so that nobody has two turns while another waits.
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

// fill does what is pending and what arrives, until nothing more does. It returns true
// with the request to stop.
func (w *writer) fill(b *batch) (stop bool) {
	for r := b.another(); r != nil; r = b.another() {
		b.deliver()
		if r.stop {
			w.final(b)
			return true
		}
		b.take(r)
		if b.broken != nil {
			break
		}
	}
	return false
}

// another is the next request of this batch, nil if it is to be committed: before that,
// others get the processor once to send theirs, unless there are none by all signs.
func (b *batch) another() *request {
	if len(b.taken) >= maxBatch {
		return nil
	}
	if len(b.pending) > 0 {
		r := b.pending[0]
		b.pending = slices.Delete(b.pending, 0, 1)
		return r
	}
	for {
		select {
		case r := <-b.queue:
			return r
		default:
		}
		if b.yielded || len(b.taken) <= 1 && !b.crowded {
			return nil
		}
		b.yielded = true
		runtime.Gosched()
	}
}

// take does what is asked for, unless nobody waits for it any more. Where it is refused,
// r is not the writer's any more; but ahead of the transaction nobody hears of it yet.
func (b *batch) take(r *request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left {
		return
	}
	var err error
	switch {
	case b.broken != nil:
	case r.do != nil:
		err = r.do(b)
	default:
		r.out, err = b.apply(r.event)
	}
	if err != nil && b.sql != nil {
		r.left = true
		r.done <- err
		return
	}
	r.refused = err
	b.taken = append(b.taken, r)
}

// answer tells everybody who waits what became of the commit.
func answer(requests []*request, err error) {
	for _, r := range requests {
		r.answer(err)
	}
}

func (r *request) answer(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.left && !r.stop {
		r.left = true
		r.done <- err
	}
}

// refuse answers everybody who waits with err, and returns false if a request to stop
// was among them.
func (w *writer) refuse(b *batch, err error) (goOn bool) {
	waiting := append(b.taken, b.pending...)
	for range len(w.queue) {
		waiting = append(waiting, <-w.queue)
	}
	answer(waiting, err)
	return !slices.ContainsFunc(waiting, func(r *request) bool { return r.stop })
}

// begin starts a transaction and brings the state up to what others have written.
func (w *writer) begin(b *batch) error {
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
		w.rollback(b)
		return explain(w.path, "begin", err)
	}
	b.sql = w.sql
	if err := b.refresh(); err != nil {
		w.rollback(b)
		return explain(w.path, "read", err)
	}
	// Now rather than before the commit: whoever was answered by the last one is not
	// back yet.
	if err := b.foldSome(); err != nil {
		w.rollback(b)
		return err
	}
	b.answerRefused()
	return nil
}

// deliver applies the deliveries that came since the last time. One that was noted
// before a request was made has to be applied before it. It returns false where some have
// to wait for the transaction.
func (b *batch) deliver() bool {
	w := b.writer
	w.riding.Lock()
	riders := w.riding.events
	w.riding.events = nil
	w.riding.Unlock()
	for i, p := range riders {
		if b.sql == nil && !b.inMemory(&p.Event) {
			w.ridesOn(riders[i:])
			return false
		}
		b.riders = append(b.riders, p)
		// Next refuses none of them. If the store fails, all ride on.
		_, _ = b.apply(p)
	}
	return b.takeFlowRiders()
}

// ridesOn has the next batch carry deliveries, before those that came since.
func (w *writer) ridesOn(riders []*prepared) {
	w.riding.Lock()
	defer w.riding.Unlock()
	w.riding.events = append(riders, w.riding.events...)
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
	if err := b.foldAll(); err != nil && b.broken == nil {
		b.broken = err
	}
	w.checkpoint.turn = true
}

// landing is what became of a commit.
type landing struct {
	err       error
	misplaced error // it landed in a file that nobody will find
}

// land appends the batch's row to the log and commits. Nobody else uses the connection
// meanwhile, and nothing is used here that another batch changes.
func (b *batch) land() (l landing) {
	if b.wrote {
		l.err = b.appendToLog()
	}
	if l.err == nil {
		_, l.err = b.sql.commit.exec()
	}
	if l.err == nil && b.wrote {
		l.misplaced = b.files.inPlace() // after the commit: what is there now will be found
	}
	return l
}

// commit commits, or rolls back where that can't be done. Where others wait, it does so
// in the background, and the next batch goes ahead meanwhile.
func (w *writer) commit(b *batch, goOn bool) (next *batch, err error) {
	next = w.newBatch(b.pending)
	if b.broken == nil && b.wrote && w.checkpoint.turn && w.restored == nil {
		b.broken = b.beginEpoch()
	}
	l := landing{err: b.broken}
	if l.err == nil {
		w.seen.Store(w.clock.Last.UnixMilli())
		b.row = b.logRow()
		if goOn && b.wrote && (w.crowded || len(b.taken) > 1) && !b.others && w.shared.IsZero() {
			go func() { w.landed <- b.land() }()
			l = next.ahead()
		} else {
			l = b.land()
		}
	}
	if l.err != nil {
		next.undo()
		w.rollback(b)
		return next, explain(w.path, "commit", l.err)
	}
	b.settle()
	if w.intentOnly {
		w.answersLanded(b.riders)
	}
	return next, l.misplaced
}

// rollback forgets what the batch did, but for deliveries, which ride on.
func (w *writer) rollback(b *batch) {
	_, _ = w.sql.rollback.exec() // SQLite may have done so itself
	b.forget()
	w.known = false
}

// forget leaves deliveries to the next batch. Whoever calls it has the log read again.
func (b *batch) forget() {
	b.ridesOn(b.riders)
	b.riders = nil
	b.riding.Lock()
	b.flushLater()
	b.riding.Unlock()
	b.abandon()
}
