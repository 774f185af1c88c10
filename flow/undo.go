package flow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
)

// undo is what undoes one step.
type undo struct {
	step *step
	do   func(context.Context) error
}

func (st *step) keepUndo(do func(context.Context) error) {
	st.run.mu.Lock()
	defer st.run.mu.Unlock()
	st.run.undos = append(st.run.undos, undo{st, do})
}

// giveUp records that the flow is given up by its own function, and goes on to undo it:
// the function is run again, so that its steps tell what undoes them.
func (r *run) giveUp(ctx context.Context, why error) error {
	r.mu.Lock()
	steps, err := r.copedWith(ctx)
	r.mu.Unlock()
	if err != nil {
		return r.park(ctx, r.fault)
	}
	steps = append(steps, journal.StepRecord{Kind: journal.StepGaveUp, Result: encodeFailure(why), At: r.client.Now()})
	r.number(steps)
	res, err := r.apply(ctx, journal.FlowEvent{Kind: journal.FlowEventGiveUp, Cause: recordable(why), Steps: steps})
	switch {
	case err != nil:
		// Recorded or not, the claim ends: else nobody would undo it.
		return r.park(ctx, &fault{told: &Error{Kind: onceward.ErrJournal, Err: err}, due: r.client.Now().Add(askAgain)})
	case res.Decision != journal.Recorded:
		return r.tell(&Error{Kind: onceward.ErrInFlight, Err: errors.New("the claim is no longer held")})
	}
	return r.again(ctx, why)
}

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
		ops, err := r.operationsOf(ctx, &step{id: name})
		if err != nil {
			return nil, r.unread(name, err)
		}
		if !slices.ContainsFunc(ops, func(op journal.Operation) bool { return op.State != journal.StateCancelled }) {
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
	ops, err := r.operationsOf(ctx, st)
	if err != nil {
		return false, r.unread(st.name, err)
	}
	// One that was found to have taken effect tells so by its answer.
	return !slices.ContainsFunc(ops, func(op journal.Operation) bool { return op.State != journal.StateCancelled }), nil
}

// unread ends the run where the journal does not say what became of a step. It is called under mu.
func (r *run) unread(step string, err error) error {
	return r.stop(&fault{told: &Error{Step: step, Kind: onceward.ErrJournal, Err: err}, final: true, due: r.client.Now().Add(askAgain)})
}

// again runs the function in its undoing.
func (r *run) again(ctx context.Context, why error) error {
	_, err := r.runner.newRun(&r.flow, false).work(ctx, r.function)
	if told, ok := err.(*Error); ok && told.Kind == ErrGivenUp {
		told.Err = why
	}
	return err
}

// operationsOf lists the operations that a step may have asked for, as they stand. A
// context that the flow's function has cancelled, as an errgroup does, hides none.
func (r *run) operationsOf(ctx context.Context, st *step) (ops []journal.Operation, err error) {
	ctx = context.WithoutCancel(ctx)
	for _, id := range r.called[st.id] {
		op, err := r.client.Journal().Get(ctx, onceward.Ref{Scope: r.flow.Scope, Parent: r.parent.Ref, ID: id})
		switch {
		case err == nil:
			ops = append(ops, op)
		case !errors.Is(err, journal.ErrNotFound):
			return nil, err
		}
	}
	return ops, nil
}

// blockedBy is an operation of a step that keeps the flow from being undone: it has no
// outcome, and might still take effect. It tells of those that have an answer, and of
// those among them that took effect. It is called under mu.
func (r *run) blockedBy(ctx context.Context, st *step) (answers int, effects []onceward.Ref, err error) {
	ops, err := r.operationsOf(ctx, st)
	if err != nil {
		return 0, nil, r.unread(st.name, err)
	}
	for _, op := range ops {
		switch {
		case op.State == journal.StatePending && !op.MayHaveRun && r.cancelsUnsent(ctx, &op):
		case !op.State.Settled():
			open := noAnswer(r.client, &op)
			f := r.waitFor(st.name, &open.Operation, nil)
			f.told.Kind, f.told.Err = ErrUndoBlocked, open
			return 0, nil, r.stop(f)
		case op.State == journal.StateCompleted:
			answers++
			if r.client.TookEffect(&op) {
				effects = append(effects, op.Ref)
			}
		}
	}
	return answers, effects, nil
}

// cancelsUnsent cancels a pending operation of which nothing has run: its flow is given up,
// and would have to undo it. Perhaps nobody else could send it, or ask for it, any more.
// It is false where somebody set out to send it meanwhile, or the journal fails: then it is
// waited for.
func (r *run) cancelsUnsent(ctx context.Context, op *journal.Operation) bool {
	res, err := r.client.Journal().Apply(context.WithoutCancel(ctx), journal.Event{
		Kind: journal.EventResolve, Ref: op.Ref, Handle: op.Handle, At: r.client.Now(),
		Resolution: journal.NotExecuted, Generation: op.Generation, Claim: op.Claim,
		By: "flow " + r.flow.ID, Cause: "the flow is given up, and it was not sent", Delivered: true,
	})
	return err == nil && res.Decision == journal.Recorded
}

// mayStillTell lets a step that is not recorded tell what undoes it, or why the function
// went another way, where one of its operations has an answer: its calls are answered
// from the journal. Else it is not made. It is called under mu.
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

// unaccounted ends the run if an operation of a step that the function did not come to
// took effect, or still may.
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
				Err: fmt.Errorf("operation %s took effect, and the function does not come to the step that could tell what undoes it", effects[0].ID)})
		}
	}
	return nil
}

// undo undoes what the steps made, latest first. f is what kept the function from its
// end, and missing a recorded step that it did not make.
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
		err := u.do(st.within(ctx))
		f := st.inTheWay(ctx, err)
		switch {
		case f != nil && f.fails:
			return r.fail(ctx, f.told)
		case f != nil:
			return r.park(ctx, f)
		case err != nil:
			return r.fail(ctx, &Error{Step: st.name, Kind: ErrFailed, Err: fmt.Errorf("its undo: %w", st.wayOut(err))})
		}
		if err := st.note(ctx, journal.StepRecord{Kind: st.kind, Name: st.name, At: r.client.Now()}); err != nil {
			return r.park(ctx, r.fault)
		}
	}
	return r.end(ctx, journal.FlowEvent{Kind: journal.FlowEventUndo}, &Error{Kind: ErrGivenUp, Err: gaveUpFor(r.flow.Steps)})
}
