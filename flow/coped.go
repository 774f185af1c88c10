package flow

import (
	"bytes"
	"context"
	"slices"

	"github.com/onceward/onceward/journal"
)

// coped is the latest record of a step's failure before the function went on, and the number of such records.
type coped struct {
	result []byte
	times  int
}

// maxCoped bounds the records for an error which differs in each run, such as a text with the time.
const maxCoped = 10

// copedWith returns the failed steps whose failure is not recorded yet. copedWith leaves out a step with an answered
// operation, which gives the reason once more. Without the record, the function could go another way while the flow
// is undone. copedWith is called under mu.
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

// copes records, before this step is made, how the function went on from failed steps, because the flow may be given up
// later. copes is called under mu.
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

// stays reports whether a step's failure is permanent. This is so if the flow is being undone or has ended. It is so too
// if a later step is done or began an operation, for instance by another card. The caller holds mu.
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

// stillTells reports whether a failed step has an operation which is not cancelled. The answer still says what became of
// the operation, such as a late effect. stillTells is called under mu.
func (r *run) stillTells(ctx context.Context, name string) (bool, error) {
	ops, err := r.operationsOf(ctx, &step{id: name})
	if err != nil {
		return false, r.unread(name, err)
	}
	return slices.ContainsFunc(ops, func(op journal.Operation) bool { return op.State != journal.StateCancelled }), nil
}
