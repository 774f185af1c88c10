package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/onceward/onceward/journal"
)

// function runs flows. The input is the recorded one. The result is JSON, or nil if there is none.
type function struct {
	journal.FlowFunction
	run   func(ctx context.Context, input []byte) (result []byte, err error)
	unfit string // why the result can't be recorded; "" if it can
}

// Definition is a function with a name and version for Resume and Run. Define makes a Definition.
type Definition interface {
	function() *function
}

// Func is a flow's function from an In to an Out, with a name and a version, safe for concurrent use.
type Func[In, Out any] struct{ f function }

// Define gives a flow's function a name and a version. Put the result into Config.Definitions, or give it to
// Runner.Register, so Resume and Run find the function. Versions count from 1.
//
// While flows of a version may be under way, keep this version's function registered too, with the same steps. A
// record is never fitted to a function with other steps (see ErrChanged).
//
// The input is recorded as JSON, and do gets the decoded record. An input which no longer decodes, or which has a field
// which In lacks, is ErrInput. The result is recorded when do returns, by the rules for a Step's result. A function
// without a result returns a struct{}.
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
				return nil, &Error{Kind: ErrStep, Err: fmt.Errorf("the flow's result can't be recorded: %w", err)}
			}
			return encoded, nil
		},
	}}
}

func (d *Func[In, Out]) function() *function { return &d.f }
