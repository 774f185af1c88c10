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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	total, counting := &Report{}, new(sync.Mutex)
	flows := c.newPass(total)
	flows.mu = counting
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { flows.runFlows(ctx) })
	var reaped time.Time
	for {
		if err := c.enter(); err != nil {
			return nil
		}
		p := c.newPass(total)
		p.mu = counting
		err := p.walk(ctx)
		if now := c.now(); err == nil && now.Sub(reaped) >= reapEvery {
			reaped = now
			var more bool
			if more, err = p.reap(ctx); more {
				reaped = time.Time{} // it goes on after the next pass
				c.wake()
			} else if err == nil {
				err = p.reapFlows(ctx)
			}
		}
		p.tell(true)
		c.leave()
		pause := c.untilNext(ctx)
		if err != nil && ctx.Err() == nil {
			c.log.Error("a pass over the journal failed; it is made again", "error", err)
			pause = time.Second
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-c.wakes:
			// Operations that are parked together become due together.
			timer.Reset(min(pause, 10*time.Millisecond))
			<-timer.C
		case <-c.closing:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

// untilNext is how long Run has nothing to do, as far as is known.
func (c *Client) untilNext(ctx context.Context) time.Duration {
	now, pause := c.now(), pollEvery
	if due, any := c.offers.next(); any {
		pause = min(pause, due.Sub(now))
	}
	for op, err := range c.journal.List(ctx, journal.Filter{ByWake: true, Limit: 1}) {
		if err == nil {
			pause = min(pause, op.WakeAt.Sub(now))
		}
	}
	return max(pause, 0)
}

// pass is one walk over what the journal has to do.
type pass struct {
	*Client
	started time.Time
	slots   chan struct{} // one for each operation or outcome being worked on
	tasks   sync.WaitGroup

	mu        *sync.Mutex // shared by those that count into one total
	total     *Report
	told      time.Time
	did       bool
	strangers map[int64]bool // flows that are reported as of an unknown function
}

func (c *Client) newPass(total *Report) *pass {
	now := c.now()
	return &pass{Client: c, started: now, told: now, total: total, mu: new(sync.Mutex), slots: make(chan struct{}, c.cfg.Concurrency)}
}

func (p *pass) walk(ctx context.Context) error {
	defer func(before time.Duration) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.total.Elapsed = before + p.now().Sub(p.started)
	}(p.total.Elapsed)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.life, func() { cancel(ErrShutdown) })()
	defer p.tasks.Wait() // before its context is cancelled
	for _, o := range p.offers.take(p.started) {
		p.do(func() { p.settleOne(ctx, o) })
	}
	if err := p.interrupted(ctx); err != nil {
		return err
	}
	session, err := p.joined(ctx)
	if err != nil {
		return err
	}
	for {
		if err := p.interrupted(ctx); err != nil {
			return err
		}
		ev := journal.Event{
			Kind:      journal.EventClaim,
			At:        p.now(),
			Due:       p.started,
			Session:   session.ID(),
			NamedOnly: p.cfg.NamedOnly,
			Delivered: p.cfg.OnSettled == nil,
		}
		// Not under ctx: what is claimed must not be forgotten.
		claimed, err := p.journal.Claim(context.WithoutCancel(ctx), ev, p.cfg.Concurrency)
		if err != nil {
			return err
		}
		for _, res := range claimed {
			p.take(ctx, res)
		}
		if len(claimed) < p.cfg.Concurrency {
			return nil
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
	p.tasks.Go(func() {
		defer func() { <-p.slots }()
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

// take goes on from what the journal decided of one operation.
func (p *pass) take(ctx context.Context, res journal.Result) {
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
		p.do(func() { p.send(ctx, res, f) })
	case journal.Offer:
		p.offer(ctx, op)
	default:
		p.left(op, false)
		p.end(ctx, op, nil)
	}
}

// send works off one operation whose caller is gone.
func (p *pass) send(ctx context.Context, res journal.Result, f *flight) {
	r := &run{Client: p.Client, ctx: ctx, op: res.Operation, last: res.Last, unconfirmed: res.Unconfirmed, flight: f, ends: p.now().Add(p.cfg.MaxWait)}
	r.target = parsed(r.op.Request.URL)
	var problem error
	if r.target == nil {
		problem = errors.New("its recorded URL can't be read")
	} else if r.route = p.contract(&r.op.Request, r.target); !r.sameContract() {
		problem = errors.New("no provider of this name serves its URL any more: add it to Config.Providers")
	}
	if problem != nil {
		r.park(p.now().Add(r.pause()), problem.Error(), problem)
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

// sameContract tells whether the operation is still under the contract that it was
// begun under, so that its credentials go nowhere else.
func (r *run) sameContract() bool {
	if r.op.Provider == "" {
		return !r.route.Listed
	}
	return r.route.Listed && r.route.Provider.Name == r.op.Provider
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
		if len(r.Problems) < maxProblems {
			e := &Error{Operation: operationOf(op), Kind: kindOf(op.State), Err: cause}
			e.InBackground = op.State == journal.Pending && p.inBackground(op, &op.Request)
			if u := parsed(op.Request.URL); u != nil {
				e.target = target(op.Request.Method, u)
			}
			r.Problems = append(r.Problems, e)
		}
	})
	if op.State.Settled() || op.State == journal.Unknown {
		p.offer(ctx, op)
	}
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
		p.tasks.Go(func() {
			p.slots <- struct{}{}
			defer func() { <-p.slots }()
			p.settleOne(ctx, o)
		})
	}
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
	report.Elapsed = now.Sub(p.started)
	p.mu.Unlock()
	p.trace.Progress(report)
}
