package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// undo is what undoes one step.
type undo struct {
	step *step
	do   func(context.Context, *step) error
}

func (st *step) keepUndo(do func(context.Context, *step) error) {
	st.run.mu.Lock()
	defer st.run.mu.Unlock()
	st.run.undos = append(st.run.undos, undo{st, do})
}

// giveUp records that the flow's own function gives the flow up, and goes on to undo the flow. The function runs again,
// so the steps name their undos.
func (r *run) giveUp(ctx context.Context, why error) error {
	r.mu.Lock()
	steps, err := r.copedWith(ctx)
	r.mu.Unlock()
	if err != nil {
		return r.park(ctx, r.fault)
	}
	steps = append(steps, journal.StepRecord{Kind: journal.StepGaveUp, Result: encodeFailure(why), At: r.core.Now()})
	r.number(steps)
	res, err := r.apply(ctx, machine.FlowEvent{Kind: machine.FlowEventGiveUp, Cause: recordable(why), Steps: steps})
	switch {
	case err != nil:
		// Recorded or not, the claim ends: else no process would undo it.
		return r.park(ctx, &fault{told: &Error{Kind: onceward.ErrJournal, Err: err}, due: r.core.Now().Add(askAgain)})
	case res.Decision != machine.Recorded:
		return r.tell(&Error{Kind: onceward.ErrInFlight, Err: errors.New("the claim is no longer held")})
	}
	return r.again(ctx, why)
}

// unread ends the run if the journal can't say what became of a step. unread is called under mu.
func (r *run) unread(step string, err error) error {
	return r.stop(&fault{told: &Error{Step: step, Kind: onceward.ErrJournal, Err: err}, final: true, due: r.core.Now().Add(askAgain)})
}

// again runs the function to undo the flow.
func (r *run) again(ctx context.Context, why error) error {
	_, err := r.runner.newRun(&r.flow, false).work(ctx, r.function)
	if told, ok := err.(*Error); ok && told.Kind == ErrGivenUp {
		told.Err = why
	}
	return err
}

// operationsOf lists a step's possible operations, in the present state. The list is whole even if the flow's function
// has cancelled the context, as an errgroup does.
func (r *run) operationsOf(ctx context.Context, st *step) (ops []journal.Operation, err error) {
	return r.operations(ctx, r.called[st.id])
}

// refOf returns the reference of one of the flow's operations.
func (r *run) refOf(id string) onceward.Ref {
	return onceward.Ref{Scope: r.ref.Scope, Parent: r.parent.Ref, ID: id}
}

func (r *run) operations(ctx context.Context, ids []string) (ops []journal.Operation, err error) {
	ctx, cancel := grace.After(ctx)
	defer cancel()
	for _, id := range ids {
		op, err := r.core.Journal.Get(ctx, r.refOf(id))
		switch {
		case err == nil:
			ops = append(ops, op)
		case !errors.Is(err, journal.ErrNotFound):
			return nil, err
		}
	}
	return ops, nil
}

// blockedBy returns an error if an operation in the step blocks the flow's undo: the operation has no outcome, and might
// still take effect. Otherwise blockedBy returns the number of operations with an answer, and the operations with an
// effect. blockedBy is called under mu.
func (r *run) blockedBy(ctx context.Context, st *step) (answers int, effects []onceward.Ref, err error) {
	ops, err := r.operationsOf(ctx, st)
	if err != nil {
		return 0, nil, r.unread(st.name, err)
	}
	for _, op := range ops {
		switch {
		case r.cancelsUnsent(ctx, &op, "the flow is given up, and it was not sent"):
		case st.spare && !mayBeSent(op.State, op.Resolved):
		case !op.State.Settled():
			open := noAnswer(r.runner.client, &op)
			f := r.waitFor(st.name, &open.Operation, open, lookAgainMost)
			f.told.Kind = ErrUndoBlocked
			return 0, nil, r.stop(f)
		case op.State == journal.StateCompleted:
			answers++
			if tookEffect(r.core, &op) {
				effects = append(effects, op.Ref)
			}
		}
	}
	return answers, effects, nil
}

