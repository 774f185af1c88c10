package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// background makes the client's Resume and Run work on a Runner's flows.
type background struct{ runner *Runner }

// Wake says: a flow may be due sooner than was known.
func (b *background) Wake() { b.runner.wake() }

// Resume takes over dead processes' flows, and runs the due flows, oldest first.
func (b *background) Resume(ctx context.Context, count seam.Count) error {
	p := b.newPass(count)
	began := p.core.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer p.tasks.Wait()
	p.retryChanged(ctx)
	for {
		if err := p.interrupted(ctx); err != nil {
			return err
		}
		// A flow that is parked meanwhile is for the next pass.
		claimed, err := p.claim(ctx, began, cap(p.slots))
		if err != nil {
			return err
		}
		for _, f := range claimed {
			p.slots <- struct{}{}
			p.core.Lifecycle.Stay()
			p.start(ctx, f)
		}
		if len(claimed) < cap(p.slots) {
			return nil
		}
	}
}

// minPause keeps Run from spinning over flows which another process is about to claim.
const minPause = 20 * time.Millisecond

// Run claims as many flows as there are free slots, so a long flow delays no other.
func (b *background) Run(ctx context.Context, count seam.Count) {
	p := b.newPass(count)
	defer p.tasks.Wait()
	for {
		claimed, err := p.claimSome(ctx)
		if errors.Is(err, onceward.ErrShutdown) {
			return
		}
		if err != nil && ctx.Err() == nil {
			p.failed(ctx, err)
		}
		for _, f := range claimed {
			p.slots <- struct{}{}
			p.start(ctx, f)
		}
		pause := time.Second
		if err == nil {
			pause = p.untilNext(ctx)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-p.runner.wakes:
		case <-p.core.Lifecycle.Closing():
		case <-ctx.Done():
		}
		timer.Stop()
		if p.interrupted(ctx) != nil {
			return
		}
	}
}

// pass is one walk over the unfinished flows, or Run's many.
type pass struct {
	runner    *Runner
	core      *core.Core // the runner's
	count     seam.Count
	slots     chan struct{} // one for each running flow
	tasks     sync.WaitGroup
	strangers map[int64]bool // flows reported for an unknown function
}

func (b *background) newPass(count seam.Count) *pass {
	core := b.runner.core
	return &pass{runner: b.runner, core: core, count: count, slots: make(chan struct{}, core.Concurrency), strangers: map[int64]bool{}}
}

// failed tells logs and Trace about a failed pass.
func (p *pass) failed(ctx context.Context, err error) {
	p.core.PassFailed(ctx, "a pass over the flows failed; the next pass tries again", err)
}

// retryChanged logs an error and goes on, so other flows run all the same.
func (p *pass) retryChanged(ctx context.Context) {
	if err := p.runner.retryChanged(ctx); err != nil && ctx.Err() == nil {
		p.failed(ctx, err)
	}
}

func (p *pass) interrupted(ctx context.Context) error {
	switch {
	case p.runner.isClosing():
		return onceward.ErrShutdown
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// claim claims flows whose function is registered, and counts the others.
func (p *pass) claim(ctx context.Context, dueBy time.Time, limit int) (claimed []*journal.Flow, err error) {
	var results []machine.FlowResult
	err = p.core.Session.Do(ctx, func(session string) (err error) {
		ev := machine.FlowEvent{Kind: machine.FlowEventClaim, At: dueBy, Session: session, Functions: p.runner.registered()}
		// Not under ctx: a claimed flow must not be forgotten.
		ending, cancel := grace.After(ctx)
		defer cancel()
		results, err = p.runner.hands.claim(func() ([]machine.FlowResult, error) {
			return p.runner.store.ClaimFlows(ending, ev, limit)
		})
		p.runner.doubted(session, err)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range results {
		f := &results[i].Flow
		switch {
		case results[i].Decision == machine.Execute:
			claimed = append(claimed, f)
			p.count(seam.Claimed, nil)
		case !p.strangers[f.Handle]:
			p.strangers[f.Handle] = true
			cause := fmt.Errorf("it needs %s, version %d", f.Function.Name, f.Function.Version)
			if f.Function.Name == "" {
				cause = errors.New("no worker continues it: call Runner.Do")
			}
			p.count(seam.Unregistered, &Error{Flow: flowOf(f), Kind: ErrUnregistered, Err: cause})
		}
	}
	return claimed, nil
}

// claimSome claims as many flows as there are free slots. Shutdown waits for each flow.
func (p *pass) claimSome(ctx context.Context) ([]*journal.Flow, error) {
	free := cap(p.slots) - len(p.slots)
	if free == 0 || len(p.runner.registered()) == 0 {
		return nil, nil
	}
	if err := p.core.Lifecycle.Enter(); err != nil {
		return nil, err
	}
	defer p.core.Lifecycle.Leave()
	p.retryChanged(ctx)
	claimed, err := p.claim(ctx, p.core.Now(), free)
	for range claimed {
		p.core.Lifecycle.Stay()
	}
	return claimed, err
}

// start runs a claimed flow in a slot, and counts the result.
func (p *pass) start(ctx context.Context, f *journal.Flow) {
	p.tasks.Go(func() {
		defer p.runner.wake()
		defer func() { <-p.slots }()
		defer p.core.Lifecycle.Leave()
		defer p.runner.hands.leave(f.Ref)
		defer func() { p.core.Survived(recover()) }()
		_, err := p.runner.foreground(context.WithValue(ctx, backgroundKey{}, true), f, nil, false)
		failed, _ := errors.AsType[*Error](err)
		switch {
		case err == nil:
			p.count(seam.Finished, nil)
		case failed.Kind == ErrGivenUp:
			p.count(seam.GivenUp, failed)
		case failed.Flow.State == StateSetAside:
			p.count(seam.SetAside, failed)
		case failed.Kind == ErrUnregistered:
			p.count(seam.Unregistered, failed)
		default:
			p.count(seam.Waiting, failed)
		}
	})
}

// untilNext returns the time until Run has a flow to claim, as far as this process knows.
func (p *pass) untilNext(ctx context.Context) time.Duration {
	now, pause, known := p.core.Now(), seam.PollUnder(ctx), p.runner.registered()
	if len(p.slots) == cap(p.slots) || len(known) == 0 {
		return pause // what ends, or is registered, wakes Run
	}
	for f, err := range p.runner.store.ListFlows(ctx, journal.FlowFilter{ByDue: true, Functions: known, Limit: 1}) {
		if err == nil {
			pause = min(pause, f.DueAt.Sub(now))
		}
	}
	return max(pause, minPause)
}
