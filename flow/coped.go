package flow

import (
	"bytes"
	"context"
	"slices"

	"github.com/onceward/onceward/journal"
)

// coped is how a step failed whose function went on, as it was recorded last, and how often it was.
type coped struct {
	result []byte
	times  int
}

// maxCoped keeps a flow that is run again and again from growing by an error that tells the time.
const maxCoped = 10

// copedWith are the steps that failed, of which that is not recorded, and have no answered operation, by which they
// would tell why once more: the function could go another way while it is undone. It is called under mu.
func (r *run) copedWith(ctx context.Context) (steps []journal.StepRecord, err error) {
	for name, rec := range r.failed {
		if bytes.Equal(r.coped[name].result, rec.Result) {
			continue
		}
		tells, err := r.stillTells(ctx, name)
		if err != nil {
			return nil, err
		}
		if !tells {
			steps = append(steps, rec)
		}
	}
	slices.SortFunc(steps, byPosition)
	return steps, nil
}

// copes records that the function has gone on from steps that failed, before it makes this one: somebody may give
// the flow up later. It is called under mu.
func (st *step) copes(ctx context.Context) error {
	r := st.run
	steps, err := r.copedWith(ctx)
	if err != nil {
		return err
	}
	for _, rec := range steps {
		before := r.coped[rec.Name]
		if before.times == maxCoped {
			continue
		}
		if err := st.record(ctx, rec); err != nil {
			return err
		}
		r.coped[rec.Name] = coped{rec.Result, before.times + 1}
	}
	return nil
}

// stays tells whether a step that failed stays so: where the flow is undone, or has come to its end; else where the
// function went on, and a later step is done or began an operation, by another card for instance. It is called under mu.
func (r *run) stays(ctx context.Context, st *step, rec *journal.StepRecord) (bool, error) {
	switch {
	case rec.Position != st.position: // a later run went another way
		return false, nil
	case r.replays || r.flow.Undoing:
		return true, nil
	case !slices.ContainsFunc(r.flow.Steps, func(s journal.StepRecord) bool {
		return s.Position > st.position && s.Kind != journal.StepFailed && s.Kind != journal.StepUndone
	}):
		return false, nil
	}
	tells, err := r.stillTells(ctx, st.name)
	return err == nil && !tells, err
}

// stillTells reports whether a step that failed has an operation that is not cancelled, and tells by its answer what became
// of it, such as that it took effect after all. It is called under mu.
func (r *run) stillTells(ctx context.Context, name string) (bool, error) {
	ops, err := r.operationsOf(ctx, &step{id: name})
	if err != nil {
		return false, r.unread(name, err)
	}
	return slices.ContainsFunc(ops, func(op journal.Operation) bool { return op.State != journal.StateCancelled }), nil
}
