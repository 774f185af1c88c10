package background

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/delivery"
	"github.com/onceward/onceward/internal/engine"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// Worker does a client's work without a caller. It may be used concurrently.
type Worker struct {
	*core.Core
	engine     *engine.Engine
	finder     *reconcile.Finder
	deliveries *delivery.Deliveries
	progress   func(Counts) // nil: it is not reported

	Feeds []Feed // that Run reads

	enqueuing atomic.Bool // operations come from transactions
}

// New returns a client's worker. progress gets what a pass has done so far; nil: nothing does.
func New(c *core.Core, e *engine.Engine, f *reconcile.Finder, d *delivery.Deliveries, progress func(Counts)) *Worker {
	return &Worker{Core: c, engine: e, finder: f, deliveries: d, progress: progress}
}

// ExpectEnqueued makes Run look more often for operations that transactions have enqueued. The commit of an
// application's transaction notifies no client.
func (w *Worker) ExpectEnqueued() { w.enqueuing.Store(true) }

// pollEvery returns the interval at which Run looks for operations that other processes have left.
func (w *Worker) pollEvery(ctx context.Context) time.Duration {
	if w.enqueuing.Load() {
		return seam.PollUnder(ctx) / 5
	}
	return seam.PollUnder(ctx)
}

// Resume makes one pass. After an error the counts are those until then.
func (w *Worker) Resume(ctx context.Context) (Counts, error) {
	if err := w.Lifecycle.Enter(); err != nil {
		return Counts{}, err
	}
	defer w.Lifecycle.Leave()
	p := w.newPass(&Counts{}, new(sync.Mutex))
	err := p.awaitExpired(ctx)
	if err == nil {
		err = p.walk(ctx)
	}
	if err == nil {
		err = p.reportUnclaimed(ctx)
	}
	if err == nil && w.finder.Enabled() {
		err = p.passOver(p.startLookups(ctx))
		p.tasks.Wait()
		if err == nil {
			err = p.walk(ctx) // the outcomes that were found are offered
		}
	}
	if err == nil {
		err = p.passOver(p.resumeFlows(ctx))
	}
	if err == nil {
		w.deliveries.EndFlowsTurn()
		p.startDeliveries(ctx)
		p.tasks.Wait()
	}
	p.reportProgress(true)
	return p.counts(), p.over(err)
}

const (
	reapEvery = 10 * time.Minute
	reapBatch = 100
	reapFor   = time.Second // at a time: operations that are due meanwhile are sent before it goes on
)

// Run makes passes until the client is shut down, ctx ends, or the journal is closed. It returns nil after a shutdown.
func (w *Worker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.Lifecycle.Life(), func() { cancel(fault.ErrShutdown) })()
	total, counting := &Counts{}, new(sync.Mutex)
	flows := w.newPass(total, counting)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { flows.runFlows(ctx) })
	lookups := w.newPass(total, counting)
	running.Go(func() {
		defer lookups.tasks.Wait()
		lookups.runLookups(ctx)
	})
	running.Go(func() { w.runFeeds(ctx) })
	p := w.newPass(total, counting)
	p.runs = true
	defer p.tasks.Wait()         // before their context is cancelled
	var reaps, reports time.Time // when it does next
	for {
		if err := w.Lifecycle.Enter(); err != nil {
			return nil
		}
		freed := w.Throttle.Freed()
		p.started = w.Now()
		waits, err := p.sweep(ctx)
		now := w.Now()
		if err == nil && !now.Before(reaps) {
			reaps = now.Add(reapEvery)
			var more bool
			if more, err = p.reap(ctx); more {
				reaps = now // it goes on after the next pass
				w.Wake()
			}
		}
		if err == nil && !now.Before(reports) {
			reports = now.Add(reapEvery)
			err = p.reportUnclaimed(ctx)
		}
		err = p.over(err)
		p.reportProgress(true)
		w.Lifecycle.Leave()
		pause := w.untilNext(ctx, p.started)
		if !waits.until.IsZero() {
			pause = min(max(waits.until.Sub(w.Now()), 0), pause)
		}
		if !waits.slot {
			freed = nil
		}
		if errors.Is(err, journal.ErrClosed) && !w.Lifecycle.IsShutdown() {
			p.tasks.Wait()
			cancel(err)
			return err
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, fault.ErrShutdown) {
			w.PassFailed(ctx, "a pass over the journal failed; the next pass tries again", err)
			pause, freed = time.Second, nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-freed:
		case <-w.Wakes:
			// Operations that are parked together become due together.
			timer.Reset(min(pause, 10*time.Millisecond))
			<-timer.C
		case <-w.Lifecycle.Closing():
			return nil
		case <-ctx.Done():
			if w.Lifecycle.IsShutdown() {
				return nil
			}
			return context.Cause(ctx)
		}
	}
}

