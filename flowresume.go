package onceward

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// walkFlows takes over the flows that dead processes held, and runs those that are
// due, oldest first.
func (p *pass) walkFlows(ctx context.Context) error {
	store, ok := p.journal.(journal.Flows)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer p.tasks.Wait()
	began := p.now()
	for {
		if err := p.interrupted(ctx); err != nil {
			return err
		}
		// What parks meanwhile is for the next pass.
		claimed, err := p.claimFlows(ctx, store, began, p.cfg.Concurrency)
		if err != nil {
			return err
		}
		for _, f := range claimed {
			p.do(func() { p.runFlow(ctx, f) })
		}
		if len(claimed) < p.cfg.Concurrency {
			return nil
		}
	}
}

// claimFlows claims flows whose function is registered, and counts the others.
func (p *pass) claimFlows(ctx context.Context, store journal.Flows, dueBy time.Time, limit int) (claimed []*journal.Flow, err error) {
	session, err := p.joined(ctx)
	if err != nil {
		return nil, err
	}
	ev := journal.FlowEvent{Kind: journal.FlowClaim, At: dueBy, Session: session.ID(), Functions: p.functionNames}
	// Not under ctx: what is claimed must not be forgotten.
	results, err := store.ClaimFlows(context.WithoutCancel(ctx), ev, limit)
	if err != nil {
		return nil, err
	}
	for _, res := range results {
		f := &res.Flow
		if res.Decision == journal.Execute {
			claimed = append(claimed, f)
			p.count(func(r *Report) { r.Flows.Claimed++ })
			continue
		}
		p.mu.Lock()
		known := p.strangers[f.Handle]
		if p.strangers == nil {
			p.strangers = map[int64]bool{}
		}
		p.strangers[f.Handle] = true
		p.mu.Unlock()
		if !known {
			cause := fmt.Errorf("it needs %s, version %d", f.Function.Name, f.Function.Version)
			if f.Function.Name == "" {
				cause = errors.New("it goes on when somebody asks for it by Client.Flow")
			}
			p.flowProblem(&FlowError{Flow: flowOf(f), Kind: ErrFlowUnregistered, Err: cause}, func(r *FlowReport) { r.Unregistered++ })
		}
	}
	return claimed, nil
}

// runFlow runs a claimed flow and counts what came of it.
func (p *pass) runFlow(ctx context.Context, f *journal.Flow) {
	_, err := p.foregroundFlow(ctx, f, nil, false)
	if err == nil {
		p.count(func(r *Report) { r.Flows.Finished++ })
		return
	}
	told, _ := errors.AsType[*FlowError](err)
	p.flowProblem(told, func(r *FlowReport) {
		switch {
		case told.Kind == ErrFlowGivenUp:
			r.GivenUp++
		case told.Flow.State == FlowSetAside:
			r.SetAside++
		case told.Kind == ErrFlowUnregistered:
			r.Unregistered++
		default:
			r.Waiting++
		}
	})
}

func (p *pass) flowProblem(told *FlowError, add func(*FlowReport)) {
	p.count(func(r *Report) {
		add(&r.Flows)
		if len(r.Flows.Problems) < maxProblems {
			r.Flows.Problems = append(r.Flows.Problems, told)
		}
	})
}

// FlowReport is what one pass of Resume, or the passes of Run so far, did with flows.
type FlowReport struct {
	Claimed      int // flows that were taken over or whose time had come
	Finished     int // of these, those that have come to their end
	Waiting      int // … that wait for an operation, or for another try
	SetAside     int // … that failed too often
	GivenUp      int // … that are undone
	Unregistered int // flows that wait for a function which is not in Config.Flows; not claimed

	// Problems are what stands in the way of flows that have not finished, the first
	// hundred of them.
	Problems []*FlowError
}

// String returns nothing where there was nothing to do.
func (r FlowReport) String() string {
	if r.Claimed == 0 && r.Unregistered == 0 {
		return ""
	}
	return fmt.Sprintf("; flows claimed %d: finished %d, waiting %d, set aside %d, given up %d; of an unknown function %d",
		r.Claimed, r.Finished, r.Waiting, r.SetAside, r.GivenUp, r.Unregistered)
}

