package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// reference is how an operation or flow is called on the command line.
type reference struct {
	scope, parent, flow string
	literal             bool
}

func (r *reference) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.scope, "scope", "", "the scope of the name")
	cmd.Flags().StringVar(&r.parent, "parent", "", "the parent of the name, as ls -o json shows it")
	cmd.Flags().BoolVar(&r.literal, "literal", false, "the argument is a name, though it looks like a handle (#12)")
}

// operationFlags are the flags of a command about an operation.
func (r *reference) operationFlags(cmd *cobra.Command) {
	r.flags(cmd)
	cmd.Flags().StringVar(&r.flow, "flow", "", "the flow that it is a step of: its name, or its handle (#12)")
}

// handle is the number in an argument such as #12.
func (r *reference) handle(arg string) (n int64, is bool) {
	digits, found := strings.CutPrefix(arg, "#")
	if !found || r.literal {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n > 0
}

func (r *reference) ref(arg string) journal.Ref {
	return journal.Ref{Scope: r.scope, Parent: r.parent, ID: arg}
}

// operation returns the whole operation.
func (r *reference) operation(ctx context.Context, s store, arg string) (journal.Operation, error) {
	if r.flow != "" {
		f, err := (&reference{scope: r.scope, parent: r.parent}).anyFlow(ctx, s, r.flow)
		if err != nil {
			return journal.Operation{}, err
		}
		r.scope, r.parent = f.Scope, seam.ParentOf(&f)
	}
	ref := r.ref(arg)
	if n, is := r.handle(arg); is {
		found := false
		for op, err := range s.List(ctx, journal.Filter{After: n - 1, Before: n + 1, Limit: 1}) {
			if err != nil {
				return op, err
			}
			ref, found = op.Ref, op.Handle == n
		}
		if !found {
			return journal.Operation{}, notFound("there is no operation %s in this journal: it was reaped, or is another journal's", shown.Text(arg))
		}
	}
	op, err := s.Get(ctx, ref)
	if errors.Is(err, journal.ErrNotFound) {
		return op, notFound("there is no operation %s in this journal; ls shows them, and --scope and --parent, or --flow, are parts of a name", shown.Text(arg))
	}
	return op, err
}

// anyFlow returns the whole flow.
func (r *reference) anyFlow(ctx context.Context, s store, arg string) (journal.Flow, error) {
	ref := r.ref(arg)
	if n, is := r.handle(arg); is {
		found := false
		for f, err := range s.ListFlows(ctx, journal.FlowFilter{}) {
			if err != nil {
				return f, err
			}
			if found = f.Handle == n; found {
				ref = f.Ref
				break
			}
		}
		if !found {
			return journal.Flow{}, notFound("there is no flow %s in this journal", shown.Text(arg))
		}
	}
	f, err := s.GetFlow(ctx, ref)
	if errors.Is(err, journal.ErrNotFound) {
		return f, notFound("there is no flow %s in this journal; flows shows them, and --scope and --parent are parts of a name", shown.Text(arg))
	}
	return f, err
}