// cancelsUnsent cancels a pending, unsent operation which the flow does not want any more: perhaps no other caller could
// send it. The result is false if another process claimed the operation meanwhile, or if the journal fails. The flow
// then waits for the operation.
func (r *run) cancelsUnsent(ctx context.Context, op *journal.Operation, why string) bool {
	if op.State != journal.StatePending || op.MayHaveRun || !r.core.Session.Holds(r.flow.Holder) {
		return false
	}
	ctx, cancel := grace.After(ctx)
	defer cancel()
	res, err := r.core.Journal.Apply(ctx, machine.Event{
		Kind: machine.EventResolve, Ref: op.Ref, Handle: op.Handle, At: r.core.Now(),
		Resolution: journal.NotExecuted, Generation: op.Generation, Claim: op.Claim,
		By: "flow " + r.flow.ID, Cause: why, Delivered: true,
	})
	return err == nil && res.Decision == machine.Recorded
}

// mayStillTell lets an unrecorded step name its undo, or the reason why the function went another way, if one of the
// operations has an answer. The journal then answers the step's calls. Any other such step is not made. mayStillTell
// is called under mu.
func (r *run) mayStillTell(ctx context.Context, st *step) error {
	answers, effects, err := r.blockedBy(ctx, st)
	if err != nil {
		return err
	}
	if answers == 0 || st.kind != journal.StepDone {
		return r.tell(&Error{Step: st.name, Kind: ErrGivenUp})
	}
	st.onlyTold, st.effects = true, effects
	return nil
}

// unaccounted ends the run if an operation took effect, or still may, in a step out of the function's reach.
func (r *run) unaccounted(ctx context.Context) error {
	for name := range r.called {
		if r.visited[name] || strings.HasPrefix(name, undoName+"/") {
			continue
		}
		r.mu.Lock()
		_, effects, err := r.blockedBy(ctx, &step{run: r, name: name, id: name})
		r.mu.Unlock()
		if err != nil {
			return r.park(ctx, r.fault)
		}
		if len(effects) > 0 {
			return r.fail(ctx, &Error{Step: name, Kind: ErrUndoBlocked,
				Err: fmt.Errorf("operation %s took effect, and the function does not reach the step that undoes it", effects[0].ID)})
		}
	}
	return nil
}

// undo undoes the steps, latest first. f is the fault which kept the function from ending, and missing is a recorded
// step which the function did not make.
func (r *run) undo(ctx context.Context, f *fault, missing string) error {
	switch {
	case f != nil && f.fails:
		return r.fail(ctx, f.told)
	case f != nil:
		return r.park(ctx, f)
	case missing != "":
		return r.fail(ctx, &Error{Step: missing, Kind: ErrChanged, Err: errors.New("it is recorded, and the function does not tell how to undo it")})
	}
	if err := r.unaccounted(ctx); err != nil {
		return err
	}
	seqs := map[string]int{}
	for _, s := range r.flow.Steps {
		if s.Kind == journal.StepDone || s.Kind == journal.StepLocal || s.Kind == journal.StepByHand {
			seqs[s.Name] = s.Seq
		}
	}
	slices.SortFunc(r.undos, func(a, b undo) int { return seqs[b.step.name] - seqs[a.step.name] })
	for _, u := range r.undos {
		if r.undone[u.step.name] {
			continue
		}
		st := &step{run: r, name: u.step.name, id: undoName + "/" + u.step.name, kind: journal.StepUndone, undoes: true}
		f, err := st.undo(ctx, u.do)
		switch {
		case f != nil && f.fails:
			return r.fail(ctx, f.told)
		case f != nil:
			return r.park(ctx, f)
		case err != nil:
			return r.fail(ctx, &Error{Step: st.name, Kind: ErrFailed, Err: fmt.Errorf("its undo: %w", st.wayOut(err))})
		}
		if st.recorded {
			continue
		}
		if err := st.note(ctx, journal.StepRecord{Kind: st.kind, Name: st.name, At: r.core.Now()}); err != nil {
			return r.park(ctx, r.fault)
		}
	}
	return r.end(ctx, machine.FlowEvent{Kind: machine.FlowEventUndo}, &Error{Kind: ErrGivenUp, Err: gaveUpFor(r.flow.Steps)})
}

// undo undoes one step. The calls are over when undo returns, even if do or a hook panics, and the provider's requested
// delay is kept.
func (st *step) undo(ctx context.Context, do func(context.Context, *step) error) (f *fault, err error) {
	left := false
	defer func() {
		if !left {
			st.inTheWay(ctx, errors.New("it panicked"))
		}
	}()
	err = do(st.within(ctx), st)
	left = true
	return st.inTheWay(ctx, err), err
}
