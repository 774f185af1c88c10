package onceward

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// resumeFlows runs once what was cut off or is due, or reports what waits for a process
// that can.
func (p *pass) resumeFlows(ctx context.Context) error {
	if flows := p.client.flows.runner(); flows != nil {
		return flows.Resume(ctx, p.countFlow)
	}
	store, ok := p.client.core.Journal.(journal.Flows)
	if !ok {
		return nil
	}
	return p.client.core.Session.Do(ctx, func(session string) error {
		results, err := store.ClaimFlows(ctx, journal.FlowEvent{Kind: journal.FlowEventClaim, At: p.client.core.Now(), Session: session}, p.client.core.Concurrency)
		for i := range results {
			p.countFlow(seam.Unregistered, fmt.Errorf("flow %s waits for a process that runs flows: see flow.New", results[i].Flow.ID))
		}
		return err
	})
}

// runFlows is Run's part for flows, from when there is somebody who runs them.
func (p *pass) runFlows(ctx context.Context) {
	select {
	case <-p.client.flows.attached:
		p.client.flows.runner().Run(ctx, p.countFlow)
	case <-p.client.core.Lifecycle.Closing():
	case <-ctx.Done():
	}
}

// FlowReport is what one pass of Resume, or the passes of Run so far, did with flows.
type FlowReport struct {
	Claimed      int // flows that were taken over or whose time had come
	Finished     int // of these, those that have come to their end
	Waiting      int // … that wait for an operation, or for another try
	SetAside     int // … that failed too often
	GivenUp      int // … that are undone
	Unregistered int // flows that wait for a function which is not registered; not claimed

	// Problems are what stands in the way of flows that have not finished, the first
	// hundred of them: a *flow.Error each, where this process runs flows.
	Problems []error
}

// String returns nothing where there was nothing to do.
func (r FlowReport) String() string {
	if r.Claimed == 0 && r.Unregistered == 0 {
		return ""
	}
	return fmt.Sprintf("; flows claimed %d: finished %d, waiting %d, set aside %d, given up %d; of an unknown function %d",
		r.Claimed, r.Finished, r.Waiting, r.SetAside, r.GivenUp, r.Unregistered)
}

func (p *pass) countFlow(what seam.Outcome, problem error) {
	p.count(func(total *Report) {
		r := &total.Flows
		switch what {
		case seam.Claimed:
			r.Claimed++
		case seam.Finished:
			r.Finished++
		case seam.Waiting:
			r.Waiting++
		case seam.SetAside:
			r.SetAside++
		case seam.GivenUp:
			r.GivenUp++
		case seam.Unregistered:
			r.Unregistered++
		}
		if problem != nil && len(r.Problems) < maxProblems {
			r.Problems = append(r.Problems, problem)
		}
	})
}

// afterItsFlow tells whether an operation was found out only after its flow had come to its end, or was given
// up: nobody asks for it there any more. A flow that ends after it was found has heard of it, however soon it does.
func (c *Client) afterItsFlow(ctx context.Context, op *journal.Operation) bool {
	store, ok := c.core.Journal.(journal.Flows)
	if !ok || op.Answer == nil || !op.Answer.Found {
		return false
	}
	for f, err := range flowsOf(ctx, store, op.Ref, op.Flow) {
		if err == nil && seam.ParentOf(&f) == op.Parent {
			return f.Undoing || f.State.Ended() && op.SettledAt.After(f.EndedAt)
		}
	}
	return true
}

// flowsOf yields the flow of an operation if its record or its parent names it; else all flows of these states that it may
// be of.
func flowsOf(ctx context.Context, store journal.Flows, op Ref, of FlowRef, states ...journal.FlowState) iter.Seq2[journal.Flow, error] {
	name, isFlow := seam.FlowOf(op.Parent)
	if of.ID == "" {
		of.ID = name
	}
	if of.ID == "" || of.Parent == "" && !isFlow {
		return store.ListFlows(ctx, journal.FlowFilter{States: states, Scope: &op.Scope})
	}
	return func(yield func(journal.Flow, error) bool) {
		yield(store.GetFlow(ctx, Ref{Scope: op.Scope, Parent: of.Parent, ID: of.ID}))
	}
}

