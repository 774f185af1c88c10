package rowstore

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/journal"
)

const (
	// maxBatch is how many requests share a transaction at most.
	maxBatch = 1024
	// maxBatchBytes is the size of new parts after which a transaction takes no more requests.
	maxBatchBytes = 32 << 20
	// tries is how often a transaction is decided anew because another one changed its rows.
	tries = 8
)

// request is a unit of work in a transaction.
type request struct {
	event *prepared          // what it reads; nil: no operation by name
	flow  journal.Ref        // the flow that it reads; zero: none by name
	run   func(*batch) error // may run again after a rollback
	rides bool               // a delivery, for whose commit no caller waits

	flushes bool // its caller waits for the deliveries
	lasting bool // its commit goes on after its caller has left
	leaps   int  // that were recorded for its caller's clock

	ctx  context.Context // of its caller
	done chan error
	left atomic.Bool // its caller waits no more
	err  error       // its own, of the latest run
}

func newRequest(ctx context.Context, r *request) *request {
	r.ctx, r.done = ctx, make(chan error, 1)
	return r
}

// decide runs the request in a batch, unless the request's caller has left. An error undoes only this request's
// changes.
func (r *request) decide(b *batch) {
	if r.left.Load() {
		r.err = context.Canceled
		return
	}
	b.undo = b.undo[:0]
	if r.err = r.run(b); r.err != nil {
		b.revert()
	}
}

// group commits requests. Requests that arrive during a transaction share the next transaction.
type group struct {
	s    *Store
	last int // how many requests were in the last transaction

	mu      sync.Mutex
	queue   []*request    // for the next transaction
	riders  []*request    // deliveries, likewise
	runs    chan struct{} // closed when the goroutine that commits ends; nil means that there is none, and no request waits
	stopped bool          // no request is accepted any more
}

// do returns once the request's transaction is durable, with its error. If ctx ends first, the commit may have landed.
func (s *Store) do(ctx context.Context, r *request) error {
	newRequest(ctx, r)
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.group.accept(r) {
		return journal.ErrClosed
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		r.left.Store(true)
		return ctx.Err()
	}
}

// accept reports whether the journal is still open. Then the request is answered.
func (g *group) accept(r *request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false
	}
	g.queue = append(g.queue, r)
	if g.runs == nil {
		g.runs = make(chan struct{})
		go g.loop()
	}
	return true
}

// defers notes a delivery, and reports whether so many wait that they need a commit.
func (g *group) defers(r *request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.riders = append(g.riders, r)
	return len(g.riders)%maxBatch == 0
}

// rides reports whether deliveries wait for a commit.
func (g *group) rides() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.riders) > 0
}

func (g *group) takeRiders() []*request {
	g.mu.Lock()
	defer g.mu.Unlock()
	riders := g.riders
	g.riders = nil
	return riders
}

// loop commits until no request waits.
func (g *group) loop() {
	for {
		requests := g.collect()
		if len(requests) == 0 {
			return
		}
		g.last = len(requests)
		if requests = slices.DeleteFunc(requests, g.sets); len(requests) > 0 {
			g.commit(append(g.takeRiders(), requests...))
		}
	}
}

// sets sets a request aside if its name is held, as far as others have found out.
func (g *group) sets(r *request) bool {
	held := g.s.aside.waits(r)
	if held {
		g.s.aside.take(r)
	}
	return held
}

// collect takes the waiting requests. collect yields the processor, so that the last commit's callers can return. If
// no request waits, the goroutine is to end.
func (g *group) collect() (requests []*request) {
	for bytes := 0; ; runtime.Gosched() {
		n := len(requests)
		requests, bytes = g.take(requests, bytes)
		if len(requests) == n || len(requests) == 1 && g.last <= 1 {
			return requests
		}
	}
}

// take adds waiting requests to the next transaction's requests, as far as they fit.
func (g *group) take(requests []*request, bytes int) ([]*request, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.queue) > 0 && len(requests) < maxBatch && bytes < maxBatchBytes {
		bytes += g.queue[0].size()
		requests, g.queue = append(requests, g.queue[0]), g.queue[1:]
	}
	if len(g.queue) == 0 {
		g.queue = nil // and the requests in its array
	}
	if len(requests) == 0 {
		close(g.runs)
		g.runs = nil
	}
	return requests, bytes
}

