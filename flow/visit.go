package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// step is one visit of a step.
type step struct {
	run      *run
	name     string
	id       string // the name for the step's operations
	kind     journal.StepKind
	position int
	parallel bool
	executes bool           // do is to be called
	result   []byte         // recorded before
	stated   bool           // a person stated the result
	recorded bool           // the record was committed with the step's own writes
	doubted  bool           // it is not known whether the commit landed
	undoes   bool           // the visit is a step's undo
	spare    bool           // the flow goes on, and is undone, though an operation stays unknown
	onlyTold bool           // calls are answered from the journal, and no other is made
	effects  []onceward.Ref // with onlyTold: the step's operations with an effect
	failed   error          // the step's recorded error, which the function gets again even if it names an undo

	calls stepCalls
}

// enterStep finds a step's record, or lets the step be made.
func enterStep(ctx context.Context, name string, kind journal.StepKind, spare bool) (*step, error) {
	p := placeOf(ctx)
	if p == nil {
		return nil, &Error{Step: name, Kind: ErrStep, Err: errors.New("its context belongs to no flow: use the one that the flow's function gets")}
	}
	r := p.run
	st := &step{run: r, name: name, id: name, kind: kind, spare: spare, position: p.section, parallel: p.section != 0}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault != nil && (r.fault.final || !st.parallel) {
		return nil, r.tell(r.fault.told)
	}
	if r.over {
		return nil, st.misuse("its flow's function has returned", nil)
	}
	if p.step != nil {
		return nil, st.misuse("it is made in the step "+p.step.name, nil)
	}
	if reason := checkStepName(name); reason != "" {
		return nil, st.misuse(reason, nil)
	}
	if st.parallel && !slices.Contains(p.steps, name) {
		return nil, st.misuse("it is not among the steps that Parallel was given", nil)
	}
	if r.visited[name] {
		return nil, st.misuse("an earlier step has its name", nil)
	}
	if !st.parallel {
		if r.sequent != "" {
			return nil, st.misuse("it runs at the same time as the step "+r.sequent+": run both by Parallel", nil)
		}
		r.position++
		st.position = r.position
	}
	rec := r.recorded[name]
	if rec != nil && rec.Kind == journal.StepFailed {
		if stays, err := r.stays(ctx, st, rec); err != nil {
			return nil, err
		} else if !stays {
			rec = nil
		}
	}
	switch there := r.at[st.position]; {
	case there != nil && there.Name != name && !(st.parallel && there.Parallel):
		return nil, st.changedTo(there.Name, fmt.Errorf("it is recorded where the function now makes %q", name))
	case rec != nil && (rec.Position != st.position || rec.Parallel != st.parallel):
		return nil, st.changedTo(name, fmt.Errorf("it is recorded as number %d of the sequence, and is number %d now", rec.Position, st.position))
	case rec != nil && rec.Kind != kind && rec.Kind != journal.StepFailed && !(rec.Kind == journal.StepByHand && kind == journal.StepDone):
		return nil, st.changedTo(name, fmt.Errorf("it is recorded as %s, and is %s now", rec.Kind, kind))
	}
	if kind != journal.StepDone && len(r.called[name]) > 0 {
		return nil, st.changedTo(name, fmt.Errorf("it has begun an operation, and a %s step makes none", kind))
	}
	r.visited[name] = true
	switch {
	case rec != nil && rec.Kind == journal.StepFailed && !r.flow.Undoing:
		return nil, recall(rec.Result)
	case rec != nil && rec.Kind == journal.StepFailed:
		// A cancelled operation may have been sent by a later run, or found to have taken effect.
		_, effects, err := r.blockedBy(ctx, st)
		if err != nil {
			return nil, err
		}
		st.failed = recall(rec.Result)
		if len(effects) == 0 {
			return nil, st.failed
		}
		st.onlyTold, st.effects = true, effects
	case rec != nil:
		st.result, st.stated = resultOf(rec), rec.Kind == journal.StepByHand
		if r.flow.Undoing {
			if _, _, err := r.blockedBy(ctx, st); err != nil {
				return nil, err
			}
		}
		return st, nil
	case r.replays:
		return nil, st.changedTo(name, errors.New("it is not recorded, though the flow came to its end"))
	case r.flow.Undoing:
		if err := r.mayStillTell(ctx, st); err != nil {
			return nil, err
		}
	case !r.core.Session.Holds(r.flow.Holder):
		return nil, r.stop(&fault{told: &Error{Step: name, Kind: onceward.ErrInFlight, Err: errors.New("the session is lost")}, final: true})
	case r.runner.isClosing():
		return nil, r.stop(&fault{told: &Error{Step: name, Kind: onceward.ErrPending, Err: onceward.ErrShutdown}, final: true})
	case r.ctx.Err() != nil:
		return nil, r.stop(r.interruption(r.ctx, context.Cause(r.ctx)))
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	default:
		if err := st.copes(ctx); err != nil {
			return nil, err
		}
	}
	st.executes = true
	r.making[st] = true
	if !st.parallel {
		r.sequent = name
	}
	return st, nil
}

