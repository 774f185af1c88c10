package flow

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
)

// BestEffort makes a step which the flow can do without, such as a message to a customer. BestEffort works
// like [Step], with two differences. The flow does not wait for an unknown operation. The flow does not fail for an
// operation whose answer is gone or was cut off.
//
// In both cases BestEffort returns do's error. errors.Is finds [onceward.ErrOutcomeUnknown] or
// [onceward.ErrAnswerGone]. The step is then over. Later runs get the same error from the record and do not call do
// again, even if the operation is settled later. The flow still waits for an operation which is pending, in flight or
// on hold, because the operation may still be sent. Any other error from do counts as in a [Step].
//
// The step has no undo. If the flow is given up, it is undone even with an unknown operation in the step.
func BestEffort[T any](ctx context.Context, name string, do func(context.Context) (T, error)) (T, error) {
	if p, reason := placeOf(ctx), checkResult(reflect.TypeFor[T]()); p != nil && reason != "" {
		var zero T
		return zero, (&step{run: p.run, name: name}).misuse(reason, nil)
	}
	came, err := makeStep(ctx, name, journal.StepDone, true, func(ctx context.Context, st *step) ([]byte, error) {
		result, err := do(ctx)
		if err == nil {
			return st.encode(attempt[T]{Result: result})
		}
		if ends := st.doesWithout(ctx, err); ends != nil {
			return st.encode(attempt[T]{Failure: encodeFailure(ends)})
		}
		return nil, err
	}, []StepOption[attempt[T]]{})
	if err == nil && came.Failure != nil {
		err = recall(came.Failure)
	}
	return came.Result, err
}

// attempt is a BestEffort step's result or failure.
type attempt[T any] struct {
	Result  T               `json:"result"`
	Failure json.RawMessage `json:"failure,omitempty"`
}

// doesWithout returns the error that ends the step after err, if an operation is unknown or an answer is gone. The error
// is nil without such an operation, or if the step was broken off.
func (st *step) doesWithout(ctx context.Context, err error) error {
	st.calls.end()
	st.calls.mu.Lock()
	defer st.calls.mu.Unlock()
	r := st.run
	if st.broken(err) != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ops, failed := r.operationsOf(ctx, st)
	for i := range ops {
		if failed == nil && ops[i].State == journal.StateUnknown {
			return errors.Join(err, noAnswer(r.runner.client, &ops[i]))
		}
	}
	if len(st.calls.lacking) > 0 && failed == nil {
		return errors.Join(err, onceward.ErrAnswerGone)
	}
	return nil
}
