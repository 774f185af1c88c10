package onceward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward/journal"
)

// ResolveStep states what a step of a flow returned, by somebody's word, where the flow
// can't find out by itself: an operation of the step took effect, and its answer is gone or
// was cut off, or does not tell the step what it needs. The flow then goes on as if the step
// had returned result, and who gives it up has that undone. Where the provider's answer can
// still be had, supplying it by Resolve does as much, and the step makes its result of it.
//
// result is recorded as JSON and has to fit the step; one that does not is ErrFlowChanged
// in the next run, and may be stated again. So is nil for a step that returns a value. For a step's undo, step is "undo/" and its name,
// result is ignored, and it counts as undone. A flow that was set aside goes on, its failures
// forgiven. how has who says so and why, which are kept without what may be a credential.
//
// Every operation of the step needs an outcome first: else the error is a *FlowError with
// ErrPending, ErrInFlight or ErrOutcomeUnknown; see Resolve. It is one with ErrInFlight
// while somebody runs the flow, wraps journal.ErrNotFound where there is no such flow, and
// journal.ErrInvalidEvent where it has come to its end, where the step has not begun an
// operation, and where its result is recorded already and not by somebody's word.
func (c *Client) ResolveStep(ctx context.Context, flow Ref, step string, result any, how ResolveOptions) (Flow, error) {
	store, ok := c.journal.(journal.Flows)
	if !ok {
		return Flow{}, fmt.Errorf("onceward: resolve a step: %w", errNoFlows)
	}
	said := struct {
		By     string `json:"by,omitempty"`
		Why    string `json:"why,omitempty"`
		Result any    `json:"result,omitempty"`
	}{recordableText(how.By), recordableText(how.Why), result}
	undone, undoes := strings.CutPrefix(step, undoName+"/")
	rec := journal.StepRecord{Kind: journal.StepByHand, Name: step}
	if undoes {
		rec.Kind, rec.Name, said.Result = journal.StepUndone, undone, nil
	}
	var err error
	if rec.Result, err = json.Marshal(said); err != nil {
		return Flow{}, fmt.Errorf("onceward: resolve step %s: its result can't be recorded: %w", step, err)
	}
	f, err := store.GetFlow(ctx, flow)
	if err == nil {
		_, err = c.mayState(ctx, &f, step)
	}
	if err != nil {
		return flowOf(&f), c.unstated(flow, step, err)
	}
	r, err := c.takeFlow(ctx, store, &f)
	if err != nil {
		return flowOf(&f), c.unstated(flow, step, err)
	}
	note, err := c.mayState(ctx, &r.flow, step)
	ev := journal.FlowEvent{Kind: journal.FlowPark, Cause: "the result of step " + step + " was stated by hand"}
	if err == nil {
		rec.Seq, rec.At = r.seq+1, c.now()
		if !undoes {
			rec.Position, rec.Parallel = note.Position, note.Parallel
		}
		ev.Steps = []journal.StepRecord{rec}
	}
	res, failed := r.apply(ctx, ev)
	c.wakeFlows()
	switch {
	case failed != nil:
		err = failed
	case err == nil && res.Decision != journal.Recorded:
		err = errors.New("the claim is no longer held")
	}
	if err != nil {
		return flowOf(&r.flow), c.unstated(flow, step, err)
	}
	return flowOf(&r.flow), nil
}

func (c *Client) unstated(flow Ref, step string, err error) error {
	if _, ok := err.(*FlowError); ok {
		return err
	}
	return fmt.Errorf("onceward: resolve step %s of flow %s: %w", step, flow.ID, explained(err))
}

// mayState tells whether somebody's word may stand for a step's result, and returns the
// note of an operation that it has begun.
func (c *Client) mayState(ctx context.Context, f *journal.Flow, name string) (note journal.StepRecord, err error) {
	r := c.newFlowRun(f, false)
	undone, undoes := strings.CutPrefix(name, undoName+"/")
	refused := func(why string) (journal.StepRecord, error) {
		return note, fmt.Errorf("%w: %s", journal.ErrInvalidEvent, why)
	}
	switch rec := r.recorded[name]; {
	case f.State.Ended():
		return refused("the flow is " + f.State.String())
	case undoes && r.undone[undone]:
		return refused("it is undone")
	case rec != nil && rec.Kind != journal.StepByHand:
		return refused("its result is recorded")
	}
	for _, s := range f.Steps {
		if s.Kind == journal.StepCall && nameOf(&s) == name {
			note = s
		}
	}
	if note.Kind != journal.StepCall {
		return refused("it has not begun an operation")
	}
	ops, err := r.operationsOf(ctx, &step{id: name})
	for i := range ops {
		if !ops[i].State.Settled() {
			told := operationOf(&ops[i])
			return note, &FlowError{Flow: flowOf(f), Step: name, Kind: kindOf(told.State), Err: &Error{Operation: told, Kind: kindOf(told.State)}}
		}
	}
	return note, err
}

// takeFlow claims a flow that nobody runs.
func (c *Client) takeFlow(ctx context.Context, store journal.Flows, f *journal.Flow) (*flowRun, error) {
	session, err := c.joined(ctx)
	if err != nil {
		return nil, err
	}
	if f.State == journal.FlowSetAside {
		if _, err := store.ApplyFlow(ctx, journal.FlowEvent{Kind: journal.FlowRetry, Ref: f.Ref, At: c.now()}); err != nil {
			return nil, err
		}
	}
	res, err := store.ApplyFlow(ctx, journal.FlowEvent{
		Kind: journal.FlowBegin, Ref: f.Ref, At: c.now(), Session: session.ID(),
		Function: f.Function, Key: f.Key, Input: f.Input, InputDigest: f.InputDigest, Sooner: true,
	})
	switch {
	case err != nil:
		return nil, err
	case res.Decision != journal.Execute:
		return nil, &FlowError{Flow: flowOf(&res.Flow), Kind: ErrInFlight}
	}
	return c.newFlowRun(&res.Flow, false), nil
}
