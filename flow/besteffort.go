package flow

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
)

// BestEffort makes a step that the rest of the flow can do without, such as a message to a customer. It is as [Step] is, but
// the flow does not wait for an operation of it that is unknown, nor fail for one whose answer is gone or was cut off.
//
// BestEffort then returns do's error, in which errors.Is finds [onceward.ErrOutcomeUnknown] or [onceward.ErrAnswerGone]. The
// step is over: later runs get the same error from the record, and do is not called again, whatever becomes of the
// operation. An operation that is pending, in flight or on hold is waited for, as it may still be sent. Any other error of do's is
// that of a [Step].
//
// The step has no undo. A flow that is given up is undone though an operation of it is unknown.
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

// attempt is what came of a step that the flow can do without.
type attempt[T any] struct {
	Result  T               `json:"result"`
	Failure json.RawMessage `json:"failure,omitempty"`
}

// doesWithout returns the error that ends a step which failed with err, if an operation of the step is unknown or its answer
// is gone. It returns nil if there is no such operation, or if the step was broken off.
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
			return errors.Join(err, noAnswer(r.client, &ops[i]))
		}
	}
	if st.calls.lacking && failed == nil {
		return errors.Join(err, onceward.ErrAnswerGone)
	}
	return nil
}
