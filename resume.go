package onceward

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
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
	// provider is not in Config.Providers, their credential is withheld and can't be
	// added here, or the last attempts at their provider have failed. They stay pending.
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
// that reached nobody to OnSettled; then it runs the flows that were cut off or are
// due, as far as Config.Flows knows their functions. Call it at start-up, before Run.
//
// Each provider has slots of its own, so that one that hangs holds up no other, and is
// passed over once its attempts fail one after another. What a process does not know
// the provider of, it leaves to those that do.
//
// What it can't finish is in the report, not in the error: the error is the
// journal's, ctx's, or ErrShutdown. After an error the report says what was done
// until then.
func (c *Client) Resume(ctx context.Context) (Report, error) {
	if err := c.enter(); err != nil {
		return Report{}, fmt.Errorf("onceward: resume: %w", err)
	}
	defer c.leave()
	p := c.newPass(&Report{})
	err := p.walk(ctx)
	if err == nil {
		err = p.passedOver(ctx)
	}
	if err == nil {
		err = p.walkFlows(ctx)
	}
	p.tell(true)
	if err != nil {
		return p.report(), fmt.Errorf("onceward: resume: %w", explained(err))
	}
	return p.report(), nil
}

const (
	pollEvery = 5 * time.Second // how often Run looks for other processes' deaths
	reapEvery = 10 * time.Minute
	reapBatch = 100
	reapFor   = time.Second // at a time: what is due meanwhile is sent before it goes on
)