// runFlows is Run's part for flows: it claims as many as there are slots free, so that
// a long flow delays no other.
func (p *pass) runFlows(ctx context.Context) {
	store, ok := p.journal.(journal.Flows)
	if !ok || len(p.functionNames) == 0 {
		return
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	slots := make(chan struct{}, p.cfg.Concurrency)
	for {
		claimed, err := p.claimSome(ctx, store, cap(slots)-len(slots))
		if errors.Is(err, ErrShutdown) {
			return
		}
		if err != nil && ctx.Err() == nil {
			p.log.Error("a pass over the flows failed; it is made again", "error", err)
		}
		for _, f := range claimed {
			slots <- struct{}{}
			tasks.Go(func() {
				defer p.wakeFlows()
				defer func() { <-slots }()
				defer p.leave()
				defer p.survive()
				p.runFlow(ctx, f)
			})
		}
		p.tell(false)
		pause := time.Second
		if err == nil {
			pause = p.untilNextFlow(ctx, store, len(slots) == cap(slots))
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-p.flowWakes:
		case <-p.closing:
		case <-ctx.Done():
		}
		timer.Stop()
		if p.interrupted(ctx) != nil {
			return
		}
	}
}

// claimSome claims flows, each of which counts as work that Shutdown waits for.
func (p *pass) claimSome(ctx context.Context, store journal.Flows, limit int) ([]*journal.Flow, error) {
	if limit == 0 {
		return nil, nil
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	claimed, err := p.claimFlows(ctx, store, p.now(), limit)
	p.Client.mu.Lock()
	defer p.Client.mu.Unlock()
	p.working += len(claimed)
	return claimed, err
}

// untilNextFlow is how long Run has no flow to claim, as far as is known.
func (p *pass) untilNextFlow(ctx context.Context, store journal.Flows, full bool) time.Duration {
	now, pause := p.now(), pollEvery
	if full {
		return pause // a flow that ends wakes Run
	}
	for f, err := range store.ListFlows(ctx, journal.FlowFilter{ByDue: true, Functions: p.functionNames, Limit: 1}) {
		if err == nil {
			pause = min(pause, f.DueAt.Sub(now))
		}
	}
	return max(pause, minFlowPause)
}

// minFlowPause keeps Run from spinning over flows that another process is about to
// claim.
const minFlowPause = 20 * time.Millisecond

func (c *Client) wakeFlows() {
	select {
	case c.flowWakes <- struct{}{}:
	default:
	}
}

// reapFlows goes by small batches, as that of operations does.
func (p *pass) reapFlows(ctx context.Context) error {
	store, ok := p.journal.(journal.Flows)
	for ok && p.interrupted(ctx) == nil {
		n, err := store.ReapFlows(ctx, journal.FlowEvent{Kind: journal.FlowReap, At: p.now(), Keep: p.cfg.Keep}, reapBatch)
		if err != nil {
			return err
		}
		if n > 0 {
			p.count(func(r *Report) { r.Reaped += n })
		}
		if n < reapBatch {
			return nil
		}
	}
	return nil
}

// wakeFlowOf lets a flow go on that waits, for an operation which somebody has resolved
// or because it has failed without its answer. Where that fails, the flow looks by itself within a minute.
func (c *Client) wakeFlowOf(ctx context.Context, op Ref) {
	store, ok := c.journal.(journal.Flows)
	if !ok || !isOfFlow(op.Parent) {
		return
	}
	waiting := journal.FlowFilter{States: []journal.FlowState{journal.FlowWaiting}, Scope: &op.Scope}
	for f, err := range store.ListFlows(ctx, waiting) {
		if err != nil {
			c.log.Warn("a flow was not woken; it looks by itself within a minute", "operation", op.ID, "error", err)
			return
		}
		if f.WaitsFor == op || operationsOf(&f) == op.Parent {
			_, _ = store.ApplyFlow(ctx, journal.FlowEvent{Kind: journal.FlowRetry, Ref: f.Ref, At: c.now()})
			break
		}
	}
	c.wakeFlows()
}
