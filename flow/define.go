package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/onceward/onceward/journal"
)

// function runs flows. Its input is the recorded one, and what it returns is JSON, or
// nil of one that returns nothing.
type function struct {
	journal.FlowFunction
	run   func(ctx context.Context, input []byte) (result []byte, err error)
	unfit string // why what it returns can't be recorded; "": it can
}

// Definition is a function that Resume and Run know by name and version: see
// Define, which makes them.
type Definition interface {
	function() *function
}

// Func is a flow's function that takes an In and returns an Out, under a name and a
// version. It is safe for concurrent use.
type Func[In, Out any] struct{ f function }

// Define gives a flow's function a name and a version, by which Resume and Run find
// it again: put it into Config.Definitions, or give it to Runner.Register. As long as flows that were begun under a version
// may be under way, keep the function of that version there, too, unchanged in its
// steps: what is recorded is never fitted to a function with other steps (see
// ErrChanged). Versions count from 1.
//
// The input is recorded as JSON; do gets it as it comes back from there. One that no
// longer decodes, or has a field that In lacks, is ErrInput. What do returns is
// recorded likewise once it comes to its end, under the terms of a Step's result; a function
// that has nothing to return returns a struct{}.
func Define[In, Out any](name string, version int, do func(context.Context, In) (Out, error)) *Func[In, Out] {
	return &Func[In, Out]{function{
		FlowFunction: journal.FlowFunction{Name: name, Version: version},
		unfit:        checkResult(reflect.TypeFor[Out]()),
		run: func(ctx context.Context, input []byte) ([]byte, error) {
			var in In
			if err := decodeStrictly(input, &in); err != nil {
				return nil, &Error{Kind: ErrInput, Err: err}
			}
			out, err := do(ctx, in)
			if err != nil {
				return nil, err
			}
			encoded, err := json.Marshal(out)
			if err != nil {
				return nil, &Error{Kind: ErrStep, Err: fmt.Errorf("what the flow returns can't be recorded: %w", err)}
			}
			return encoded, nil
		},
	}}
}

func (d *Func[In, Out]) function() *function { return &d.f }

// Run runs the flow with the name id, as Runner.Do does, and returns what its function
// returned: what is recorded of that, for everybody who asks. Asked for after its end the
// function is not called any more, unless an earlier release brought the flow there. A flow
// that was begun under another version goes on under that one. The function has to be
// registered with r, else the error is ErrUnregistered.
func (d *Func[In, Out]) Run(ctx context.Context, r *Runner, id string, in In) (Out, error) {
	var zero, out Out
	ref, _, _, _ := r.client.Name(ctx, id)
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
			Err: fmt.Errorf("what is recorded of its result does not fit: %w", err)}
	}
	return out, nil
}
