package onceward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// Report is what one pass of Resume, or the passes of Run so far, did.
type Report struct {
	Claimed   int // operations that were taken over or whose time had come
	Completed int // of these, those that have their answer now
	Parked    int // … that are pending, due later
	Unknown   int // … that may have taken effect, and resending can't tell
	Cancelled int // … that provably had no effect
	Settled   int // outcomes that OnSettled took
	Unsettled int // outcomes that OnSettled failed on; it gets them again
	Reaped    int // operations past their keep that were shrunk or removed

	// PassedOver are operations that are due and were not claimed by Resume: their
	// provider is not in Config.Providers, or was not when they were begun, their credential
	// is withheld and can't be added here, or is another by now, they have no name and
	// NamedOnly is set, the last attempts at their provider have failed, or it may still be
	// working on what another process has sent. They stay pending.
	PassedOver int

	// Problems are what stands in the way of operations that have no answer, the
	// first hundred of them: errors.Is finds ErrCredentialMissing,
	// ErrOutcomeUnknown, ErrPending and ErrKeyReused.
	Problems []*Error

	Flows FlowReport

	Elapsed time.Duration
}

const maxProblems = 100

func (r Report) String() string {
	return fmt.Sprintf("claimed %d: completed %d, parked %d, unknown %d, cancelled %d; settled %d, unsettled %d; reaped %d%v; in %v",
		r.Claimed, r.Completed, r.Parked, r.Unknown, r.Cancelled, r.Settled, r.Unsettled, r.Reaped, r.Flows, r.Elapsed.Round(time.Millisecond))
}

// Resume makes one pass over the journal: it takes over what dead processes held,
// sends what is due and the resend rule allows, oldest first, and offers outcomes
// that reached nobody to OnSettled; then it looks once for what is unknown and due for that
// (Config.Reconcile); then it runs the flows that were cut off or are
// due, where a flow.Runner knows their functions. It is for a program that ends by itself, such as a
// job, and wants the report. Any other starts Run instead, whose first pass is the same.
//
// Each provider has slots of its own, so that one that hangs holds up no other, and is
// passed over once its attempts fail one after another. What a process does not know
// the provider of, it leaves to those that do.
//
// What it can't finish is in the report, not in the error: the error is the
// journal's, ctx's, or ErrShutdown. After an error the report says what was done
// until then.
func (c *Client) Resume(ctx context.Context) (Report, error) {
	if err := c.core.Lifecycle.Enter(); err != nil {
		return Report{}, fmt.Errorf("onceward: resume: %w", err)
	}
	defer c.core.Lifecycle.Leave()
	p := c.newPass(&Report{}, new(sync.Mutex))
	err := p.walk(ctx)
	if err == nil {
		err = p.passedOver(ctx)
	}
	if err == nil && c.cfg.Reconcile != nil {
		err = p.startLooks(ctx)
		p.tasks.Wait()
		if err == nil {
			err = p.walk(ctx) // what was found out is offered
		}
	}
	if err == nil {
		err = p.resumeFlows(ctx)
	}
	p.reportProgress(true)
	if err != nil {
		return p.report(), fmt.Errorf("onceward: resume: %w", err)
	}
	return p.report(), nil
}

const (
	reapEvery = 10 * time.Minute
	reapBatch = 100
	reapFor   = time.Second // at a time: what is due meanwhile is sent before it goes on
)

// Run repeats what Resume does at the times that operations and flows become due,
// looks for what is unknown when it is due for that (Config.Reconcile), notices other
// processes' deaths within seconds, and reaps what is past its keep. It
// returns nil once the client is shut down, ctx's error once ctx ends, or
// ErrJournalClosed; other errors of the journal are logged, and it goes on. What is
// being sent when it ends stays pending, for the next Run.
func (c *Client) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.core.Lifecycle.Life(), func() { cancel(ErrShutdown) })()
	total, counting := &Report{}, new(sync.Mutex)
	flows := c.newPass(total, counting)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { flows.runFlows(ctx) })
	looks := c.newPass(total, counting)
	running.Go(func() {
		defer looks.tasks.Wait()
		looks.runLooks(ctx)
	})
	p := c.newPass(total, counting)
	p.runs = true
	defer p.tasks.Wait()         // before their context is cancelled
	var reaps, reports time.Time // when it does next
	for {
		if err := c.core.Lifecycle.Enter(); err != nil {
			return nil
		}
		freed := c.core.Throttle.Freed()
		w, err := p.sweep(ctx)
		now := c.core.Now()
		if err == nil && !now.Before(reaps) {
			reaps = now.Add(reapEvery)
			var more bool
			if more, err = p.reap(ctx); more {
				reaps = now // it goes on after the next pass
				c.core.Wake()
			}
		}
		if err == nil && !now.Before(reports) {
			reports = now.Add(reapEvery)
			err = p.passedOver(ctx)
		}
		p.reportProgress(true)
		c.core.Lifecycle.Leave()
		pause := c.untilNext(ctx, p.started)
		if !w.until.IsZero() {
			pause = min(max(w.until.Sub(c.core.Now()), 0), pause)
		}
		if !w.slot {
			freed = nil
		}
		if errors.Is(err, journal.ErrClosed) && !c.core.Lifecycle.IsShutdown() {
			p.tasks.Wait()
			cancel(err)
			return fmt.Errorf("onceward: run: %w", err)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrShutdown) {
			c.core.PassFailed(ctx, "a pass over the journal failed; it is made again", err)
			pause, freed = time.Second, nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-freed:
		case <-c.core.Wakes:
			// Operations that are parked together become due together.
			timer.Reset(min(pause, 10*time.Millisecond))
			<-timer.C
		case <-c.core.Lifecycle.Closing():
			return nil
		case <-ctx.Done():
			if c.core.Lifecycle.IsShutdown() {
				return nil
			}
			return context.Cause(ctx)
		}
	}
}

