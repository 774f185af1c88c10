package rowstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

const (
	// waiters is how many transactions wait at once for rows that others hold.
	waiters = 4
	// scanners is how many claims and other scans run at once.
	scanners = 2
)

// aside has the requests that wait for other transactions' rows, each in a separate transaction. Such requests hold
// up no other request.
type aside struct {
	s     *Store
	slots chan struct{}
	scans chan struct{}

	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup
	waiting map[*request]chan struct{} // closed once the request is over
	names   map[asked]int              // how many requests wait for each name
}

func (a *aside) start(s *Store) {
	a.s, a.slots, a.scans = s, make(chan struct{}, waiters), make(chan struct{}, scanners)
	a.waiting, a.names = make(map[*request]chan struct{}), make(map[asked]int)
}

// waits reports whether another request already waits for one of the request's names. Both would meet the same lock.
func (a *aside) waits(r *request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.names) > 0 && slices.ContainsFunc(r.names(&a.s.key), func(name asked) bool { return a.names[name] > 0 })
}

// asked is an operation's or a flow's name.
type asked struct {
	flow bool
	name Digest
}

// names returns the names that the request asks for.
func (r *request) names(key *format.HashKey) (all []asked) {
	if r.flow != (journal.Ref{}) {
		all = append(all, asked{true, NameDigest(key, r.flow)})
	}
	if r.event != nil {
		var keys Keys
		r.event.keys(key, true, &keys)
		for _, name := range keys.Names {
			all = append(all, asked{false, name})
		}
	}
	return all
}

// count adds n to the number of requests that wait for each name.
func (a *aside) count(names []asked, n int) {
	for _, name := range names {
		if a.names[name] += n; a.names[name] == 0 {
			delete(a.names, name)
		}
	}
}

// take runs a request that the group can't decide. First the request waits for earlier requests for the same names
// whose callers have left. Their commits may be under way, and this request may cancel one.
func (a *aside) take(r *request) {
	over := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running.Add(1)
	names := r.names(&a.s.key)
	earlier := a.left(names)
	a.count(names, 1)
	a.waiting[r], r.lasting = over, true
	go func() {
		defer a.running.Done()
		ctx, cancel := a.s.within(r)
		defer cancel()
		for _, over := range earlier {
			<-over
		}
		err := a.s.transactAlone(ctx, r, a.slots)
		switch {
		case !r.rides:
			r.done <- err
		case err != nil:
			a.s.undelivered(r, err)
		}
		a.mu.Lock()
		delete(a.waiting, r)
		a.count(names, -1)
		a.mu.Unlock()
		close(over)
	}()
}

// left returns the end channels for requests with any of these names whose callers have left.
func (a *aside) left(names []asked) (ends []chan struct{}) {
	for r, over := range a.waiting {
		if r.left.Load() && slices.ContainsFunc(r.names(&a.s.key), func(name asked) bool { return slices.Contains(names, name) }) {
			ends = append(ends, over)
		}
	}
	return ends
}

// wait waits for the deliveries that are aside now.
func (a *aside) wait(ctx context.Context) error {
	a.mu.Lock()
	var waiting []chan struct{}
	for r, over := range a.waiting {
		if r.rides {
			waiting = append(waiting, over)
		}
	}
	a.mu.Unlock()
	for _, over := range waiting {
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// end waits for all requests.
func (a *aside) end() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.running.Wait()
}

// within returns a context that ends when the request's caller leaves or the journal is closed. A delivery has no
// caller, and goes on while Close is patient.
func (s *Store) within(r *request) (context.Context, context.CancelFunc) {
	life := s.life
	if r.rides {
		life = s.ctx
	}
	return until(r.ctx, life)
}

// until returns a context that ends with ctx, or with ErrClosed once life ends.
func until(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(journal.ErrClosed) })
	return ctx, func() { stop(); cancel(context.Canceled) }
}

// alone runs a scanning request in a separate transaction, in the caller's goroutine. Earlier deliveries are recorded
// first, unless recording fails.
func (s *Store) alone(ctx context.Context, r *request) error {
	if s.group.rides() {
		_ = s.do(ctx, &request{run: func(*batch) error { return nil }})
	}
	newRequest(ctx, r)
	if !s.aside.enter() {
		return journal.ErrClosed
	}
	defer s.aside.running.Done()
	ctx, cancel := s.within(r)
	defer cancel()
	err := s.transactAlone(ctx, r, s.aside.scans)
	if s.untold.Load() { // left by a process that has died
		s.startSweep()
	}
	return err
}

// enter reports whether the journal is still open. Then Close waits for running.Done.
func (a *aside) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.running.Add(1)
	return true
}

// transactAlone decides one request in a separate transaction, which waits for held rows until ctx ends. If the
// request's clock leaps, the sweep gets the slot first, and transactAlone then decides the request.
func (s *Store) transactAlone(ctx context.Context, r *request, slots chan struct{}) error {
	for {
		err := s.transactInSlot(ctx, r, slots)
		due, is := errors.AsType[*leapDue](err)
		if !is {
			return err
		}
		r.leaps++
		if err := s.leapSeen(ctx, due.at); err != nil {
			return err
		}
	}
}

func (s *Store) transactInSlot(ctx context.Context, r *request, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for missed := 0; ; {
		_, err := s.transact(ctx, []*request{r}, WaitLock, true)
		switch {
		case err == nil:
			return r.err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrLocked): // for as long as ctx allows
		case errors.Is(err, ErrMissed) && missed < tries:
			missed++
		default:
			return err
		}
	}
}

// transact decides requests in one transaction, commits, and reports whether there was anything to record. Each
// request has an own error in err. If transact fails, nothing was recorded, except after ErrUndecided.
func (s *Store) transact(ctx context.Context, requests []*request, lock Lock, sure bool) (landed bool, err error) {
	began, keys := time.Now(), Keys{Lock: lock}
	for _, r := range requests {
		if r.event != nil {
			r.event.keys(&s.key, sure, &keys)
		}
	}
	tx, head, found, err := s.driver.Begin(ctx, keys)
	if err != nil {
		return false, err
	}
	b := newBatch(ctx, s, tx, head, lock, sure)
	defer tx.Rollback()
	s.clock.take(&head)
	if b.leaps, err = decodeLeaps(head.Leaps); err != nil {
		return false, err
	}
	b.tossed = requests[0].leaps >= tries
	s.untold.Store(len(b.leaps.Untold) > 0)
	b.take(keys, found)
	for _, r := range requests {
		if b.broken == nil {
			r.decide(b)
		}
	}
	if b.broken != nil {
		return false, b.broken
	}
	if requests[0].lasting {
		ctx = s.ctx
	}
	landed, err = b.commit(ctx)
	if landed && s.opts.Committed != nil {
		s.opts.Committed(len(requests), time.Since(began))
	}
	return landed, err
}

// commit makes the batch durable, if it has changed anything.
func (b *batch) commit(ctx context.Context) (landed bool, err error) {
	changes := b.changes()
	for _, e := range b.order {
		if e.now != nil && e.now != e.base {
			b.clock.margin(e.now.op.Terms) // another process's clock may have replaced it since
		}
	}
	now := b.clock.kept()
	if b.undone || len(changes) == 0 && !b.keep && !isNews(now, b.head.Clock) {
		return false, nil
	}
	b.head.Clock = now
	b.head.Number++
	if err := b.tx.Commit(ctx, b.head, changes); err != nil {
		return false, err
	}
	b.clock.committed(&b.head)
	return true, nil
}