// opensItsFlow tells whether an outcome that reached nobody may have come after its flow was given up: that of
// an operation of which somebody said, or a look, that it had no effect, or which was found to have had one.
// It is delivered only once the flow knows, whichever process that falls to.
func opensItsFlow(op *journal.Operation) bool {
	a := op.Answer
	return seam.IsOfFlow(op.Parent) && !seam.IsUndo(op) && op.State == journal.StateCompleted && a != nil && !a.Refused &&
		(a.Found || a.ByHand || op.Resolved != nil || a.Generation < op.Generation)
}

var errBeingUndone = errors.New("its flow is being undone just now, and may have passed it over")

// reopenFlowOf has a flow that was given up undo what it could not: an operation of its own took
// effect after all. One whose steps are forgotten, or that came to its end otherwise, stays as it is: the
// operation is offered to OnSettled. After an error it is to be tried again.
func (c *Client) reopenFlowOf(ctx context.Context, op *journal.Operation) error {
	store, ok := c.core.Journal.(journal.Flows)
	if !ok || !opensItsFlow(op) {
		return nil
	}
	for f, err := range flowsOf(ctx, store, op.Ref, op.Flow, journal.FlowStateGivenUp, journal.FlowStateRunning) {
		switch {
		case errors.Is(err, journal.ErrNotFound):
			return nil
		case err != nil:
			c.core.Say(ctx, slog.LevelError, core.LogNotWoken, "a flow could not be opened again, of which an operation took effect after all; it is tried again",
				"operation", op.ID, "error", err)
			return err
		case seam.ParentOf(&f) != op.Parent:
		case f.State == journal.FlowStateRunning && f.Undoing:
			return errBeingUndone
		case f.State == journal.FlowStateGivenUp && !f.Tombstone:
			return c.reopen(ctx, store, op, &f)
		}
	}
	return nil
}

func (c *Client) reopen(ctx context.Context, store journal.Flows, op *journal.Operation, f *journal.Flow) error {
	res, err := store.ApplyFlow(context.WithoutCancel(ctx), journal.FlowEvent{Kind: journal.FlowEventRetry, Ref: f.Ref, At: c.core.Now(), Found: true})
	switch {
	case err != nil:
		c.core.Say(ctx, slog.LevelError, core.LogNotWoken, "a flow could not be opened again, of which an operation took effect after all; it is tried again",
			"operation", op.ID, "flow", f.ID, "error", err)
		return err
	case res.Decision != journal.Recorded:
		return nil // somebody else was faster
	}
	c.core.Say(ctx, slog.LevelWarn, core.LogReopened, "a flow that was given up is undone once more: an operation of it took effect after all",
		"operation", op.ID, "flow", f.ID)
	if flows := c.flows.runner(); flows != nil {
		flows.Wake()
	}
	return nil
}

// wakeFlowOf lets a flow go on that waits, for an operation which somebody has resolved or the
// background has settled, or because it has failed without its answer. Where that fails, the flow
// looks by itself within ten minutes.
func (c *Client) wakeFlowOf(ctx context.Context, op Ref) {
	store, ok := c.core.Journal.(journal.Flows)
	if !ok || !seam.IsOfFlow(op.Parent) {
		return
	}
	for f, err := range flowsOf(ctx, store, op, FlowRef{}, journal.FlowStateWaiting) {
		if errors.Is(err, journal.ErrNotFound) {
			break
		}
		if err != nil {
			c.core.Say(ctx, slog.LevelWarn, core.LogNotWoken, "a flow was not woken; it looks by itself within ten minutes", "operation", op.ID, "error", err)
			return
		}
		rests := f.WaitsFor == (journal.Ref{}) && f.Failures == 0 // until a time alone, which a provider may have named
		if f.State == journal.FlowStateWaiting && (f.WaitsFor == op || seam.ParentOf(&f) == op.Parent && !rests) {
			_, _ = store.ApplyFlow(ctx, journal.FlowEvent{Kind: journal.FlowEventRetry, Ref: f.Ref, At: c.core.Now()})
			break
		}
	}
	if flows := c.flows.runner(); flows != nil {
		flows.Wake()
	}
}