// untilNext is how long Run has nothing to do, as far as is known, after a sweep of what
// was due by then.
func (c *Client) untilNext(ctx context.Context, swept time.Time) time.Duration {
	now, pause := c.core.Now(), c.pollEvery(ctx)
	if due, any := c.deliveries.Next(); any {
		pause = min(pause, due.Sub(now))
	}
	if o := c.core.Throttle.Openings(now); !o.Next.IsZero() {
		pause = min(pause, o.Next.Sub(now))
	}
	for op, err := range c.core.Journal.List(ctx, journal.Filter{ByWake: true, Limit: lookAhead}) {
		if err == nil && op.WakeAt.After(swept) { // else it was passed over
			pause = min(pause, op.WakeAt.Sub(now))
			break
		}
	}
	return max(pause, 0)
}

// lookAhead is how many operations Run looks through for the next one that becomes due.
// Those that were passed over stand before it.
const lookAhead = 100

// pass is one walk over what the journal has to do, or Run's many.
type pass struct {
	client  *Client
	began   time.Time
	started time.Time     // of the walk: what becomes due later is for the next
	slots   chan struct{} // one for each outcome being settled
	tasks   sync.WaitGroup
	runs    bool            // it is Run's
	said    map[string]bool // what has been logged of operations that are passed over
	slow    map[string]time.Time
	apart   time.Time // until when hosts that no provider serves are asked for apart

	mu       *sync.Mutex // shared by those that count into one total
	total    *Report
	reported time.Time
	did      bool
}

func (c *Client) newPass(total *Report, counting *sync.Mutex) *pass {
	now := c.core.Now()
	return &pass{client: c, began: now, started: now, reported: now, total: total, mu: counting, slots: make(chan struct{}, c.core.Concurrency)}
}

// walk is Resume's: it goes on until nothing is left that has a slot.
func (p *pass) walk(ctx context.Context) error {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.total.Elapsed = p.client.core.Now().Sub(p.began)
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.client.core.Lifecycle.Life(), func() { cancel(ErrShutdown) })()
	defer p.tasks.Wait() // before its context is cancelled
	for {
		freed := p.client.core.Throttle.Freed()
		w, err := p.sweepFrom(ctx, p.started)
		if err != nil || w == (waiting{}) {
			return err
		}
		pause := seam.PollEvery
		if !w.until.IsZero() {
			pause = min(max(w.until.Sub(p.client.core.Now()), 0), pause)
		}
		if !w.slot {
			freed = nil
		}
		select {
		case <-freed:
		case <-time.After(pause):
		case <-p.client.core.Lifecycle.Closing():
		case <-ctx.Done():
		}
	}
}

// sweep is Run's: it claims what has a slot now, and waits for nothing.
func (p *pass) sweep(ctx context.Context) (waiting, error) {
	p.started = p.client.core.Now()
	return p.sweepFrom(ctx, p.started)
}

// sweepFrom starts what is due by then and has a slot now.
func (p *pass) sweepFrom(ctx context.Context, due time.Time) (waiting, error) {
	p.startDeliveries(ctx)
	for {
		if err := p.interrupted(ctx); err != nil {
			return waiting{}, err
		}
		session, err := p.client.core.Session.Joined(ctx)
		if err != nil {
			return waiting{}, err
		}
		if more, w, err := p.claim(ctx, session, due); err != nil || !more {
			return w, err
		}
	}
}

func (p *pass) interrupted(ctx context.Context) error {
	select {
	case <-p.client.core.Lifecycle.Closing():
		return ErrShutdown
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
		return nil
	}
}

// spawn runs a task, which counts as work that Shutdown waits for.
func (p *pass) spawn(task func()) {
	p.client.core.Lifecycle.Stay()
	p.tasks.Go(func() {
		defer p.client.core.Lifecycle.Leave()
		defer p.survive()
		task()
	})
}

// survive keeps a panic of a hook or of Authorize, whose operation is parked by
// then, from ending the program: nobody called it who could handle it.
func (p *pass) survive() { p.client.core.Survived(recover()) }