func (r *request) size() int {
	if r.event == nil {
		return 0
	}
	return r.event.size()
}

// end commits the deliveries and the clock. Requests that wait end with ErrClosed.
func (g *group) end() error {
	g.mu.Lock()
	g.stopped = true
	waiting, runs := g.queue, g.runs
	g.queue = nil
	g.mu.Unlock()
	for _, r := range waiting {
		r.done <- journal.ErrClosed
	}
	if runs != nil {
		<-runs
	}
	last := newRequest(context.Background(), &request{flushes: true, run: func(b *batch) error {
		b.keep = !b.clock.kept().Last.Equal(b.head.Clock.Last)
		return nil
	}})
	g.commit(append(g.takeRiders(), last))
	return <-last.done
}

// commit decides the requests in one transaction. If a row makes the transaction fail, commit finds the requests to
// blame, and commits the others alone.
func (g *group) commit(requests []*request) {
	s := g.s
	for try := 0; ; try++ {
		_, err := s.transact(s.ctx, requests, TryLock, try > 0)
		if err == nil {
			for _, r := range requests {
				s.finish(r)
			}
			return
		}
		var riders []*request
		if riders, requests = split(requests); len(riders) > 0 {
			g.without(riders, requests, err)
			return
		}
		switch {
		case errors.Is(err, ErrMissed) && try < tries:
			continue
		case isOfRow(err) && len(requests) > 1:
			g.commit(requests[:len(requests)/2])
			g.commit(requests[len(requests)/2:])
		case errors.Is(err, ErrLocked) && len(requests) == 1:
			s.aside.take(requests[0])
		default:
			for _, r := range requests {
				r.done <- err
			}
		}
		return
	}
}

// without commits the requests after a transaction with deliveries has failed. A delivery never fails other requests
// again, because without records each delivery alone. A delivery waits for the next commit only if the others fail
// too, or record nothing, for example without a database or on a full disk.
func (g *group) without(riders, requests []*request, failed error) {
	landed, err := false, failed
	if !isOfRow(err) && !errors.Is(err, ErrUndecided) {
		landed, err = g.s.transact(g.s.ctx, requests, TryLock, true)
	}
	if !landed && !isOfRow(err) {
		g.mu.Lock()
		g.riders = append(riders, g.riders...)
		g.mu.Unlock()
		for _, r := range requests {
			switch {
			case err != nil:
				r.done <- err
			case r.flushes:
				r.done <- failed
			default:
				g.s.finish(r)
			}
		}
		return
	}
	for _, r := range riders {
		g.s.aside.take(r)
	}
	if !landed {
		g.commit(requests)
		return
	}
	for _, r := range requests {
		g.s.finish(r)
	}
}

func split(requests []*request) (riders, others []*request) {
	i := slices.IndexFunc(requests, func(r *request) bool { return !r.rides })
	if i < 0 {
		return requests, nil
	}
	return requests[:i:i], requests[i:] // what is appended to the first must not be in the second
}

// isOfRow reports whether an error may be the fault of one row.
func isOfRow(err error) bool {
	return errors.Is(err, ErrMissed) || errors.Is(err, ErrLocked) || errors.Is(err, ErrRefused)
}

// finish answers a request after the transaction. A request that met a held row, or a clock leap, waits alone.
func (s *Store) finish(r *request) {
	switch {
	case errors.Is(r.err, errHeld), isLeap(r.err):
		s.aside.take(r)
	case r.rides && r.err != nil:
		s.undelivered(r, r.err)
	default:
		r.done <- r.err
	}
}

// undelivered logs a warning about a delivery that could not be recorded.
func (s *Store) undelivered(r *request, err error) {
	s.log.Warn("the delivery of an outcome could not be recorded, so it may be delivered once more", "operation", r.event.Ref.ID, "error", err)
}
