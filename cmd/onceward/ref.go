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

// reference is an operation's or flow's name on the command line.
type reference struct {
	scope, parent, flow string
	literal             bool
}

func (r *reference) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.scope, "scope", "", "the scope of the name")
	cmd.Flags().StringVar(&r.parent, "parent", "", "the parent of the name, as ls -o json shows it")
	cmd.Flags().BoolVar(&r.literal, "literal", false, "the argument is a name, though it looks like a handle (#12)")
}

// operationFlags are the flags for a command about an operation.
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

// operation returns the whole operation. If a key is missing, operation returns the other fields with ErrSealed.
func (r *reference) operation(ctx context.Context, s store, arg string) (journal.Operation, error) {
	if r.flow != "" {
		f, err := (&reference{scope: r.scope, parent: r.parent}).anyFlow(ctx, s, r.flow)
		if unlessSealed(err) != nil {
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
	return op, found(err, "there is no operation %s in this journal; ls shows them with their handles, such as '#12', and a name may need its --scope and --parent, or --flow", shown.Text(arg))
}

// anyFlow returns the whole flow. A name without a scope and a parent finds a flow below any of them, if no other has
// it. If a key is missing, anyFlow returns the other fields with ErrSealed.
func (r *reference) anyFlow(ctx context.Context, s store, arg string) (journal.Flow, error) {
	f, err := s.GetFlow(ctx, r.ref(arg))
	n, byHandle := r.handle(arg)
	if !byHandle && (!errors.Is(err, journal.ErrNotFound) || r.scope != "" || r.parent != "") {
		return f, found(err, "there is no flow %s in this journal; flows shows them, and --scope and --parent are parts of a name", shown.Text(arg))
	}
	filter, refs := journal.FlowFilter{ID: arg, Limit: 2}, []journal.Ref(nil)
	if byHandle {
		filter = journal.FlowFilter{}
	}
	for f, err := range s.ListFlows(ctx, filter) {
		if err != nil {
			return f, err
		}
		if !byHandle || f.Handle == n {
			refs = append(refs, f.Ref)
		}
	}
	switch len(refs) {
	case 0:
		return journal.Flow{}, notFound("there is no flow %s in this journal; flows shows them", shown.Text(arg))
	case 1:
		return s.GetFlow(ctx, refs[0])
	}
	return journal.Flow{}, usage("several flows are called %s: take one by its handle, which flows --name shows", shown.Text(arg))
}

// found returns err, or an error with the given text if err is journal.ErrNotFound.
func found(err error, format string, args ...any) error {
	if errors.Is(err, journal.ErrNotFound) {
		return notFound(format, args...)
	}
	return err
}