// take goes on from what the journal decided of one operation, which gives back its permit.
func (p *pass) take(ctx context.Context, res journal.Result, permit *throttle.Permit) {
	op := &res.Operation
	p.count(func(r *Report) {
		if res.Decision != journal.Offer {
			r.Claimed++
		}
	})
	switch res.Decision {
	case journal.Execute:
		if op.Enqueued {
			p.client.enqueuing.Store(true)
		}
		// Who asks for it from here on waits for this run.
		var f *core.Flight
		if joined, leader := p.client.core.Singleflight.Join(op.Ref); leader {
			f = joined
		}
		p.spawn(func() {
			defer permit.Free()
			now, cause := p.client.engine.Resume(ctx, res, f, permit)
			p.end(ctx, &now, cause)
		})
	case journal.Offer:
		p.offer(ctx, op)
	default:
		p.client.core.Idle.See(op)
		func() {
			defer p.survive()
			p.client.core.Ended(ctx, op, nil, false)
		}()
		p.end(ctx, op, nil)
	}
}

// end counts what became of an operation and offers it.
func (p *pass) end(ctx context.Context, op *journal.Operation, cause error) {
	p.count(func(r *Report) {
		switch op.State {
		case journal.StateCompleted:
			r.Completed++
			return
		case journal.StateUnknown:
			r.Unknown++
		case journal.StateCancelled:
			r.Cancelled++
		default:
			r.Parked++
		}
		f := engine.FailureOf(p.client.core, op, cause)
		if errors.Is(cause, wire.ErrCredentialChanged) || errors.Is(cause, wire.ErrModeChanged) {
			f.InBackground = false // its credential is gone: its caller has to ask again
		}
		r.problem(f)
	})
	if op.State.Settled() {
		p.client.core.WakeFlowOf(ctx, op.Ref) // it may have been told of another time, as by a clock that was ahead
	}
	if op.State.Settled() || op.State == journal.StateUnknown && !p.client.finder.StillLooks(op) {
		p.offer(ctx, op)
	}
}

// problem adds to the report what stands in an operation's way.
func (r *Report) problem(f *engine.Failure) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, errorOf(f))
	}
}

// offer delivers an outcome that no caller is known to have.
func (p *pass) offer(ctx context.Context, op *journal.Operation) {
	if p.client.deliveries.Offer(ctx, op) {
		p.startDeliveries(ctx)
	}
}

// startDeliveries has each outcome that is due delivered once there is a slot for it.
func (p *pass) startDeliveries(ctx context.Context) {
	for _, o := range p.client.deliveries.Take() {
		p.spawn(func() {
			p.slots <- struct{}{}
			defer func() { <-p.slots }()
			notifies, err := p.client.deliveries.Make(naming.Without(ctx), o)
			if !notifies {
				return
			}
			p.count(func(r *Report) {
				if err == nil {
					r.Settled++
				} else {
					r.Unsettled++
				}
			})
		})
	}
}

// reap reaps operations, and then flows. It reports whether it stopped because there is
// more than it takes on at a time.
func (p *pass) reap(ctx context.Context) (more bool, err error) {
	until := p.client.core.Now().Add(reapFor)
	more, err = p.reapBy(ctx, until, func() (int, error) {
		return p.client.core.Journal.Reap(ctx, journal.Event{Kind: journal.EventReap, At: p.client.core.Now(), Keep: p.client.core.Keep}, reapBatch)
	})
	if store, ok := p.client.core.Journal.(journal.Flows); ok && !more { // whatever came of operations: it may be one of them
		var flows error
		more, flows = p.reapBy(ctx, until, func() (int, error) {
			return store.ReapFlows(ctx, journal.FlowEvent{Kind: journal.FlowEventReap, At: p.client.core.Now(), Keep: p.client.core.Keep}, reapBatch)
		})
		err = cmp.Or(err, flows)
	}
	return more, err
}

// reapBy goes by small batches, so that it delays nobody's commit for long.
func (p *pass) reapBy(ctx context.Context, until time.Time, reap func() (int, error)) (more bool, err error) {
	for {
		if p.interrupted(ctx) != nil {
			return more, nil
		}
		n, err := reap()
		if n != 0 {
			p.count(func(r *Report) { r.Reaped += n })
			p.client.core.Reaped(ctx, n)
		}
		if err != nil {
			return more, err
		}
		if n != reapBatch {
			return more, nil
		}
		if p.client.core.Now().After(until) {
			return true, nil
		}
	}
}

func (p *pass) count(add func(*Report)) {
	p.mu.Lock()
	add(p.total)
	p.did = true
	p.mu.Unlock()
	p.reportProgress(false)
}

func (p *pass) report() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.total
}

// reportProgress reports progress: at most once a second, and at the end of a pass that did
// something.
func (p *pass) reportProgress(end bool) {
	if p.client.trace.Progress == nil {
		return
	}
	p.mu.Lock()
	now := p.client.core.Now()
	if !p.did || !end && now.Sub(p.reported) < time.Second {
		p.mu.Unlock()
		return
	}
	p.reported = now
	report := *p.total
	report.Elapsed = now.Sub(p.began)
	p.mu.Unlock()
	defer p.survive()
	p.client.trace.Progress(report)
}
