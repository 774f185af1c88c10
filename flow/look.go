package flow

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// Flow returns a flow's record, including its steps' results. The error is onceward.ErrNotFound if the
// journal has no such flow.
func (r *Runner) Flow(ctx context.Context, ref onceward.Ref) (Flow, error) {
	f, err := r.store.GetFlow(ctx, ref)
	if err != nil {
		return Flow{}, fmt.Errorf("onceward: look up a flow: %w", err)
	}
	return flowOf(&f), nil
}

// Filter selects flows for Runner.Flows. The zero Filter selects all.
type Filter struct {
	States []State // empty means every state
	Scope  *string // nil means every scope
	Limit  int     // zero means no limit
}

// Flows yields the recorded flows, oldest first, with their steps but without these
// steps' results. Flows ends after the first error.
func (r *Runner) Flows(ctx context.Context, f Filter) iter.Seq2[Flow, error] {
	return func(yield func(Flow, error) bool) {
		for flow, err := range r.store.ListFlows(ctx, journal.FlowFilter{States: f.States, Scope: f.Scope, Limit: f.Limit}) {
			if !yield(flowOf(&flow), err) || err != nil {
				return
			}
		}
	}
}

// Retry makes a waiting flow, or one set aside, go on at once, and resets the failures. Run and Resume run the flow if
// they know the function. Otherwise the next caller does. Retry does nothing to a running or ended flow.
func (r *Runner) Retry(ctx context.Context, ref onceward.Ref) (Flow, error) {
	return r.say(ctx, machine.FlowEvent{Kind: machine.FlowEventRetry, Ref: ref})
}

// GiveUp gives a flow up and records the reason why. The steps are then undone, latest first, as by the function
// GiveUp. Run and Resume undo the steps if they know the function. Otherwise the next caller does.
//
// The error is an *Error with onceward.ErrInFlight while another caller runs the flow. The error wraps
// onceward.ErrInvalidEvent if the flow has ended or does not exist.
func (r *Runner) GiveUp(ctx context.Context, ref onceward.Ref, why string) (Flow, error) {
	return r.say(ctx, machine.FlowEvent{Kind: machine.FlowEventGiveUp, Ref: ref, Cause: secret.Recorded(why)})
}

// retryChanged retries flows that were set aside for a changed function. This process may have the right function again,
// after a rollback for instance. retryChanged does so once for each set of registered functions.
func (r *Runner) retryChanged(ctx context.Context) error {
	known := len(r.registered())
	r.mu.Lock()
	isDone := r.retried > known
	r.mu.Unlock()
	if isDone {
		return nil
	}
	var changed []journal.Ref
	for f, err := range r.store.ListFlows(ctx, journal.FlowFilter{States: []journal.FlowState{StateSetAside}}) {
		if err != nil {
			return err
		}
		if strings.Contains(f.Cause, ErrChanged.Error()) && (f.Function.Name == "" || r.known(f.Function) != nil) {
			changed = append(changed, f.Ref)
		}
	}
	for _, ref := range changed {
		if _, err := r.store.ApplyFlow(ctx, machine.FlowEvent{Kind: machine.FlowEventRetry, Ref: ref, At: r.core.Now()}); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retried = known + 1
	return nil
}

func (r *Runner) say(ctx context.Context, ev machine.FlowEvent) (Flow, error) {
	if seam.IsInTransaction(ctx) { // the journal may wait for its end
		return Flow{}, fmt.Errorf("onceward: %s flow %s: %w", ev.Kind, ev.Ref.ID, onceward.ErrOpenTransaction)
	}
	ev.At = r.core.Now()
	res, err := r.store.ApplyFlow(ctx, ev)
	switch {
	case err != nil:
		return Flow{}, fmt.Errorf("onceward: %s flow %s: %w", ev.Kind, ev.Ref.ID, err)
	case res.Decision == machine.Wait:
		return flowOf(&res.Flow), &Error{Flow: flowOf(&res.Flow), Kind: onceward.ErrInFlight}
	}
	r.wake()
	f, err := r.store.GetFlow(ctx, ev.Ref)
	if err != nil {
		return flowOf(&res.Flow), fmt.Errorf("onceward: look up a flow: %w", err)
	}
	return flowOf(&f), nil
}