// untilNext returns how long Run has nothing to do, as far as is known, after a sweep over the operations that were due
// at swept.
func (w *Worker) untilNext(ctx context.Context, swept time.Time) time.Duration {
	now, pause := w.Now(), w.pollEvery(ctx)
	if due, any := w.deliveries.Next(); any {
		pause = min(pause, due.Sub(now))
	}
	if o := w.Throttle.Openings(now); !o.Next.IsZero() {
		pause = min(pause, o.Next.Sub(now))
	}
	for op, err := range w.Journal.List(ctx, journal.Filter{ByWake: true, WakeAfter: swept, Limit: 1}) { // earlier ones were passed over
		if err == nil {
			pause = min(pause, op.WakeAt.Sub(now))
		}
	}
	return max(pause, 0)
}

// pass is one walk over what the journal has to do, or Run's many.
type pass struct {
	worker  *Worker
	began   time.Time
	started time.Time     // of the walk: what becomes due later is for the next
	slots   chan struct{} // one for each outcome being settled
	tasks   sync.WaitGroup
	runs    bool            // it is Run's
	said    map[string]bool // messages that were logged about operations that are passed over
	slow    map[string]time.Time
	sealed  error     // why operations were passed over: a key is missing
	apart   time.Time // until when hosts that no provider serves are asked for apart

	mu       *sync.Mutex // shared by those that count into one total
	total    *Counts
	reported time.Time
	did      bool
}

func (w *Worker) newPass(total *Counts, counting *sync.Mutex) *pass {
	now := w.Now()
	return &pass{worker: w, began: now, started: now, reported: now, total: total, mu: counting, slots: make(chan struct{}, w.Concurrency)}
}

// awaitExpired waits until the processes that have died are known as dead. Without this wait, a process that ends soon
// would never find another one dead.
func (p *pass) awaitExpired(ctx context.Context) error {
	leases, are := p.worker.Journal.(machine.Expirer)
	if !are {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.worker.Lifecycle.Closing():
			cancel(fault.ErrShutdown)
		case <-ctx.Done():
		}
	}()
	if err := leases.AwaitExpired(ctx); err != nil {
		return err
	}
	p.started = p.worker.Now()
	return nil
}

// walk does Resume's work, until no operation with a slot is left.
func (p *pass) walk(ctx context.Context) error {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.total.Elapsed = p.worker.Now().Sub(p.began)
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.worker.Lifecycle.Life(), func() { cancel(fault.ErrShutdown) })()
	defer p.tasks.Wait() // before its context is cancelled
	for {
		freed := p.worker.Throttle.Freed()
		w, err := p.sweep(ctx)
		if err != nil || w == (waiting{}) {
			return err
		}
		pause := seam.PollEvery
		if !w.until.IsZero() {
			pause = min(max(w.until.Sub(p.worker.Now()), 0), pause)
		}
		if !w.slot {
			freed = nil
		}
		select {
		case <-freed:
		case <-time.After(pause):
		case <-p.worker.Lifecycle.Closing():
		case <-ctx.Done():
		}
	}
}

// sweep starts what was due when the walk started and has a slot now. It waits for no slot.
func (p *pass) sweep(ctx context.Context) (waiting, error) {
	p.startDeliveries(ctx)
	for {
		if err := p.interrupted(ctx); err != nil {
			return waiting{}, err
		}
		session, err := p.worker.Session.Joined(ctx)
		if err != nil {
			return waiting{}, err
		}
		if more, w, err := p.claim(ctx, session); err != nil || !more {
			return w, err
		}
	}
}

func (p *pass) interrupted(ctx context.Context) error {
	select {
	case <-p.worker.Lifecycle.Closing():
		return fault.ErrShutdown
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
		return nil
	}
}

// spawn runs a task, which counts as work that Shutdown waits for.
func (p *pass) spawn(task func()) {
	p.worker.Lifecycle.Stay()
	p.tasks.Go(func() {
		defer p.worker.Lifecycle.Leave()
		defer p.survive()
		task()
	})
}

// survive keeps a panic in a hook or in Authorize from ending the program, since no caller could handle it. The
// operation is parked by then.
func (p *pass) survive() { p.worker.Survived(recover()) }