// resultOf returns a recorded step's result as JSON.
func resultOf(rec *journal.StepRecord) []byte {
	if rec.Kind != journal.StepByHand {
		return rec.Result
	}
	var said struct {
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(rec.Result, &said) != nil || said.Result == nil {
		return []byte("null")
	}
	return said.Result
}

const undoName = "undo"

// maxStepName leaves room for an operation's name in the step.
const maxStepName = seam.MaxName / 2

func checkStepName(name string) string {
	switch {
	case name == "":
		return "it has no name"
	case len(name) > maxStepName:
		return fmt.Sprintf("its name has more than %d bytes", maxStepName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "its name is not UTF-8 or holds a control character"
	case strings.Contains(name, "/"):
		return "its name holds a slash"
	case name == undoName:
		return `the name "undo" is taken`
	}
	return ""
}

// within returns a context for the step's work.
func (st *step) within(ctx context.Context) context.Context {
	return context.WithValue(st.run.under(ctx, st), placeKey{}, &place{run: st.run, step: st})
}

func (st *step) make(ctx context.Context, do func(context.Context, *step) ([]byte, error)) (encoded []byte, err error) {
	left := false
	defer func() {
		if !left {
			_, _ = st.leave(ctx, nil, errors.New("it panicked"))
		}
	}()
	trace, inside := st.run.runner.trace, ctx
	if st.onlyTold { // the function may have cancelled ctx for a step that is not made any more, as an errgroup does
		told, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		defer context.AfterFunc(st.run.ctx, func() { cancel(context.Cause(st.run.ctx)) })()
		inside = told
	}
	if trace.StepStarted != nil {
		if traced := trace.StepStarted(inside, st.run.look(), st.name); traced != nil {
			inside = traced
		}
	}
	encoded, err = do(st.within(inside), st)
	left = true
	encoded, err = st.leave(ctx, encoded, err)
	if trace.StepEnded != nil {
		trace.StepEnded(inside, st.run.look(), st.name, err)
	}
	return encoded, err
}

func (st *step) encode(result any) ([]byte, error) {
	encoded, err := json.Marshal(result)
	if err != nil {
		return nil, st.misuse("its result can't be recorded", err)
	}
	return encoded, nil
}

func (st *step) misuse(reason string, err error) error {
	if err == nil {
		err = errors.New(reason)
	} else {
		err = fmt.Errorf("%s: %w", reason, err)
	}
	return &Error{Flow: Flow{Ref: st.run.ref}, Step: st.name, Kind: ErrStep, Err: err}
}

// changedTo is called under mu.
func (st *step) changedTo(name string, err error) error {
	return st.run.stop(&fault{told: &Error{Step: name, Kind: ErrChanged, Err: err}, final: true, fails: true})
}

func (st *step) changed(err error) error {
	st.run.mu.Lock()
	defer st.run.mu.Unlock()
	return st.changedTo(st.name, err)
}

// leave ends a made step, and notes the result or the fault.
func (st *step) leave(ctx context.Context, result []byte, err error) ([]byte, error) {
	r := st.run
	f := st.inTheWay(ctx, err)
	r.mu.Lock()
	delete(r.making, st)
	if !st.parallel {
		r.sequent = ""
	}
	rec := journal.StepRecord{Kind: st.kind, Name: st.name, Position: st.position, Parallel: st.parallel, Result: result, At: r.core.Now()}
	err = st.wayOut(err)
	switch {
	case f != nil:
		defer r.mu.Unlock()
		return nil, r.stop(f)
	case err != nil && len(st.effects) > 0 && !st.spare && !saysNoEffect(err):
		defer r.mu.Unlock()
		return nil, r.stop(&fault{fails: true, told: &Error{Step: st.name, Kind: ErrUndoBlocked,
			Err: fmt.Errorf("operation %s took effect, and its step fails, so its undo is unknown: mark a refusal by NoEffect, or give the step's result by ResolveStep: %w", st.effects[0].ID, err)}})
	case err != nil:
		defer r.mu.Unlock()
		rec.Kind, rec.Result = journal.StepFailed, encodeFailure(err)
		r.failed[st.name] = rec
		return nil, err
	}
	r.mu.Unlock()
	if st.recorded || st.failed != nil {
		return result, nil
	}
	if err := st.note(ctx, rec); err != nil {
		return nil, err
	}
	return result, nil
}

// wayOut adds the remedy to a step's error if the step lacks an answer.
func (st *step) wayOut(err error) error {
	st.calls.mu.Lock()
	defer st.calls.mu.Unlock()
	return st.lacking(err)
}

// lacking is wayOut under the calls' mu.
func (st *step) lacking(err error) error {
	if err == nil || len(st.calls.lacking) == 0 {
		return err
	}
	return &Error{Flow: Flow{Ref: st.run.ref}, Step: st.name, Kind: onceward.ErrAnswerGone,
		Err: fmt.Errorf("supply it by Resolve, or give the result of step %q by ResolveStep: %w", st.id, err)}
}

// note adds a record, which is durable when note returns.
func (st *step) note(ctx context.Context, rec journal.StepRecord) error {
	r := st.run
	r.mu.Lock()
	err := st.record(ctx, rec)
	if err == nil {
		rec.Seq = r.seq
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	r.stepped(rec)
	return nil
}

// record is called under mu, so records are noted in order.
func (st *step) record(ctx context.Context, rec journal.StepRecord) error {
	r := st.run
	if r.over && !st.undoes {
		return st.misuse("its flow's function has returned", nil)
	}
	r.seq++
	rec.Seq = r.seq
	r.flow.Steps = append(r.flow.Steps, rec)
	ev := r.underClaim(machine.FlowEvent{Kind: machine.FlowEventRecord, Steps: slices.Clip(r.flow.Steps[len(r.flow.Steps)-1:])})
	ctx, cancel := grace.After(ctx)
	defer cancel()
	if _, err := r.store.ApplyFlow(ctx, ev); err != nil {
		return r.stop(&fault{told: &Error{Step: st.name, Kind: onceward.ErrJournal, Err: err}, final: true})
	}
	return nil
}

// look returns the flow's present state.
func (r *run) look() Flow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return flowOf(&r.flow)
}

// stepped calls Trace's hook for a record.
func (r *run) stepped(rec journal.StepRecord) {
	if r.runner.trace.Stepped == nil || rec.Kind == journal.StepCall {
		return
	}
	rec.Result = bytes.Clone(rec.Result)
	r.runner.trace.Stepped(r.look(), rec)
}
