package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Do runs a function with several steps, and resumes the flow by name. The function do makes its calls in steps (see
// [Step]). Each step is made once, even if this process dies. The flow's name is id, within ctx's scope and under ctx's
// parent, if there is one. The input is recorded as JSON. The same name with another input is [onceward.ErrKeyReused].
//
// Do returns nil once do has returned nil. After a crash or an error, the next call runs do again. Recorded steps
// then return the recorded results, and are not made again. So make every effect, and everything with a different result
// the next time, in a step. In a finished flow, do only runs through the recorded steps.
//
// The error is an *Error:
//   - onceward.ErrPending, ErrOutcomeUnknown, ErrInFlight: a step's operation has no outcome yet, or another
//     caller runs the flow, or ctx ended while the flow began. Call again once the flow is due.
//   - ErrFailed: do failed, and do's error is in the chain. A call before the flow is due returns onceward.ErrPending.
//     After Config.Backoff's number of failures in a row the error is ErrSetAside.
//   - ErrChanged: do does not make the recorded steps.
//   - ErrGivenUp: the flow was given up, and the steps are undone. See GiveUp.
//   - onceward.ErrKeyReused, ErrAnswerGone, ErrJournal, ErrJournalRestored, ErrShutdown: as for an operation.
//
// Resume and Run can't run a flow without a known function, and report the flow. Define and register the function if no
// caller may ask again.
func (r *Runner) Do(ctx context.Context, id string, input any, do func(context.Context) error) error {
	encoded, err := json.Marshal(input)
	if err != nil {
		ref, _, _, _ := r.name(ctx, id)
		return &Error{Flow: Flow{Ref: ref}, Kind: ErrInput, Err: err}
	}
	_, err = r.runByName(ctx, id, encoded, &function{run: func(ctx context.Context, _ []byte) ([]byte, error) { return nil, do(ctx) }})
	return err
}

// Run runs the flow with the name id, as Runner.Do does, and returns its function's recorded result, the same for
// every caller. After the flow's end the function is not called again. A flow that began under another version goes on
// under the old version. The error is ErrUnregistered if the function is not registered with r.
func (d *Func[In, Out]) Run(ctx context.Context, r *Runner, id string, in In) (Out, error) {
	var zero, out Out
	ref, _, _, _ := r.name(ctx, id)
	if r.known(d.f.FlowFunction) == nil {
		return zero, &Error{Flow: Flow{Ref: ref, Function: d.f.Name, Version: d.f.Version}, Kind: ErrUnregistered}
	}
	input, err := json.Marshal(in)
	if err != nil {
		return zero, &Error{Flow: Flow{Ref: ref}, Kind: ErrInput, Err: err}
	}
	result, err := r.runByName(ctx, id, input, &d.f)
	if err != nil {
		return zero, err
	}
	if err := decodeStrictly(result, &out); err != nil {
		return zero, &Error{Flow: Flow{Ref: ref, Function: d.f.Name, Version: d.f.Version, State: StateFinished}, Kind: ErrChanged,
			Err: fmt.Errorf("its recorded result does not fit: %w", err)}
	}
	return out, nil
}

// runByName begins the flow, waits while another caller runs the flow, and runs it. The result is the function's, as
// JSON.
func (r *Runner) runByName(ctx context.Context, id string, input []byte, function *function) (result []byte, err error) {
	ask, err := r.ask(ctx, id, input, function)
	if err != nil {
		return nil, err
	}
	if err := r.core.Lifecycle.Enter(); err != nil {
		return nil, ask.fail(onceward.ErrShutdown, nil)
	}
	defer r.core.Lifecycle.Leave()
	ends := r.core.EndOfWait(ctx)
	for poll := 5 * time.Millisecond; ; {
		res, err := ask.begin(ctx)
		if err != nil {
			return nil, err
		}
		f := &res.Flow
		switch res.Decision {
		case machine.Execute, machine.Replay:
			if result := returned(f.Steps); result != nil && res.Decision == machine.Replay {
				return result, nil
			}
			if res.Decision == machine.Execute {
				defer r.hands.leave(f.Ref)
			}
			return r.foreground(ctx, f, function, res.Decision == machine.Replay)
		case machine.Later:
			if !ask.event.Sooner && r.hasOutcome(ctx, f.WaitsFor) {
				ask.event.Sooner = true
				continue
			}
			return nil, &Error{Flow: flowOf(f), Kind: onceward.ErrPending}
		case machine.Wait:
			if !r.core.Sleep(ctx, poll, ends) {
				cause := context.Cause(ctx)
				if r.isClosing() {
					cause = onceward.ErrShutdown
				}
				return nil, &Error{Flow: flowOf(f), Kind: onceward.ErrInFlight, Err: cause}
			}
			poll = min(2*poll, 250*time.Millisecond)
		case machine.Ignored:
			return nil, unregistered(f)
		default:
			failed := &Error{Flow: flowOf(f), Kind: kindOf(f, res.Decision)}
			if failed.Kind == ErrGivenUp {
				if whole, err := r.store.GetFlow(ctx, f.Ref); err == nil {
					failed.Flow, failed.Err = flowOf(&whole), gaveUpFor(whole.Steps)
				}
			}
			return nil, failed
		}
	}
}

// hasOutcome reports whether a flow need not wait for the operation any more.
func (r *Runner) hasOutcome(ctx context.Context, ref onceward.Ref) bool {
	if ref == (onceward.Ref{}) {
		return false
	}
	op, err := r.core.Journal.Get(ctx, ref)
	return errors.Is(err, journal.ErrNotFound) || err == nil &&
		(op.State.Settled() || op.State == journal.StatePending && !op.DueAt.After(r.core.Now()))
}
