package onceward

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/onceward/onceward/journal"
)

var errNoFlows = errors.New("the journal keeps no flows (journal.Flows)")

// LookupFlow returns a flow as it is recorded, its steps with their results included.
// The error of one that the journal does not have is journal.ErrNotFound.
func (c *Client) LookupFlow(ctx context.Context, ref Ref) (Flow, error) {
	store, ok := c.journal.(journal.Flows)
	if !ok {
		return Flow{}, fmt.Errorf("onceward: look up a flow: %w", errNoFlows)
	}
	f, err := store.GetFlow(ctx, ref)
	if err != nil {
		return Flow{}, fmt.Errorf("onceward: look up a flow: %w", err)
	}
	return flowOf(&f), nil
}

// FlowFilter selects flows for Flows. The zero FlowFilter selects all.
type FlowFilter struct {
	States []FlowState // none: every state
	Scope  *string     // nil: every scope
	Limit  int         // 0: no limit
}

// Flows yields the recorded flows, oldest first, with their steps but without these
// steps' results. It ends after the first error.
func (c *Client) Flows(ctx context.Context, f FlowFilter) iter.Seq2[Flow, error] {
	return func(yield func(Flow, error) bool) {
		store, ok := c.journal.(journal.Flows)
		if !ok {
			yield(Flow{}, fmt.Errorf("onceward: list flows: %w", errNoFlows))
			return
		}
		for flow, err := range store.ListFlows(ctx, journal.FlowFilter{States: f.States, Scope: f.Scope, Limit: f.Limit}) {
			if !yield(flowOf(&flow), err) || err != nil {
				return
			}
		}
	}
}

// RetryFlow lets a flow that is set aside, or that waits, go on at once, its failures
// forgiven: Run and Resume run it, if they know its function, or whoever asks for it.
// To a flow that runs or has ended it does nothing.
func (c *Client) RetryFlow(ctx context.Context, ref Ref) (Flow, error) {
	return c.sayOfFlow(ctx, journal.FlowEvent{Kind: journal.FlowRetry, Ref: ref})
}

// GiveUpFlow has a flow given up, for the reason why, which is recorded: its steps are
// undone, latest first, as GiveUp has it. That is done by Run and Resume, if they know
// its function, or by whoever asks for the flow next.
//
// The error is a *FlowError with ErrInFlight while somebody runs the flow, and wraps
// journal.ErrInvalidEvent where it has come to its end or there is none.
func (c *Client) GiveUpFlow(ctx context.Context, ref Ref, why string) (Flow, error) {
	return c.sayOfFlow(ctx, journal.FlowEvent{Kind: journal.FlowGiveUp, Ref: ref, Cause: recordableText(why)})
}

func (c *Client) sayOfFlow(ctx context.Context, ev journal.FlowEvent) (Flow, error) {
	store, ok := c.journal.(journal.Flows)
	if !ok {
		return Flow{}, fmt.Errorf("onceward: %s a flow: %w", ev.Kind, errNoFlows)
	}
	ev.At = c.now()
	res, err := store.ApplyFlow(ctx, ev)
	switch {
	case err != nil:
		return Flow{}, fmt.Errorf("onceward: %s flow %s: %w", ev.Kind, ev.Ref.ID, explained(err))
	case res.Decision == journal.Wait:
		return flowOf(&res.Flow), &FlowError{Flow: flowOf(&res.Flow), Kind: ErrInFlight}
	}
	c.wakeFlows()
	f, err := store.GetFlow(ctx, ev.Ref)
	if err != nil {
		return flowOf(&res.Flow), fmt.Errorf("onceward: look up a flow: %w", err)
	}
	return flowOf(&f), nil
}