// Run repeats what Resume does at the times that operations and flows become due,
// notices other processes' deaths within seconds, and reaps what is past its keep. It
// returns nil once the client is shut down, or ctx's error once ctx ends; errors
// of the journal are logged, and it goes on. What is being sent when it ends stays
// pending, for the next Run.
func (c *Client) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(ErrShutdown) })()
	total, counting := &Report{}, new(sync.Mutex)
	flows := c.newPass(total)
	flows.mu = counting
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { flows.runFlows(ctx) })
	p := c.newPass(total)
	p.mu, p.runs = counting, true
	defer p.tasks.Wait() // before their context is cancelled
	var reaped, looked time.Time
	for {
		if err := c.enter(); err != nil {
			return nil
		}
		freed := c.lanes.change()
		w, err := p.sweep(ctx)
		now := c.now()
		if err == nil && now.Sub(reaped) >= reapEvery {
			reaped = now
			var more bool
			if more, err = p.reap(ctx); more {
				reaped = time.Time{} // it goes on after the next pass
				c.wake()
			} else if err == nil {
				err = p.reapFlows(ctx)
			}
		}
		if err == nil && now.Sub(looked) >= reapEvery {
			looked = now
			err = p.passedOver(ctx)
		}
		p.tell(true)
		c.leave()
		pause := c.untilNext(ctx, p.started)
		if !w.until.IsZero() {
			pause = min(max(w.until.Sub(c.now()), 0), pause)
		}
		if !w.slot {
			freed = nil
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrShutdown) {
			c.log.Error("a pass over the journal failed; it is made again", "error", err)
			pause, freed = time.Second, nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-freed:
		case <-c.wakes:
			// Operations that are parked together become due together.
			timer.Reset(min(pause, 10*time.Millisecond))
			<-timer.C
		case <-c.closing:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			if c.isShutdown() {
				return nil
			}
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

// untilNext is how long Run has nothing to do, as far as is known, after a sweep of what
// was due by then.
func (c *Client) untilNext(ctx context.Context, swept time.Time) time.Duration {
	now, pause := c.now(), pollEvery
	if due, any := c.offers.next(); any {
		pause = min(pause, due.Sub(now))
	}
	if o := c.opening(now); !o.next.IsZero() {
		pause = min(pause, o.next.Sub(now))
	}
	for op, err := range c.journal.List(ctx, journal.Filter{ByWake: true, Limit: lookAhead}) {
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
	*Client
	began   time.Time
	started time.Time     // of the walk: what becomes due later is for the next
	slots   chan struct{} // one for each outcome or flow being worked on
	tasks   sync.WaitGroup
	runs    bool            // it is Run's
	said    map[string]bool // what has been logged of operations that are passed over
	slow    map[string]time.Time

	mu        *sync.Mutex // shared by those that count into one total
	total     *Report
	told      time.Time
	did       bool
	strangers map[int64]bool // flows that are reported as of an unknown function
}

func (c *Client) newPass(total *Report) *pass {
	now := c.now()
	return &pass{Client: c, began: now, started: now, told: now, total: total, mu: new(sync.Mutex), slots: make(chan struct{}, c.cfg.Concurrency)}
}

// walk is Resume's: it goes on until nothing is left that has a slot.
func (p *pass) walk(ctx context.Context) error {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.total.Elapsed = p.now().Sub(p.began)
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.life, func() { cancel(ErrShutdown) })()
	defer p.tasks.Wait() // before its context is cancelled
	for {
		freed := p.lanes.change()
		w, err := p.sweepFrom(ctx, p.started)
		if err != nil || w == (waiting{}) {
			return err
		}
		pause := pollEvery
		if !w.until.IsZero() {
			pause = min(max(w.until.Sub(p.now()), 0), pause)
		}
		if !w.slot {
			freed = nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-freed:
		case <-timer.C:
		case <-p.closing:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// sweep is Run's: it claims what has a slot now, and waits for nothing.
func (p *pass) sweep(ctx context.Context) (waiting, error) {
	p.started = p.now()
	return p.sweepFrom(ctx, p.started)
}

// sweepFrom starts what is due by then and has a slot now.
func (p *pass) sweepFrom(ctx context.Context, due time.Time) (waiting, error) {
	for _, o := range p.offers.take(p.now()) {
		p.settles(ctx, o)
	}
	for {
		if err := p.interrupted(ctx); err != nil {
			return waiting{}, err
		}
		session, err := p.joined(ctx)
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
	case <-p.closing:
		return ErrShutdown
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
		return nil
	}
}

// do runs a task as soon as there is a slot for it.
func (p *pass) do(task func()) {
	p.slots <- struct{}{}
	p.spawn(func() {
		defer func() { <-p.slots }()
		task()
	})
}

// spawn runs a task, which counts as work that Shutdown waits for.
func (p *pass) spawn(task func()) {
	p.stay()
	p.tasks.Go(func() {
		defer p.leave()
		defer p.survive()
		task()
	})
}

// survive keeps a panic of a hook or of Authorize, whose operation is parked by
// then, from ending the program: nobody called it who could handle it.
func (p *pass) survive() {
	if v := recover(); v != nil {
		p.log.Error("a hook panicked while an operation was sent in the background", "panic", secret.Text(fmt.Sprint(v)), "stack", string(debug.Stack()))
	}
}

// take goes on from what the journal decided of one operation. done is called once it
// needs its slot no more.
func (p *pass) take(ctx context.Context, res journal.Result, done func()) {
	op := &res.Operation
	p.count(func(r *Report) {
		if res.Decision != journal.Offer {
			r.Claimed++
		}
	})
	switch res.Decision {
	case journal.Execute:
		// Who asks for it from here on waits for this run.
		var f *flight
		if boarded, leads := p.flights.board(op.Ref); leads {
			f = boarded
		}
		p.spawn(func() {
			defer done()
			p.send(ctx, res, f)
		})
	case journal.Offer:
		p.offer(ctx, op)
	default:
		func() {
			defer p.survive()
			p.left(op, false)
		}()
		p.end(ctx, op, nil)
	}
}

// send works off one operation whose caller is gone.
func (p *pass) send(ctx context.Context, res journal.Result, f *flight) {
	r := &run{Client: p.Client, ctx: ctx, op: res.Operation, last: res.Last, unconfirmed: res.Unconfirmed, flight: f, ends: p.now().Add(p.cfg.MaxWait)}
	r.target = parsed(r.op.Request.URL)
	var problem error
	if r.target == nil {
		problem = errUnreadable
	} else if r.route = p.contract(&r.op.Request, r.target); !sameContract(&r.op, r.route) {
		problem = errContractGone
	}
	if problem != nil {
		r.park(p.now(), problem.Error(), problem)
		r.end.wake = p.now().Add(r.pause())
	}
	recorded, e := r.work()
	cause := e.err
	if e.told != nil {
		cause = errors.Join(e.told, cause)
	}
	p.end(ctx, &recorded.Operation, cause)
}

// contract is that of a frozen request.
func (c *Client) contract(req *journal.Request, u *url.URL) providers.Route {
	return c.router.Route(req.Method, u).For(providers.Message{Header: req.Header, Query: u.RawQuery, Body: known(req.Body)})
}

// end counts what became of an operation and offers it.
func (p *pass) end(ctx context.Context, op *journal.Operation, cause error) {
	p.count(func(r *Report) {
		switch op.State {
		case journal.Completed:
			r.Completed++
			return
		case journal.Unknown:
			r.Unknown++
		case journal.Cancelled:
			r.Cancelled++
		default:
			r.Parked++
		}
		p.problem(r, op, cause)
	})
	if op.State.Settled() || op.State == journal.Unknown {
		p.offer(ctx, op)
	}
}

// problem adds to the report what stands in an operation's way.
func (c *Client) problem(r *Report, op *journal.Operation, cause error) {
	if len(r.Problems) >= maxProblems {
		return
	}
	e := &Error{Operation: operationOf(op), Kind: kindOf(op.State), Err: cause}
	// What was begun with a credential that is gone is for its caller to ask for again.
	e.InBackground = op.State == journal.Pending && c.inBackground(op, &op.Request) && !errors.Is(cause, errCredentialChanged)
	if u := parsed(op.Request.URL); u != nil {
		e.target = target(op.Request.Method, u)
	}
	r.Problems = append(r.Problems, e)
}

func (p *pass) offer(ctx context.Context, op *journal.Operation) {
	if p.cfg.OnSettled == nil || op.Delivered {
		return
	}
	if isOfFlow(op.Parent) && op.State != journal.Unknown && !p.cfg.SettleAll {
		p.delivered(delivery(op)) // its flow asks for it
		return
	}
	p.offers.add(op)
	for _, o := range p.offers.take(p.now()) {
		p.settles(ctx, o)
	}
}

// settles has an outcome settled once there is a slot for it.
func (p *pass) settles(ctx context.Context, o *offer) {
	p.spawn(func() {
		p.slots <- struct{}{}
		defer func() { <-p.slots }()
		p.settleOne(ctx, o)
	})
}

func (p *pass) settleOne(ctx context.Context, o *offer) {
	err := p.settle(withoutNaming(ctx), o)
	p.count(func(r *Report) {
		if err == nil {
			r.Settled++
		} else {
			r.Unsettled++
		}
	})
}

// reap goes by small batches, so that it delays nobody's commit for long. It tells
// whether it stopped because there is more than it takes on at a time.
func (p *pass) reap(ctx context.Context) (more bool, err error) {
	for until := p.now().Add(reapFor); ; {
		if err := p.interrupted(ctx); err != nil {
			return false, nil
		}
		n, err := p.journal.Reap(ctx, journal.Event{Kind: journal.EventReap, At: p.now(), Keep: p.cfg.Keep}, reapBatch)
		if err != nil {
			return false, err
		}
		if n > 0 {
			p.count(func(r *Report) { r.Reaped += n })
		}
		if n < reapBatch {
			return false, nil
		}
		if p.now().After(until) {
			return true, nil
		}
	}
}

func (p *pass) count(add func(*Report)) {
	p.mu.Lock()
	add(p.total)
	p.did = true
	p.mu.Unlock()
	p.tell(false)
}

func (p *pass) report() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.total
}

// tell reports progress: at most once a second, and at the end of a pass that did
// something.
func (p *pass) tell(end bool) {
	if p.trace.Progress == nil {
		return
	}
	p.mu.Lock()
	now := p.now()
	if !p.did || !end && now.Sub(p.told) < time.Second {
		p.mu.Unlock()
		return
	}
	p.told = now
	report := *p.total
	report.Elapsed = now.Sub(p.began)
	p.mu.Unlock()
	defer p.survive()
	p.trace.Progress(report)
}