// workOff acts on the journal's decision about one operation. The run of the operation gives back the permit.
func (p *pass) workOff(ctx context.Context, res machine.Result, permit *throttle.Permit) {
	op := &res.Operation
	if op.State == journal.StateUnknown && res.Decision == machine.Recorded {
		return // the look-up of a dead session has ended, and is due again
	}
	p.count(func(c *Counts) {
		if res.Decision != machine.Offer {
			c.Claimed++
		}
	})
	switch res.Decision {
	case machine.Execute:
		if op.Enqueued {
			p.worker.ExpectEnqueued()
		}
		// Callers that ask from here on wait for the run.
		var f *core.Flight
		if joined, leader := p.worker.Singleflight.Join(op.Ref, nil); leader {
			f = joined
		}
		p.spawn(func() {
			defer permit.Free()
			now, cause := p.worker.engine.Resume(ctx, res, f, permit)
			p.end(ctx, &now, cause)
		})
	case machine.Offer:
		p.offer(ctx, op)
	default:
		p.worker.Idle.See(op)
		func() {
			defer p.survive()
			p.worker.Ended(ctx, op, nil, false)
		}()
		p.end(ctx, op, nil)
	}
}

// end counts what an operation came to and offers the outcome.
func (p *pass) end(ctx context.Context, op *journal.Operation, cause error) {
	p.count(func(c *Counts) {
		switch op.State {
		case journal.StateCompleted:
			c.Completed++
			return
		case journal.StateUnknown:
			c.Unknown++
		case journal.StateCancelled:
			c.Cancelled++
		default:
			c.Parked++
		}
		f := exchange.FailureOf(p.worker.Core, op, cause)
		if errors.Is(cause, wire.ErrCredentialChanged) || errors.Is(cause, wire.ErrModeChanged) {
			f.InBackground = false // its credential is gone: its caller has to ask again
		}
		c.problem(f)
	})
	if op.State.Settled() {
		p.worker.WakeFlowOf(ctx, op.Ref) // it may have been told of another time, as by a clock that was ahead
	}
	if op.State.Settled() || op.State == journal.StateUnknown && !p.worker.finder.StillLooks(op) {
		p.offer(ctx, op)
	}
}

// offer delivers an outcome that no caller is known to have.
func (p *pass) offer(ctx context.Context, op *journal.Operation) {
	if p.worker.deliveries.Offer(ctx, op) {
		p.startDeliveries(ctx)
	}
}

// startDeliveries delivers each due outcome once there is a slot for it.
func (p *pass) startDeliveries(ctx context.Context) {
	for _, o := range p.worker.deliveries.Take() {
		p.spawn(func() {
			p.slots <- struct{}{}
			defer func() { <-p.slots }()
			notifies, err := p.worker.deliveries.Make(naming.Without(ctx), o)
			if !notifies {
				return
			}
			p.count(func(c *Counts) {
				if err == nil {
					c.Settled++
				} else {
					c.Unsettled++
				}
			})
		})
	}
}

// reap reaps operations, and then flows. It reports whether it stopped at a limit and more are left.
func (p *pass) reap(ctx context.Context) (more bool, err error) {
	until := p.worker.Now().Add(reapFor)
	more, err = p.reapBy(ctx, until, func() (int, error) {
		return p.worker.Journal.Reap(ctx, machine.Event{Kind: machine.EventReap, At: p.worker.Now(), Keep: p.worker.Keep}, reapBatch)
	})
	if store, ok := p.worker.Journal.(machine.Flows); ok && !more { // whatever came of operations: it may be one of them
		var flows error
		more, flows = p.reapBy(ctx, until, func() (int, error) {
			return store.ReapFlows(ctx, machine.FlowEvent{Kind: machine.FlowEventReap, At: p.worker.Now(), Keep: p.worker.Keep}, reapBatch)
		})
		err = cmp.Or(err, flows)
	}
	return more, err
}

// reapBy reaps in small batches, so that no commit waits long.
func (p *pass) reapBy(ctx context.Context, until time.Time, reap func() (int, error)) (more bool, err error) {
	for {
		if p.interrupted(ctx) != nil {
			return more, nil
		}
		n, err := reap()
		if n != 0 {
			p.count(func(c *Counts) { c.Reaped += n })
			p.worker.Reaped(ctx, n)
		}
		if err != nil {
			return more, err
		}
		if n != reapBatch {
			return more, nil
		}
		if p.worker.Now().After(until) {
			return true, nil
		}
	}
}

func (p *pass) count(add func(*Counts)) {
	p.mu.Lock()
	add(p.total)
	p.did = true
	p.mu.Unlock()
	p.reportProgress(false)
}

func (p *pass) counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.total
}

// reportProgress reports progress: at most once a second, and at the end of a pass that did
// something.
func (p *pass) reportProgress(end bool) {
	if p.worker.progress == nil {
		return
	}
	p.mu.Lock()
	now := p.worker.Now()
	if !p.did || !end && now.Sub(p.reported) < time.Second {
		p.mu.Unlock()
		return
	}
	p.reported = now
	counts := *p.total
	counts.Elapsed = now.Sub(p.began)
	p.mu.Unlock()
	defer p.survive()
	p.worker.progress(counts)
}
