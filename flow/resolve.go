package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// ResolveStep records an operator's statement of a step's result. Use ResolveStep if the flow can't find out by itself:
// an operation took effect, and the answer is gone, was cut off, or is not enough for the step. The flow then goes on as
// if the step had returned result. If the flow is given up later, result is undone. If you can still get the provider's
// answer, you may supply the answer by Resolve instead, and the step makes the result.
//
// result is recorded as JSON and has to fit the step. A result with another form, or a nil for a step with a result, is
// ErrChanged in the next run. You may then state the result again. For a step's undo, step is "undo/" and the step's
// name. result is then ignored, and the step counts as undone. A flow which was set aside goes on, and the failures are
// reset. how names the operator and the reason. The record leaves out possible credentials.
//
// Every operation in the step needs an outcome first. Otherwise the error is an *Error with onceward.ErrPending,
// onceward.ErrInFlight or onceward.ErrOutcomeUnknown: see Resolve. Other errors are:
//   - an *Error with onceward.ErrInFlight while another caller runs the flow;
//   - onceward.ErrNotFound, wrapped, if there is no such flow;
//   - onceward.ErrInvalidEvent, wrapped, if the flow has ended, the step has not begun an operation, or the recorded
//     result is not an operator's.
func (r *Runner) ResolveStep(ctx context.Context, flow onceward.Ref, step string, result any, how onceward.ResolveOptions) (Flow, error) {
	said := struct {
		By     string `json:"by,omitempty"`
		Why    string `json:"why,omitempty"`
		Result any    `json:"result,omitempty"`
	}{secret.Recorded(how.By), secret.Recorded(how.Why), result}
	undone, undoes := strings.CutPrefix(step, undoName+"/")
	rec := journal.StepRecord{Kind: journal.StepByHand, Name: step}
	if undoes {
		rec.Kind, rec.Name, said.Result = journal.StepUndone, undone, nil
	}
	var err error
	if rec.Result, err = json.Marshal(said); err != nil {
		return Flow{}, fmt.Errorf("onceward: resolve step %s: its result can't be recorded: %w", step, err)
	}
	f, err := r.store.GetFlow(ctx, flow)
	if err == nil {
		_, err = r.mayState(ctx, &f, step)
	}
	if err != nil {
		return flowOf(&f), r.unstated(flow, step, err)
	}
	n, err := r.claim(ctx, &f)
	if err != nil {
		return flowOf(&f), r.unstated(flow, step, err)
	}
	note, err := r.mayState(ctx, &n.flow, step)
	ev := machine.FlowEvent{Kind: machine.FlowEventPark, Cause: "the result of step " + step + " was given by hand"}
	if err == nil {
		rec.Seq, rec.At = n.seq+1, r.core.Now()
		if !undoes {
			rec.Position, rec.Parallel = note.Position, note.Parallel
		}
		ev.Steps = []journal.StepRecord{rec}
	}
	res, failed := n.apply(ctx, ev)
	r.wake()
	switch {
	case failed != nil:
		err = failed
	case err == nil && res.Decision != machine.Recorded:
		err = errors.New("the claim is no longer held")
	}
	if err != nil {
		return flowOf(&n.flow), r.unstated(flow, step, err)
	}
	return flowOf(&n.flow), nil
}

func (r *Runner) unstated(flow onceward.Ref, step string, err error) error {
	if _, ok := err.(*Error); ok {
		return err
	}
	return fmt.Errorf("onceward: resolve step %s of flow %s: %w", step, flow.ID, err)
}

// mayState reports whether an operator may state a step's result, and returns a begun operation's note.
func (r *Runner) mayState(ctx context.Context, f *journal.Flow, name string) (note journal.StepRecord, err error) {
	n := r.newRun(f, false)
	undone, undoes := strings.CutPrefix(name, undoName+"/")
	refused := func(why string) (journal.StepRecord, error) {
		return note, fmt.Errorf("%w: %s", journal.ErrInvalidEvent, why)
	}
	switch rec := n.recorded[name]; {
	case f.State.Ended():
		return refused("the flow is " + f.State.String())
	case undoes && n.undone[undone]:
		return refused("it is undone")
	case rec != nil && rec.Kind != journal.StepByHand && rec.Kind != journal.StepFailed:
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
	ops, err := n.operationsOf(ctx, &step{id: name})
	for i := range ops {
		if !ops[i].State.Settled() {
			open := noAnswer(r.client, &ops[i])
			return note, &Error{Flow: flowOf(f), Step: name, Kind: open.Kind, Err: open}
		}
	}
	return note, err
}

// claim claims a flow which no process runs.
func (r *Runner) claim(ctx context.Context, f *journal.Flow) (*run, error) {
	if f.State == journal.FlowStateSetAside {
		if _, err := r.store.ApplyFlow(ctx, machine.FlowEvent{Kind: machine.FlowEventRetry, Ref: f.Ref, At: r.core.Now()}); err != nil {
			return nil, err
		}
	}
	var res machine.FlowResult
	err := r.core.Session.Do(ctx, func(session string) (err error) {
		res, err = r.store.ApplyFlow(ctx, machine.FlowEvent{
			Kind: machine.FlowEventBegin, Ref: f.Ref, At: r.core.Now(), Session: session,
			Function: f.Function, Key: f.Key, Input: f.Input, InputDigest: f.InputDigest, Sooner: true,
		})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case res.Decision != machine.Execute:
		return nil, &Error{Flow: flowOf(&res.Flow), Kind: onceward.ErrInFlight}
	}
	return r.newRun(&res.Flow, false), nil
}
