package flow

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// Lookup returns a flow as it is recorded, its steps with their results included.
// The error of one that the journal does not have is onceward.ErrNotFound.
func (r *Runner) Lookup(ctx context.Context, ref onceward.Ref) (Flow, error) {
	f, err := r.store.GetFlow(ctx, ref)
	if err != nil {
		return Flow{}, fmt.Errorf("onceward: look up a flow: %w", err)
	}
	return flowOf(&f), nil
}

// Filter selects flows for Runner.List. The zero Filter selects all.
type Filter struct {
	States []State // none: every state
	Scope  *string // nil: every scope
	Limit  int     // 0: no limit
}

// List yields the recorded flows, oldest first, with their steps but without these
// steps' results. It ends after the first error.
func (r *Runner) List(ctx context.Context, f Filter) iter.Seq2[Flow, error] {
	return func(yield func(Flow, error) bool) {
		for flow, err := range r.store.ListFlows(ctx, journal.FlowFilter{States: f.States, Scope: f.Scope, Limit: f.Limit}) {
			if !yield(flowOf(&flow), err) || err != nil {
				return
			}
		}
	}
}

// Retry lets a flow that is set aside, or that waits, go on at once, its failures
// forgiven: Run and Resume run it, if they know its function, or whoever asks for it.
// To a flow that runs or has ended it does nothing.
func (r *Runner) Retry(ctx context.Context, ref onceward.Ref) (Flow, error) {
	return r.say(ctx, journal.FlowEvent{Kind: journal.FlowEventRetry, Ref: ref})
}

// GiveUp has a flow given up, for the reason why, which is recorded: its steps are
// undone, latest first, as the function GiveUp has it. That is done by Run and Resume, if they know
// its function, or by whoever asks for the flow next.
//
// The error is a *Error with onceward.ErrInFlight while somebody runs the flow, and wraps
// onceward.ErrInvalidEvent where it has come to its end or there is none.
func (r *Runner) GiveUp(ctx context.Context, ref onceward.Ref, why string) (Flow, error) {
	return r.say(ctx, journal.FlowEvent{Kind: journal.FlowEventGiveUp, Ref: ref, Cause: secret.Recorded(why)})
}

// retryChanged has flows go on that were set aside because their function had changed. This process may have the right
// function again, after a rollback for instance. It does so once for the functions that are registered.
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
		if _, err := r.store.ApplyFlow(ctx, journal.FlowEvent{Kind: journal.FlowEventRetry, Ref: ref, At: r.client.Now()}); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retried = known + 1
	return nil
}

func (r *Runner) say(ctx context.Context, ev journal.FlowEvent) (Flow, error) {
	ev.At = r.client.Now()
	res, err := r.store.ApplyFlow(ctx, ev)
	switch {
	case err != nil:
		return Flow{}, fmt.Errorf("onceward: %s flow %s: %w", ev.Kind, ev.Ref.ID, r.client.Explained(err))
	case res.Decision == journal.Wait:
		return flowOf(&res.Flow), &Error{Flow: flowOf(&res.Flow), Kind: onceward.ErrInFlight}
	}
	r.wake()
	f, err := r.store.GetFlow(ctx, ev.Ref)
	if err != nil {
		return flowOf(&res.Flow), fmt.Errorf("onceward: look up a flow: %w", err)
	}
	return flowOf(&f), nil
}
